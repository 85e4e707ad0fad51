"""The whole main screen as lines, for any size: what Textual's panels and the first frame show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gpudash.child import lingering
from gpudash.feed import Feed, FeedState
from gpudash.health import findings
from gpudash.history import History
from gpudash.rows import DeviceRow, process_rows
from gpudash.snapshot import EMPTY, Finding, Process, Snapshot
from gpudash.tui.arrangement import Arrangement, arrange
from gpudash.tui.device_cursor import DeviceCursor
from gpudash.tui.keymap import OVERVIEW_KEYS, Key
from gpudash.tui.listing import Listing
from gpudash.tui.renderables.footer import footer
from gpudash.tui.renderables.header import header
from gpudash.tui.renderables.line import Line
from gpudash.tui.renderables.processes import ProcessTable
from gpudash.tui.renderables.upper import Upper
from gpudash.tui.shown_devices import ShownDevices
from gpudash.tui.theme import Theme, faded
from gpudash.units import duration

PANELS = ("host", "history", "sparklines")
"""What can be hidden."""


class Panels(NamedTuple):
    """The lines of each panel, from top to bottom."""

    header: list[Line]
    devices: list[Line]
    processes: list[Line]
    footer: list[Line]


_LONG = 2.0
"""Seconds after which a first sample is overdue."""


class Picture:
    """What is to be seen of a feed: a snapshot, how it is ordered and which part is in view."""

    def __init__(self, feed: Feed, theme: Theme) -> None:
        self.snapshot: Snapshot = EMPTY
        self.history = History()
        self.moment: float | None = None
        """The instant of the past that is shown, on the history's clock; None for the present."""
        self.listing = Listing("gpu_memory")
        self.processes = ProcessTable()
        self.paused = False
        self.notice = ""
        self.keys: tuple[Key, ...] = OVERVIEW_KEYS
        """The keys that work, as footer and help show them."""
        self.in_force: Callable[[Iterable[Key]], tuple[Key, ...]] = tuple
        """Returns, of some keys, those that work."""
        self.read_only = False
        self.shown = ShownDevices()
        self.devices = DeviceCursor()
        self.enlarged = False
        """Whether the part that has the focus has the terminal for itself."""
        self.theme = theme
        self._feed = feed
        self._faded = faded(theme)
        self.hidden: frozenset[str] = frozenset()
        """Those of PANELS that are not to be seen."""
        self._upper = Upper(self.history)
        self._upper_drawn: tuple[object, list[Line]] = None, []
        self._bottom_drawn: tuple[object, list[Line]] = None, []
        self._header_drawn: tuple[object, Line] = None, []
        self._rows_known: tuple[object, list[DeviceRow]] = None, []
        self._notes_known: tuple[object, list[str]] = None, []
        self._findings_known: tuple[object, tuple[Finding, ...]] = None, ()
        self._paused_at = 0.0
        self._taken = 0
        self._cells, self._height = 80, 24

    def wear(self, theme: Theme) -> None:
        """Take another look."""
        self.theme, self._faded = theme, faded(theme)

    @property
    def look(self) -> Theme:
        """The theme in which values are shown, which fades while they are no longer true."""
        stale = self._feed.state not in (FeedState.LIVE, FeedState.STARTING)
        return self._faded if stale else self.theme

    @property
    def told(self) -> str:
        """What the last line of every view says: what an action led to, or what is wrong."""
        return self.notice or self._trouble()

    def resize(self, cells: int, height: int) -> None:
        """Take the size of the terminal."""
        self._cells, self._height = cells, height
        self.scroll_devices(0)

    def receive(self, snapshot: Snapshot) -> bool:
        """Take the next snapshot of the feed; return whether it is to be shown."""
        self.history.push(snapshot)
        if self.paused:
            return False
        self.take(snapshot)
        return True

    def pause(self, paused: bool) -> None:
        """Freeze what is shown, or catch up with the feed."""
        self.paused = paused
        self._paused_at = self.history.now
        if not paused:
            self.moment = None
            if self._feed.latest is not None:
                self.take(self._feed.latest)

    def step(self, samples: int) -> None:
        """Show an earlier or later sample as it was; the one after the last is the present."""
        moments = self.history.moments
        if not moments:
            return
        now = self.history.now if self.moment is None else self.moment
        moment = self.history.step(now, samples)
        if samples > 0 and moment >= moments[-1]:
            self.pause(False)
            return
        self.paused, self.moment = True, moment
        self.take(self.history.at(moment))

    def take(self, snapshot: Snapshot) -> None:
        """Take a snapshot to be shown."""
        self.snapshot = snapshot
        self._taken += 1
        self.listing.fill(process_rows(snapshot, self.idle_seconds))
        self.scroll_devices(0)

    def toggle(self, panel: str) -> None:
        """Hide one of PANELS, or show it again."""
        self.hidden ^= {panel}
        self.scroll_devices(0)

    @property
    def rows(self) -> list[DeviceRow]:
        """The devices that are to be shown, whether in view or not."""
        known = self._taken, self.shown.hidden
        if self._rows_known[0] != known:
            self._rows_known = known, self.shown.rows(self.snapshot)
        return self._rows_known[1]

    @property
    def plan(self) -> Arrangement:
        """How the lines of the terminal are shared out."""
        count = len(self.listing.everything) + (len(self.notes) + 1 if self.notes else 0)
        alone = self.focus if self.enlarged else ""
        return arrange(
            self._cells,
            self._height,
            len(self.rows),
            count,
            self.hidden,
            findings=len(self.wrong),
            alone=alone,
        )

    @property
    def wrong(self) -> list[Finding]:
        """The findings that are worse than a remark, the worst first."""
        return [each for each in self.findings if each.level != "info"]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of the snapshot that is shown."""
        if self._findings_known[0] != self._taken:
            self._findings_known = self._taken, findings(self.snapshot)
        return self._findings_known[1]

    def is_finding(self, line: int) -> bool:
        """Return whether a line of the panel of devices tells what is wrong."""
        plan = self.plan
        first = plan.host + (plan.spaces > 1 + bool(plan.charts)) + plan.headed
        return first <= line < first + plan.findings

    @property
    def focus(self) -> str:
        """The part that the keys of moving are for: `devices` or `processes`."""
        return "devices" if self.devices.focused else "processes"

    @property
    def device(self) -> DeviceRow | None:
        """The device under the cursor."""
        return self.devices.row(self.rows)

    def device_at(self, x: int, line: int) -> DeviceRow | None:
        """Return the device at a place of the panel of devices, if there is one."""
        plan = self.plan
        above = plan.host + (plan.spaces > 1 + bool(plan.charts)) + 1
        return self.devices.at(x, line - above, self.rows, plan, self._cells)

    @property
    def device_height(self) -> int:
        """Lines between the header and the processes."""
        return self.plan.upper

    @property
    def bottom(self) -> list[Line]:
        """The keys, or what there is to say; that may take more than a line."""
        told = self.keys, self.told, self.theme, self._cells
        if self._bottom_drawn[0] != told:
            self._bottom_drawn = told, footer(*told)
        return self._bottom_drawn[1]

    @property
    def page(self) -> int:
        """Lines of processes that are in view at once."""
        return max(1, self._height - 2 - self.device_height - len(self.bottom))

    def scroll_devices(self, steps: int) -> None:
        """Show later or earlier devices where not all fit."""
        self.devices.scroll(steps, self.rows, self.plan)

    def scroll_command(self, cells: int) -> None:
        """Show later or earlier parts of the command lines."""
        self.processes.scroll(cells, self.listing)

    def panels(self) -> Panels:
        """Draw everything; lines that are the same as before are the same objects."""
        look, cells = self.look, self._cells
        top = [self.header()]
        bottom = self.bottom
        if self.snapshot is EMPTY:
            return Panels(top, [], [], bottom)
        page = self.page + 1
        processes = self.processes.lines(
            self.listing, self.notes, look, cells, page, focused=not self.devices.focused
        )
        return Panels(top, self._upper_lines(look), processes, bottom)

    def _upper_lines(self, look: Theme) -> list[Line]:
        plan = self.plan
        first, cursor = self.devices.first, self.devices.shown(self.rows)
        shown = self.hidden, self.rows, first, cursor
        drawn = self._taken, id(look), self._cells, plan, shown
        if self._upper_drawn[0] != drawn:
            lines = self._upper.lines(
                self.snapshot.host,
                self.rows,
                self.wrong,
                look,
                self._cells,
                plan,
                first=first,
                cursor=cursor,
                moment=self.until,
                hidden=self.hidden,
            )
            self._upper_drawn = drawn, lines
        return self._upper_drawn[1]

    def header(self) -> Line:
        """Return the first line of every view."""
        interval, marks = self._feed.interval, self._marks()
        drawn = self._taken, id(self.theme), self._cells, interval, marks
        if self._header_drawn[0] != drawn:
            line = header(
                self.snapshot,
                self.theme,
                self._cells,
                interval=interval,
                marks=marks,
                read_only=self.read_only,
            )
            self._header_drawn = drawn, line
        return self._header_drawn[1]

    @property
    def until(self) -> float | None:
        """The instant that is shown, on the history's clock; None while that is the present."""
        if self.moment is None and self.paused:
            return self._paused_at
        return self.moment

    def idle_seconds(self, process: Process) -> float | None:
        """Return for how long it had been idle at the instant that is shown."""
        seconds = self.history.idle_seconds(process)
        if seconds is None or self.until is None:
            return seconds
        # What it did before it went idle is not known for any instant but now.
        past = self.history.now - self.until
        return seconds - past if seconds > past else None

    def _marks(self) -> list[str]:
        marks = ["PAUSED"] if self.paused else []
        if self.moment is not None:
            marks = [f"{duration(self.history.now - self.moment)} AGO"]
        devices = self.shown.mark(self.snapshot)
        if devices:
            marks.append(devices)
        if self._feed.state is FeedState.STALE:
            marks.append(f"STALE {duration(self._feed.age)}")
        elif self._feed.state is FeedState.RESTARTING:
            marks.append(f"NO COLLECTOR {duration(self._feed.age)}")
        elif self._feed.state is FeedState.RELEASED:
            marks.append(f"RELEASED {duration(self._feed.age)}")
        return marks

    def _trouble(self) -> str:
        if self._feed.state is FeedState.RELEASED:
            if lingering():
                return "a collector hangs in the driver, which still has the GPUs"
            return "GPUs released: X or kill -USR1 takes them back"
        if self._feed.error is not None:
            return self._feed.error
        device = self.device if self.devices.focused else None
        if device is not None and device.device.fault is not None:
            return device.device.fault.message
        if self._feed.latest:
            return ""
        waited = self._feed.age
        return "reading GPUs…" + (f" no answer for {duration(waited)}" if waited > _LONG else "")

    @property
    def notes(self) -> list[str]:
        """What the tables cannot say: faults of the host."""
        known = self._taken, self.shown.hidden
        if self._notes_known[0] != known:
            faults = [str(fault.message) for fault in self.snapshot.errors]
            self._notes_known = known, faults
        return self._notes_known[1]
