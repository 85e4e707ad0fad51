"""The whole main screen as lines, for any size: what Textual's panels and the first frame show."""

from __future__ import annotations

from typing import NamedTuple

from gpudash.feed import Feed, FeedState
from gpudash.rows import device_rows, process_rows
from gpudash.snapshot import EMPTY, Snapshot
from gpudash.summary import unlisted_memory
from gpudash.tui.listing import Listing
from gpudash.tui.renderables.devices import DeviceTable, columns_across
from gpudash.tui.renderables.footer import footer
from gpudash.tui.renderables.header import header
from gpudash.tui.renderables.line import Line
from gpudash.tui.renderables.processes import ProcessTable
from gpudash.tui.theme import Theme, faded
from gpudash.units import duration

_FIXED_LINES = 4
"""Header, footer and the headings of both tables."""

_LEAST_PROCESSES, _MOST_RESERVED = 3, 8
_SPACE_FROM = 4
"""Lines that the processes must have to spare before one is left blank above them."""


class Panels(NamedTuple):
    """The lines of each panel, from top to bottom."""

    header: list[Line]
    devices: list[Line]
    processes: list[Line]
    footer: list[Line]


class Picture:
    """What is to be seen of a feed: a snapshot, how it is ordered and which part is in view."""

    def __init__(self, feed: Feed, theme: Theme) -> None:
        self.snapshot: Snapshot = EMPTY
        self.listing = Listing("gpu_memory")
        self.processes = ProcessTable()
        self.paused = False
        self.notice = ""
        self.theme = theme
        self._feed = feed
        self._faded = faded(theme)
        self._devices = DeviceTable()
        self._first_device = 0
        self._cells, self._height = 80, 24

    def resize(self, cells: int, height: int) -> None:
        """Take the size of the terminal."""
        self._cells, self._height = cells, height
        self.scroll_devices(0)

    def take(self, snapshot: Snapshot) -> None:
        """Take a snapshot to be shown."""
        self.snapshot = snapshot
        self.listing.fill(process_rows(snapshot))
        self.scroll_devices(0)

    @property
    def device_lines(self) -> int:
        """Lines of devices: all of them, unless the processes need the room."""
        count = max(1, len(self.snapshot.devices))
        height = max(1, min(count, self._room - self._reserved))
        if columns_across(count, height, self._cells) > 1:
            height = min(height, -(-count // 2))
        return height

    @property
    def device_height(self) -> int:
        """Height of the devices' panel: headings, devices and a blank line where there is room."""
        spare = self._room - self.device_lines - self._reserved
        return 1 + self.device_lines + (spare > _SPACE_FROM)

    @property
    def page(self) -> int:
        """Lines of processes that are in view at once."""
        return max(1, self._height - 3 - self.device_height)

    def scroll_devices(self, lines: int) -> None:
        """Show later or earlier devices where not all fit."""
        across = columns_across(len(self.snapshot.devices), self.device_lines, self._cells)
        last = max(0, len(self.snapshot.devices) - self.device_lines * across)
        self._first_device = max(0, min(self._first_device + lines, last))

    def panels(self) -> Panels:
        """Draw everything."""
        snapshot, theme, cells = self.snapshot, self.theme, self._cells
        devices = device_rows(snapshot)
        stale = self._feed.state in (FeedState.STALE, FeedState.RESTARTING)
        look = self._faded if stale else theme
        interval = self._feed.interval
        top = [header(snapshot, theme, cells, interval=interval, marks=self._marks())]
        bottom = [footer(self.notice or self._trouble(), theme, cells)]
        if snapshot is EMPTY:
            return Panels(top, [], [], bottom)
        return Panels(
            top,
            self._devices.lines(
                devices, look, cells, first=self._first_device, height=self.device_lines
            ),
            self.processes.lines(self.listing, self._notes(), look, cells, self.page + 1),
            bottom,
        )

    @property
    def _room(self) -> int:
        return self._height - _FIXED_LINES

    @property
    def _reserved(self) -> int:
        """Lines that the processes have before any device."""
        return min(_MOST_RESERVED, max(_LEAST_PROCESSES, self._room // 5))

    def _marks(self) -> list[str]:
        marks = ["PAUSED"] if self.paused else []
        if self._feed.state is FeedState.STALE:
            marks.append(f"STALE {duration(self._feed.age)}")
        elif self._feed.state is FeedState.RESTARTING:
            marks.append(f"NO COLLECTOR {duration(self._feed.age)}")
        return marks

    def _trouble(self) -> str:
        if self._feed.error is not None:
            return self._feed.error
        return "" if self._feed.latest else "reading GPUs…"

    def _notes(self) -> list[str]:
        """Return what the tables cannot say: faults of the host, memory that nobody owns."""
        notes = [str(fault.message) for fault in self.snapshot.errors]
        rows = device_rows(self.snapshot) if self.snapshot.devices else []
        unlisted = (unlisted_memory(row.label, row.device) for row in rows)
        return notes + [note for note in unlisted if note]
