"""The state of the main screen: what it shows of a feed, and what follows from that."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from gpudash.analysis.filter import EVERYTHING
from gpudash.analysis.health.findings import findings
from gpudash.analysis.history import History
from gpudash.analysis.table import process_rows, rows_per_gpu
from gpudash.analysis.usage import Tally, tally
from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.snapshot import EMPTY, Finding, Snapshot
from gpudash.tui.bindings import keys_on_devices, keys_while_enlarged, keys_while_stopped
from gpudash.tui.device_list import DeviceList
from gpudash.tui.draw.main_charts import curve_count
from gpudash.tui.keymap import OVERVIEW_KEYS, Key
from gpudash.tui.layout import Layout, compute_layout
from gpudash.tui.listing import Listing
from gpudash.tui.status import StatusMessage, error_text, state_mark
from gpudash.tui.theme import Theme, faded
from gpudash.tui.watched import EarlierCharts, HostEvents

if TYPE_CHECKING:
    from gpudash.tui.reporting import ReportCommand

PANELS = ("host", "history", "sparklines")
"""Panels that can be hidden."""

_HOLD_SECONDS = 60.0
_MIN_BELOW = 6
"""Lines of header, headings, footer and a few processes."""
_YOUNG_SECONDS = 60
"""How long the history is too short to deserve several lines per curve."""


class PeakHold:
    """The highest number of about the last minute."""

    def __init__(self) -> None:
        self.value = 0
        self._seen_at = 0.0

    def update(self, number: int, now: float) -> None:
        """Add the number at an instant in seconds; an earlier instant than the last restarts."""
        passed = now - self._seen_at
        if number >= self.value or not 0 <= passed < _HOLD_SECONDS:
            self.value, self._seen_at = number, now


class DashboardModel:
    """What is shown of a feed: a snapshot, with its order, filter and layout."""

    def __init__(self, feed: SnapshotFeed, theme: Theme) -> None:
        self.feed = feed
        self.snapshot: Snapshot = EMPTY
        """The snapshot that is shown."""
        self.revision = 0
        """Counts the snapshots that were shown."""
        self.findings: tuple[Finding, ...] = ()
        """All findings of the shown snapshot, the worst first."""
        self.notes: list[str] = []
        """What the tables cannot show: faults of the host, and a hint if no GPU is found."""
        self.history = History()
        self.time = feed.timeline(self.history, self.take)
        self.listing = Listing("gpu_memory")
        self.devices = DeviceList()
        self.status_message = StatusMessage()
        self.theme = theme
        self.keys: tuple[Key, ...] = OVERVIEW_KEYS
        """The keys in force, for footer and help."""
        self.in_force: Callable[[Iterable[Key]], tuple[Key, ...]] = tuple
        """Returns those of some keys that are in force."""
        self.read_only = False
        self.report_command: ReportCommand | None = None
        """The command that reports the past of this host, None if there is none."""
        self.is_here = not self.time.is_recorded and feed.remote is None
        """Whether the processes shown are on this host."""
        self.hidden: frozenset[str] = frozenset()
        """The hidden ones of PANELS."""
        self.metric = ""
        """The metric charted for all GPUs; empty for utilization."""
        self.enlarged = False
        """Whether the part in focus fills the terminal."""
        self.cells, self.height = 80, 24
        """The size of the terminal, without the lines that a prompt covers."""
        self._covered = 0
        # Keyed by the device rows, which are new with each snapshot.
        self._laid_out: tuple[object, object, Layout] | None = None
        self._counted: tuple[object, Tally] | None = None
        self._last_clicked: object = None
        self._peak_findings = PeakHold()
        self.events = HostEvents(self.time)
        self._earlier_charts = EarlierCharts(self.time, self.history)
        self._take_derived()

    # What is shown

    def begin(self) -> None:
        """Show the feed's latest snapshot, if there is one."""
        self.time.catch_up()
        if self.feed.latest is not None:
            self.watch([self.feed.latest])
        self.preview()

    def preview(self) -> None:
        """Show a brief snapshot of the feed, without adding it to the history."""
        brief = self.feed.preview
        if brief is not None and brief is not self.snapshot:
            self.take(brief)

    def take(self, snapshot: Snapshot) -> None:
        """Show a snapshot."""
        self.snapshot = snapshot
        self.revision += 1
        self._take_derived()
        new = [each for each in self.findings if each.acknowledged is None]
        wrong = sum(each.level != "info" for each in new)
        self._peak_findings.update(wrong, snapshot.taken_at.timestamp())
        self.listing.fill(process_rows(snapshot), partial(rows_per_gpu, snapshot))
        self.devices.fill(snapshot)
        self.scroll_devices(0)

    def watch(self, snapshots: Iterable[Snapshot]) -> None:
        """Record the events between each snapshot of the feed and the next."""
        self._earlier_charts.chart()
        for snapshot in snapshots:
            if not snapshot.brief and self.events.watch(snapshot):
                self._earlier_charts.read()

    def _take_derived(self) -> None:
        snapshot = self.snapshot
        self.findings = findings(snapshot)
        self.notes = [str(fault.message) for fault in snapshot.errors]
        if not snapshot.devices and self.is_here:
            self.notes.append("gpudash doctor shows why")

    # How it is shown

    @property
    def value_theme(self) -> Theme:
        """The theme for values, which fades while they are out of date."""
        stale = self.feed.state not in (FeedState.LIVE, FeedState.STARTING)
        return faded(self.theme) if stale else self.theme

    def resize(self, cells: int, height: int, covered: int = 0) -> None:
        """Set the size of the terminal, with this many lines covered at the bottom."""
        self.cells, self.height, self._covered = cells, max(1, height - covered), covered
        self.scroll_devices(0)

    def toggle_panel(self, panel: str) -> None:
        """Hide one of PANELS, or show it again."""
        self.hidden ^= {panel}
        self.scroll_devices(0)

    @property
    def layout(self) -> Layout:
        """How the lines of the terminal are divided up.

        Only the processes yield lines to a prompt, if they have enough, so that nothing else moves.
        """
        layout = self._layout(self.height + self._covered)
        is_tight = self._covered and self.height - layout.upper < _MIN_BELOW
        return self._layout(self.height) if is_tight else layout

    def _layout(self, height: int) -> Layout:
        """Return the layout of this many lines; cached while nothing changes."""
        rows = self.devices.rows
        count = max(len(self.listing.everything), len(self.listing.rows))
        count += len(self.notes) + 1 if self.notes else 0
        findings, alone = self._peak_findings.value, self.focus if self.enlarged else ""
        young = self.history.now - self.history.began < _YOUNG_SECONDS
        cause = height, self.cells, count, self.hidden, self.metric, findings, alone, young
        if self._laid_out is None or self._laid_out[0] is not rows or self._laid_out[1] != cause:
            layout = compute_layout(
                self.cells,
                height,
                len(rows),
                count,
                self.hidden,
                findings=findings,
                alone=alone,
                curves=curve_count([row.device for row in rows], self.cells, self.metric),
                young=young,
            )
            self._laid_out = rows, cause, layout
        return self._laid_out[2]

    @property
    def counted(self) -> Tally:
        """The number of visible devices by state."""
        rows = self.devices.rows
        if self._counted is None or self._counted[0] is not rows:
            devices = [row.device for row in rows]
            self._counted = rows, tally(self.snapshot, self.devices.states, devices)
        return self._counted[1]

    # The first and the last line

    @property
    def message(self) -> str:
        """The result of an action, shown for some seconds."""
        return self.status_message.text

    @property
    def status_text(self) -> str:
        """The text of every view's last line: the result of an action, or an error."""
        row = self.devices.focused_row
        device = row.device if row else None
        return self.message or error_text(self.feed, device, self.keys, self.time.message)

    @property
    def marks(self) -> list[str]:
        """The marks in the header for the time and the part shown."""
        marks = self.time.mark, self.devices.mark, state_mark(self.feed)
        return [mark for mark in marks if mark]

    @property
    def keys_in_focus(self) -> tuple[Key, ...]:
        """The keys in force for the part in focus, for the footer."""
        keys = keys_on_devices(self.keys) if self.devices.focused else self.keys
        keys = keys_while_enlarged(keys) if self.enlarged else keys
        return keys_while_stopped(keys) if self.time.is_stopped else keys

    # Focus, cursors and the choice of GPUs

    @property
    def focus(self) -> str:
        """The part that movement keys apply to: `devices` or `processes`."""
        return "devices" if self.devices.focused else "processes"

    def toggle_focus(self) -> None:
        """Move the focus to the devices, if there are any, or back to the processes."""
        self.devices.focused = not self.devices.focused and bool(self.devices.rows)

    def move(self, rows: int) -> None:
        """Move the cursor of the part that has the focus."""
        if self.devices.focused:
            self.devices.move(rows, self.layout.seen)
        else:
            self.listing.move(rows)

    def is_second_click(self, identity: object) -> bool:
        """Note a click; return whether the last click was on the same."""
        before, self._last_clicked = self._last_clicked, identity
        return before == identity

    def scroll_devices(self, steps: int) -> None:
        """Show later or earlier devices if not all fit."""
        self.devices.scroll(steps, self.layout.seen)

    def hide_devices(self, change: Callable[[DeviceList], None]) -> None:
        """Change which GPUs are shown; processes that use only hidden ones are hidden too."""
        change(self.devices)
        self.listing.hide_devices(self.devices.hidden)
        self.scroll_devices(0)

    def clear(self) -> bool:
        """Go back to the present; in it, drop the tags, the filter, and the choice of GPUs.

        Return whether there was any of them.
        """
        if not self.time.is_live:
            self.time.go_live()
        elif self.listing.tagged_rows:
            self.listing.tagged.clear()
        elif self.listing.filter.clauses:
            self.listing.filter_by(EVERYTHING)
        elif self.devices.hidden:
            self.hide_devices(DeviceList.show_all)
        else:
            return False
        return True
