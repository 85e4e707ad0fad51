"""The page of findings on many hosts."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.health.acknowledged import Place
from gpudash.fleet.summary import brief, concerns, gpu_index, names_of
from gpudash.model.units import counted
from gpudash.tui.draw.findings import whole
from gpudash.tui.draw.line import Line, in_view
from gpudash.tui.fleet.head import verdict_line
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.fleet.page import FleetPage

_IN_SENTENCE = 3
"""Hosts named in the sentence of a finding."""
_MIN_HEIGHT = 10
"""Minimum height for a summary line."""
_MAX_NAMED = 40
"""Hosts that a filter can name."""


class FindingsPage(FleetPage):
    """Findings below each other, the worst first, with a cursor."""

    TITLE = "Findings"

    def __init__(self, model: FleetModel) -> None:
        super().__init__(model)
        self._first = self._end = 0
        """The lines in view."""
        self._top_lines = 0
        """Lines above those."""
        self._starts: list[int] = []
        """The first line of each finding, as drawn."""

    def lines(self, cells: int, height: int) -> list[Line]:
        """Return the summary of all, and the findings in view."""
        model, theme = self.model, self.model.value_theme
        self._starts = []
        top = verdict_line(model, theme, cells)
        if not model.findings:
            return [top]
        self._top_lines = int(height >= _MIN_HEIGHT)
        height -= self._top_lines
        lines: list[Line] = []
        for number, finding in enumerate(model.findings):
            where = f"on {brief(finding.hosts, 6)}" if len(finding.hosts) > _IN_SENTENCE else ""
            under_cursor = number == model.finding
            self._starts.append(len(lines))
            now = model.snapshot.taken_at
            lines += whole(finding, theme, cells, under_cursor=under_cursor, where=where, now=now)
            lines.append([])
        start = self._starts[model.finding]
        end = (
            self._starts[model.finding + 1] if model.finding + 1 < len(self._starts) else len(lines)
        )
        self._first = min(max(self._first, end - height), start, max(0, len(lines) - height))
        self.page_rows = max(1, height // max(1, len(lines) // len(self._starts)))
        # The last line is the blank one below the last finding.
        self._end = min(self._first + height, len(lines) - 1)
        return [*[top] * self._top_lines, *lines[self._first : self._end]]

    @property
    def position(self) -> str:
        """Which findings are in view, empty if all are: `1-3 of 11`."""
        seen = [n for n, start in enumerate(self._starts) if self._first <= start < self._end]
        return in_view(seen[0], len(seen), len(self.model.findings)) if seen else ""

    def move(self, rows: int) -> None:
        """Move the cursor by findings."""
        model = self.model
        model.finding = max(0, min(model.finding + rows, len(model.findings) - 1))

    def clicked(self, _x: int, y: int) -> bool:
        """Put the cursor on a finding; return whether it was there."""
        line = y - self._top_lines + self._first
        found = [n for n, start in enumerate(self._starts) if start <= line]
        is_blank = line + 1 in self._starts
        if not found or is_blank or not self._first <= line < self._end:
            return False
        before, self.model.finding = self.model.finding, found[-1]
        return self.model.finding == before

    @property
    def places(self) -> Sequence[Place]:
        """The GPUs that the selected finding is about; on hosts without any, the host."""
        model = self.model
        if not model.findings:
            return ()
        finding, found = model.findings[model.finding], list[Place]()
        for row in model.rows:
            if not {*names_of(row.host)}.isdisjoint(finding.hosts):
                gpus = {
                    (gpu_index(row.host, each), each.parent_uuid or each.uuid)
                    for each in row.devices
                    if concerns(finding.rule, finding.uuids, each)
                }
                found += [Place(row.title, *gpu) for gpu in sorted(gpus, key=str) or [(None, None)]]
        return found

    def action_open(self) -> None:
        """Enter the host of the selected finding, or show the GPUs of its hosts."""
        model = self.model
        if not model.findings:
            return
        hosts = model.findings[model.finding].hosts
        if not hosts:
            self.show_message("this is about all hosts")
        elif len(hosts) == 1:
            self.enter_named(hosts[0])
        else:
            self._narrow_to(frozenset(hosts))

    def _narrow_to(self, concerned: frozenset[str]) -> None:
        hosts = (row.host for row in self.model.rows)
        found = [host.name for host in hosts if concerned.intersection(names_of(host))]
        names = list(dict.fromkeys(found))
        self.narrow("host", ",".join(names[:_MAX_NAMED]))
        if len(names) > _MAX_NAMED:
            left_out = counted(len(names) - _MAX_NAMED, "host")
            self.show_message(f"{left_out} left out: a filter names {_MAX_NAMED} at most")
