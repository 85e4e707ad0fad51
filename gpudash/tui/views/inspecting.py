"""Looking closely at a process again and again, beside the event loop.

A read of /proc can hang in the kernel for as long as the process does, so each look has a thread
that nothing ever waits for, and there is one at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Thread

from gpudash.analysis.inspection import Inspection, inspect, io_rates
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration

_OVERDUE_SECONDS = 2.0


class Inspector:
    """Keeps the latest look at one process, and the one before for rates."""

    def __init__(
        self,
        tell: Callable[[Inspection], object],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`tell` is called in the thread of the look; it is to pass it on to `take`."""
        self.latest: Inspection | None = None
        """The last look that saw something, or the first that did not."""
        self.exited = False
        """Whether a look has found the process to have ended."""
        self.disk_rates: tuple[float | None, float | None] = (None, None)
        """Bytes read and written per second between the last two looks."""
        self._tell = tell
        self._clock = clock
        self._thread: Thread | None = None
        self._begun_at = 0.0

    def look(self, process: Process, snapshot: Snapshot) -> None:
        """Begin a look, unless one is under way or the process has ended."""
        if self.exited or self.is_looking:
            return
        self._begun_at = self._clock()
        arguments = (self._tell, process, snapshot)
        self._thread = Thread(target=_look, args=arguments, name="inspection", daemon=True)
        self._thread.start()

    def take(self, seen: Inspection) -> None:
        """Take the outcome of a look; what was seen of a process outlasts its end."""
        self.exited = seen.exited
        before = self.latest
        if before is None or not seen.exited:
            self.latest = seen
        self.disk_rates = (None, None) if before is None else io_rates(before, seen)

    @property
    def waiting(self) -> str:
        """What is being waited for, in words; empty while looks are quick."""
        waited = self._clock() - self._begun_at if self.is_looking else 0.0
        if waited >= _OVERDUE_SECONDS:
            return f"/proc does not answer for {duration(waited)}"
        return "" if self.latest else "reading"

    @property
    def is_looking(self) -> bool:
        """Whether a look is under way."""
        return self._thread is not None and self._thread.is_alive()


def _look(tell: Callable[[Inspection], object], process: Process, snapshot: Snapshot) -> None:
    tell(inspect(process, snapshot))
