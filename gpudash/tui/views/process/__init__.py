"""The view of one process, tracked by identity, even after its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import ClassVar

from textual.message import Message

from gpudash.analysis.history.metrics import ProcessKey
from gpudash.analysis.inspection import (
    Inspection,
    IoRates,
    cpu_percents,
    inspect,
    inspect_elsewhere,
    io_rates,
)
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.tui.bindings import shown_key
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import PROCESS_KEYS, Key
from gpudash.tui.views.process.facts import ProcessDetails, span_of
from gpudash.tui.views.process.page import ProcessSheet, page
from gpudash.tui.views.view import View

_OVERDUE_SECONDS = 2.0


class Inspector:
    """Reads /proc about one process in a thread, and keeps the last reading and rates."""

    def __init__(
        self,
        deliver: Callable[[Inspection], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`deliver` is called in the reading thread; it must pass the reading on to `take`."""
        self.latest: Inspection | None = None
        """The last reading that found the process, or the first that did not."""
        self.exited = False
        """Whether a reading found that the process has ended."""
        self.io_rates = IoRates()
        """Between the last two readings."""
        self.cpu_percents: dict[ProcessKey, float] = {}
        """CPU use of its relatives between the last two readings."""
        self._deliver = deliver
        self._clock = clock
        self._thread: Thread | None = None
        self._begun_at = 0.0

    def begin(self, process: Process, snapshot: Snapshot) -> None:
        """Start reading, unless a reading is in progress or the process has ended."""
        if self.exited or self.is_reading:
            return
        self._begun_at = self._clock()
        arguments = (self._deliver, process, snapshot)
        self._thread = Thread(target=_read, args=arguments, name="inspection", daemon=True)
        self._thread.start()

    def take(self, seen: Inspection) -> None:
        """Store a reading; the data of a process are kept after its end."""
        self.exited = seen.exited
        before = self.latest
        if before is None or not seen.exited:
            self.latest = seen
        self.io_rates = IoRates() if before is None else io_rates(before, seen)
        self.cpu_percents = {} if before is None else cpu_percents(before, seen)

    @property
    def waiting(self) -> str:
        """What is awaited; empty while readings are quick."""
        waited = self._clock() - self._begun_at if self.is_reading else 0.0
        if waited >= _OVERDUE_SECONDS:
            return f"/proc has not answered for {duration(waited)}"
        return "" if self.latest else "reading"

    @property
    def is_reading(self) -> bool:
        """Whether a reading is in progress."""
        return self._thread is not None and self._thread.is_alive()


def _read(deliver: Callable[[Inspection], object], process: Process, snapshot: Snapshot) -> None:
    deliver(inspect(process, snapshot))


