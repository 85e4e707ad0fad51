"""The view of findings, with evidence and advice."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.health.acknowledged import Place
from gpudash.analysis.usage import no_gpus_text
from gpudash.model.device import Device
from gpudash.model.snapshot import Finding, FindingLevel
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.acknowledge import ask
from gpudash.tui.draw.findings import whole
from gpudash.tui.draw.grid import within_margins
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import FINDINGS_KEYS, VIEW_KEYS, Key
from gpudash.tui.views.process import ProcessView
from gpudash.tui.views.view import View


class FindingCursor:
    """A cursor that stays on its finding while processes and devices join and leave it.

    It stays at its index when the finding is gone, and returns to one that only some samples left
    out.
    """

    def __init__(self) -> None:
        self.index = 0
        self.finding: Finding | None = None
        """Its finding, as last seen."""
        self._missed: Finding | None = None

    def follow(self, findings: Sequence[Finding]) -> None:
        """Update it for the findings of another sample."""
        missed, here = (_index_of(each, findings) for each in (self._missed, self.finding))
        if missed is not None:
            self._missed = None
        elif here is None and self._missed is None:
            self._missed = self.finding
        self._stand_on(findings, self.index if here is None else here)
        if missed is not None:
            self._stand_on(findings, missed)

    def move_to(self, index: int, findings: Sequence[Finding]) -> None:
        """Put it on another finding, or the nearest."""
        self._missed = None
        self._stand_on(findings, index)

    def _stand_on(self, findings: Sequence[Finding], index: int) -> None:
        self.index = max(0, min(index, len(findings) - 1))
        self.finding = findings[self.index] if findings else None


def _index_of(wanted: Finding | None, findings: Sequence[Finding]) -> int | None:
    """Return the index of the same finding, None if it is gone."""
    if wanted is None:
        return None
    likeness = [_likeness(wanted, finding) for finding in findings]
    best = max(likeness, default=None)
    return likeness.index(best) if best else None


def _likeness(one: Finding, other: Finding) -> tuple[int, int, int] | tuple[()]:
    """Return a score of how similar two findings of a rule are, empty if they differ.

    They are compared by processes, else devices; several on one device by their evidence.
    """
    pids, devices = _common(one.pids, other.pids), _common(_devices(one), _devices(other))
    are_of_processes = bool(one.pids and other.pids)
    is_same = pids if are_of_processes else devices or not (_devices(one) or _devices(other))
    if one.rule != other.rule or not is_same:
        return ()
    return pids, devices, _common(one.evidence, other.evidence)


def _devices(finding: Finding) -> tuple[object, ...]:
    return finding.uuids or finding.indices


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    return len({*one} & {*other})


def _is_about(finding: Finding, device: Device) -> bool:
    """Whether a finding, possibly of a moment ago, concerns a device."""
    return device.uuid in finding.uuids if device.uuid else device.index in finding.indices


_NOTHING = "Nothing is wrong, as far as the driver reports"


class FindingsView(View):
    """Shows all findings, with a cursor to open a finding's process or GPU."""

    KEYS = FINDINGS_KEYS

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard)
        self._cursor = FindingCursor()
        self._drawn: Sequence[Finding] = ()
        self._starts: list[int] = []
        """The first line of each finding, as drawn."""

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys for the footer: none that opens a finding if there is none."""
        return self.keys if self.model.findings else self.model.in_force(VIEW_KEYS)

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the number of findings."""
        findings, snapshot = self.model.findings, self.model.snapshot
        fine = _NOTHING if snapshot.devices else no_gpus_text(snapshot)
        title = f"Findings: {heading(findings)}" if findings else fine
        return [*within_margins(title, self.model.value_theme.title, cells), []]

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return every finding in full, with blank lines between them."""
        theme, findings = self.model.value_theme, self.model.findings
        before, self._drawn = self._start, findings
        self._cursor.follow(findings)
        lines: list[Line] = []
        self._starts = []
        for number, finding in enumerate(findings):
            lines += [[]] if number else []
            self._starts.append(len(lines))
            lines += whole(finding, theme, cells, under_cursor=number == self._cursor.index)
        self._total = len(lines)
        self._keep_in_view(before)
        return lines

    def move(self, rows: int) -> None:
        """Move the cursor to another finding, and scroll to it."""
        self._move(self._cursor.index + rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by about a page."""
        target = self.first + pages * self.page_rows
        behind = [number for number, start in enumerate(self._starts) if start <= max(0, target)]
        self._move(behind[-1] if behind else 0)

    def turned(self, lines: int) -> None:
        """Scroll by the wheel; the cursor stays."""
        super().move(lines)
        self.app.outdated = True

    def action_acknowledge(self) -> None:
        """Acknowledge the finding under the cursor on all of its GPUs, or undo that."""
        finding, host = self._cursor.finding, self.model.snapshot.host.hostname
        if self.model.time.is_recorded:
            self.show_message("a recording shows what was acknowledged then")
        elif finding is not None:
            gpus = (each for each in self.model.snapshot.devices if not each.is_mig)
            uuids = {each.index: each.uuid for each in gpus}
            places = [Place(host, gpu, uuids.get(gpu)) for gpu in finding.indices]
            is_demo = self.model.snapshot.host.simulated
            ask(self, places or [Place(host)], is_demo=is_demo)

    def action_open(self) -> None:
        """Open the process of the finding under the cursor, else its GPU."""
        finding, dashboard = self._cursor.finding, self.model
        if finding is None:
            return
        rows = {row.process.pid: row for row in dashboard.listing.everything}
        row = next((rows[pid] for pid in finding.pids if pid in rows), None)
        keys = [
            each.device.key for each in dashboard.devices.rows if _is_about(finding, each.device)
        ]
        if row is not None:
            self.open_above(ProcessView(dashboard, row))
        elif keys:
            self.show_device(keys[0])

    def clicked(self, x: int, y: int) -> bool:
        """Move to the clicked finding, to be opened."""
        below_title = y - len(self.pinned(*self.body.size))
        line = below_title + self.first
        is_blank = line >= self._total or line + 1 in self._starts
        if not 0 <= below_title < self._room or is_blank:
            return False
        self._move([number for number, start in enumerate(self._starts) if start <= line][-1])
        return True

    @property
    def _start(self) -> int | None:
        """The first line of the finding under the cursor."""
        index = self._cursor.index
        return self._starts[index] if index < len(self._starts) else None

    def _move(self, index: int) -> None:
        self._cursor.move_to(index, self._drawn)
        self._show()

    def _show(self) -> None:
        """Scroll to the finding under the cursor, above all to its beginning."""
        start, next_one = self._start, self._cursor.index + 1
        if start is not None:
            last = next_one == len(self._starts)
            end = self._total if last else self._starts[next_one] - 1
            self.first = min(start, max(self.first, end - self._room))

    def _keep_in_view(self, before: int | None) -> None:
        """Scroll along with a finding that others have moved, unless the top is in view.

        At the top, a worse one must be visible at once.
        """
        start = self._start
        if before is None or start is None or start == before:
            return
        if self.first <= before < self.first + self._room:
            self.first += start - before if self.first else 0
            self._show()


def heading(findings: Sequence[Finding]) -> str:
    """Return the number of new findings by level, and of known ones: `2 critical, 1 warn`."""
    levels: tuple[FindingLevel, ...] = ("critical", "warn", "info")
    new = [each for each in findings if each.acknowledged is None]
    counts: list[tuple[int, str]] = [
        (sum(e.level == level for e in new), level) for level in levels
    ]
    counts.append((len(findings) - len(new), "acknowledged"))
    return ", ".join(f"{count} {level}" for count, level in counts if count)
