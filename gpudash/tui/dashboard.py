"""The whole main screen as lines, for any size: what Textual's panels and the first frame show."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from gpudash.analysis.health.engine import findings
from gpudash.analysis.history import History
from gpudash.analysis.table import DeviceRow, process_rows
from gpudash.analysis.usage import no_processes_text
from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.snapshot import EMPTY, Finding, Snapshot
from gpudash.tui.bindings import keys_on_devices, keys_while_stopped
from gpudash.tui.draw.devices import Upper
from gpudash.tui.draw.header import footer, header
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.main_charts import any_chart
from gpudash.tui.draw.processes import ProcessTable
from gpudash.tui.keymap import OVERVIEW_KEYS, Key
from gpudash.tui.layout import Layout, compute_layout
from gpudash.tui.listing import Listing
from gpudash.tui.playhead import Playhead
from gpudash.tui.shown_devices import DeviceCursor, ShownDevices
from gpudash.tui.telling import StatusMessage, error_text, is_stopped, pace_text, state_marks
from gpudash.tui.theme import Theme, faded

_SECONDS = 60.0


class PeakHold:
    """The highest of a number in the last minute or so."""

    def __init__(self) -> None:
        self.most = 0
        self._seen_at = 0.0

    def see(self, number: int, now: float) -> None:
        """Take the number of an instant in seconds; one before the last starts anew."""
        passed = now - self._seen_at
        if number >= self.most or not 0 <= passed < _SECONDS:
            self.most, self._seen_at = number, now


Value = TypeVar("Value")


class Memo(Generic[Value]):
    """The last value made, with what it was made of."""

    def __init__(self) -> None:
        self._last: tuple[object, Value] | None = None

    def of(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what `make` made for an equal key the last time, or have it made now."""
        if self._last is None or self._last[0] != key:
            self._last = key, make()
        return self._last[1]


PANELS = ("host", "history", "sparklines")
"""What can be hidden."""


class Panels(NamedTuple):
    """The lines of each panel, from top to bottom."""

    header: list[Line]
    devices: list[Line]
    processes: list[Line]
    footer: list[Line]