class ProcessView(View):
    """Shows a process: numbers, devices, curves, family and environment."""

    read_seconds: ClassVar[float] = 3.0
    """Between two readings of /proc."""

    KEYS = PROCESS_KEYS

    class Inspected(Message):
        """A reading of the process is complete."""

        def __init__(self, seen: Inspection) -> None:
            super().__init__()
            self.seen = seen

    def __init__(
        self,
        dashboard: DashboardModel,
        row: ProcessRow,
        section: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`section` is `tree` or `environment` to start there."""
        super().__init__(dashboard)
        self.keys += tuple(key for key in dashboard.keys if key.signals)
        self._row = row
        self._section = section
        """The section kept at the top until the view is scrolled."""
        self._asked_from: int | None = None
        """The scroll position before a section was requested, None if none was."""
        self._clock = clock
        self._absent_since: float | None = None
        self._alive_at: float | None = None
        """When a reading last found it alive, None if none did."""
        self._exited_at: float | None = None
        """When it ended, None if it has not, or if only its end was ever seen."""
        self._sampled_at = dashboard.history.now
        """The time of the last sample that had it, on the history's clock."""
        self._shows_secrets = False
        self._page = ProcessSheet([], 0, 0)
        self._inspector = Inspector(lambda seen: self.post_message(self.Inspected(seen)))

    def on_mount(self) -> None:
        """Read at once, and again every few seconds while this is open."""
        self.run_worker(self.load_charts())
        self._read()
        self.set_interval(self.read_seconds, self._read)

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the page about the process as it is, or as last seen."""
        self._follow()
        self._page = page(self._details(), self.model.value_theme, cells, height)
        if self._section:
            # The section may have been requested before it had any content.
            self.first = self._page.tree if self._section == "tree" else self._page.environment
        return self._page.lines

    def action_to(self, section: str) -> None:
        """Scroll to a section: tree or environment; `back` returns to the former position."""
        if self._asked_from is None:
            self._asked_from = self.first
        self._section = section

    def move(self, rows: int) -> None:
        """Scroll by lines, away from a requested section."""
        self._section = ""
        super().move(rows)

    def action_back(self) -> None:
        """Go back from a section if that changes the view, else to where this was opened."""
        before = self.first
        if self._asked_from is not None:
            self.first, self._asked_from, self._section = self._asked_from, None, ""
            self.draw()
        if self.first == before:
            super().action_back()

    def action_reveal(self) -> None:
        """Show the secret values, or hide them again."""
        self._shows_secrets = not self._shows_secrets

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys for the footer: none that signals a process that is gone."""
        return tuple(key for key in self.keys if self.may_signal or not key.signals)

    @property
    def may_signal(self) -> bool:
        """Whether the shown process still exists, and is selected."""
        selected = self.model.listing.selected
        return self._absent_since is None and selected is not None and self._is_it(selected)

    def on_process_view_inspected(self, message: Inspected) -> None:
        """Show the results of a reading."""
        self._inspector.take(message.seen)
        self._date_end(message.seen)
        self.draw()

    def _date_end(self, seen: Inspection) -> None:
        """Set its end: when samples lacked it first, unless it was seen alive since."""
        if not seen.exited:
            self._alive_at = self._clock()
        elif self._alive_at is not None and self._exited_at is None:
            absent = self._absent_since
            known = absent is not None and absent >= self._alive_at
            self._exited_at = absent if known else self._clock()

    def _read(self) -> None:
        if not self.model.is_here:
            # A process with this PID, here and today, is not the one shown.
            if self._inspector.latest is None:
                remote = self.model.feed.remote
                name = None if remote is None else remote.name
                self._inspector.take(inspect_elsewhere(self._row.process, name))
                self.draw()
            return
        self._begin_reading()
        if self._inspector.waiting:
            self.draw()

    def _begin_reading(self) -> None:
        """Start reading, unless that would change the numbers of a frozen screen."""
        if self._inspector.latest is None or self.model.time.is_live:
            self._inspector.begin(self._row.process, self.model.history.latest)

    def _follow(self) -> None:
        """Update the row of the process and keep it selected, or note that it is gone."""
        rows = process_rows(self.model.snapshot)
        row = next((row for row in rows if self._is_it(row)), None)
        if row is not None:
            self._row = row
            self._sampled_at = self.model.time.moment or self.model.history.now
            self.model.listing.select(row.process.key)
        if row is not None and not self._inspector.exited:
            self._absent_since = None
        elif self._absent_since is None:
            self._absent_since = self._clock()
            # It may have ended, or only released its GPUs.
            if self.model.is_here:
                self._begin_reading()

    def _is_it(self, row: ProcessRow) -> bool:
        return row.process.key == self._row.process.key

    def _details(self) -> ProcessDetails:
        history, process = self.model.history, self._row.process
        inspector, until = self._inspector, self.model.time.moment
        end = history.now if until is None else until
        since = history.seen_since(process)
        span = span_of(0.0 if since is None else end - since)

        def series(field: str, points: int) -> list[float | None]:
            return history.series(process.key, field, span, points, until)

        return ProcessDetails(
            row=self._row,
            snapshot=self.model.snapshot,
            mark=self._mark(),
            series=series,
            span=span,
            inspection=inspector.latest,
            waiting=inspector.waiting,
            io_rates=inspector.io_rates,
            cpu_percents=inspector.cpu_percents,
            shows_secrets=self._shows_secrets,
            reveal_key=shown_key(self.keys, "process.reveal"),
        )

    def _mark(self) -> str:
        """Return why the row is out of date, empty if it is not."""
        if self._absent_since is None:
            return ""
        if self._inspector.exited:
            if self._exited_at is None:
                return "EXITED"
            return f"EXITED {duration(self._clock() - self._exited_at)} AGO"
        if not self.model.time.is_live:
            return "NOT ON A GPU AT THIS MOMENT"
        return f"LEFT THE GPU {duration(self.model.history.now - self._sampled_at)} AGO"