class DashboardModel:
    """What is to be seen of a feed: a snapshot, how it is ordered and which part is in view."""

    def __init__(self, feed: SnapshotFeed, theme: Theme) -> None:
        self.snapshot: Snapshot = EMPTY
        self.history = History()
        self.playhead = Playhead(self.history)
        self.listing = Listing("gpu_memory")
        self.processes = ProcessTable()
        self.status_message = StatusMessage()
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
        self.recorded = feed.player is not None
        """Whether all this is of another time."""
        self._feed = feed
        self._faded = faded(theme)
        self.hidden: frozenset[str] = frozenset()
        """Those of PANELS that are not to be seen."""
        self._upper = Upper(self.history)
        self._upper_drawn = Memo[list[Line]]()
        self._bottom_drawn = Memo[list[Line]]()
        self._header_drawn = Memo[Line]()
        self._rows_known = Memo[list[DeviceRow]]()
        self._notes_known = Memo[list[str]]()
        self._findings_known = Memo[tuple[Finding, ...]]()
        self._room_for_wrong = PeakHold()
        self._taken = 0
        self._cells, self._height = 80, 24

    def set_theme(self, theme: Theme) -> None:
        """Take another look."""
        self.theme, self._faded = theme, faded(theme)

    @property
    def value_theme(self) -> Theme:
        """The theme in which values are shown, which fades while they are no longer true."""
        stale = self._feed.state not in (FeedState.LIVE, FeedState.STARTING)
        return self._faded if stale else self.theme

    @property
    def message(self) -> str:
        """What an action led to, which is told for some seconds."""
        return self.status_message.text

    @message.setter
    def message(self, text: str) -> None:
        self.status_message.show(text)

    @property
    def status_text(self) -> str:
        """What the last line of every view says: what an action led to, or what is wrong."""
        pointed = self.device if self.devices.focused else None
        return self.message or error_text(self._feed, pointed.device if pointed else None)

    def resize(self, cells: int, height: int) -> None:
        """Take the size of the terminal."""
        self._cells, self._height = cells, height
        self.scroll_devices(0)

    def receive(self, snapshot: Snapshot) -> bool:
        """Take the next snapshot of the feed; return whether it is to be shown."""
        self.history.push(snapshot)
        if self.playhead.paused:
            return False
        self.take(snapshot)
        return True

    def replay(self, snapshots: Sequence[Snapshot], after_jump: bool) -> None:
        """Take samples of a recording; `after_jump` if those before are not their past."""
        if after_jump:
            self.history.clear()
        for snapshot in snapshots:
            self.history.push(snapshot)
        self.playhead.go_live()
        self.take(snapshots[-1])

    def pause(self, paused: bool) -> None:
        """Freeze what is shown, or catch up with the feed."""
        if paused:
            self.playhead.pause()
        else:
            self.playhead.go_live()
            self._catch_up()

    def step(self, samples: int) -> None:
        """Show an earlier or later sample as it was; the one after the last is the present."""
        if not self.history.moments:
            return
        past = self.playhead.step(samples)
        if past is None:
            self._catch_up()
        else:
            self.take(past)

    def _catch_up(self) -> None:
        if self._feed.latest is not None:
            self.take(self._feed.latest)

    def take(self, snapshot: Snapshot) -> None:
        """Take a snapshot to be shown."""
        self.snapshot = snapshot
        self._taken += 1
        self._room_for_wrong.see(len(self.wrong), snapshot.taken_at.timestamp())
        self.listing.fill(process_rows(snapshot, self.playhead.idle_seconds))
        self.scroll_devices(0)

    def toggle(self, panel: str) -> None:
        """Hide one of PANELS, or show it again."""
        self.hidden ^= {panel}
        self.scroll_devices(0)

    @property
    def rows(self) -> list[DeviceRow]:
        """The devices that are to be shown, whether in view or not."""
        known = self._taken, self.shown.hidden
        return self._rows_known.of(known, lambda: self.shown.rows(self.snapshot))

    @property
    def layout(self) -> Layout:
        """How the lines of the terminal are shared out."""
        count = len(self.listing.everything) + (len(self.notes) + 1 if self.notes else 0)
        alone = self.focus if self.enlarged else ""
        return compute_layout(
            self._cells,
            self._height,
            len(self.rows),
            count,
            self.hidden if any_chart(self.rows) else self.hidden | {"history"},
            findings=self._room_for_wrong.most,
            alone=alone,
        )

    @property
    def wrong(self) -> list[Finding]:
        """The findings that are worse than a remark, the worst first."""
        return [each for each in self.findings if each.level != "info"]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings of the snapshot that is shown."""
        return self._findings_known.of(self._taken, lambda: findings(self.snapshot))

    def is_finding(self, line: int) -> bool:
        """Return whether a line of the panel of devices tells what is wrong."""
        plan = self.layout
        first = plan.host + (plan.spaces > 1 + bool(plan.charts)) + plan.headed
        return first <= line < first + plan.findings

    @property
    def focus(self) -> str:
        """The part that the keys of moving are for: `devices` or `processes`."""
        return "devices" if self.devices.focused else "processes"

    @property
    def keys_in_focus(self) -> tuple[Key, ...]:
        """The keys that work on the part that has the focus, as the footer shows them."""
        keys = keys_on_devices(self.keys) if self.devices.focused else self.keys
        stopped = self.playhead.paused or is_stopped(self._feed)
        return keys_while_stopped(keys) if stopped else keys

    @property
    def device(self) -> DeviceRow | None:
        """The device under the cursor."""
        return self.devices.row(self.rows)

    def device_at(self, x: int, line: int) -> DeviceRow | None:
        """Return the device at a place of the panel of devices, if there is one."""
        plan = self.layout
        above = plan.host + (plan.spaces > 1 + bool(plan.charts)) + 1
        return self.devices.at(x, line - above, self.rows, plan, self._cells)

    @property
    def device_height(self) -> int:
        """Lines between the header and the processes."""
        return self.layout.upper

    @property
    def bottom(self) -> list[Line]:
        """The keys, or what there is to say; that may take more than a line."""
        told = self.keys_in_focus, self.status_text, self.theme, self._cells
        return self._bottom_drawn.of(told, lambda: footer(*told))

    @property
    def page(self) -> int:
        """Lines of processes that are in view at once."""
        return max(1, self._height - 2 - self.device_height - len(self.bottom))

    def scroll_devices(self, steps: int) -> None:
        """Show later or earlier devices where not all fit."""
        self.devices.scroll(steps, self.rows, self.layout)

    def scroll_command(self, cells: int) -> None:
        """Show later or earlier parts of the command lines."""
        self.processes.scroll(cells, self.listing)

    def panels(self) -> Panels:
        """Draw everything; lines that are the same as before are the same objects."""
        look, cells = self.value_theme, self._cells
        top = [self.header()]
        bottom = self.bottom
        if self.snapshot is EMPTY:
            return Panels(top, [], [], bottom)
        page = self.page + 1
        processes = self.processes.lines(
            *(self.listing, self.notes, look, cells, page),
            empty_text=lambda: no_processes_text(self.snapshot),
            focused=not self.devices.focused,
        )
        return Panels(top, self._upper_lines(look), processes, bottom)

    def _upper_lines(self, look: Theme) -> list[Line]:
        plan = self.layout
        first, cursor = self.devices.first, self.devices.shown(self.rows)
        shown = self.hidden, self.rows, first, cursor
        drawn = self._taken, id(look), self._cells, plan, shown
        return self._upper_drawn.of(
            drawn,
            lambda: self._upper.lines(
                self.snapshot.host,
                self.rows,
                self.wrong,
                look,
                self._cells,
                plan,
                first=first,
                cursor=cursor,
                moment=self.playhead.view_time,
                hidden=self.hidden,
            ),
        )

    def header(self) -> Line:
        """Return the first line of every view."""
        pace, marks = pace_text(self._feed), self._marks()
        drawn = self._taken, id(self.theme), self._cells, pace, marks
        return self._header_drawn.of(
            drawn,
            lambda: header(
                self.snapshot,
                self.theme,
                self._cells,
                pace=pace,
                marks=marks,
                read_only=self.read_only,
                dated=self.recorded,
            ),
        )

    def _marks(self) -> list[str]:
        past = "" if self.recorded else self.playhead.mark
        marks = [past, self.shown.mark(self.snapshot), *state_marks(self._feed)]
        return [mark for mark in marks if mark]

    @property
    def notes(self) -> list[str]:
        """What the tables cannot say: faults of the host, and who knows more of a missing GPU."""
        return self._notes_known.of(self._taken, self._told_of_host)

    def _told_of_host(self) -> list[str]:
        told = [str(fault.message) for fault in self.snapshot.errors]
        missed = not self.snapshot.devices and not self.recorded
        return [*told, "gpudash doctor finds out why"] if missed else told
