"""The last few samples of a collector, for those who need some before they go on."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from gpudash.feed.collector import Child, not_started, spawn
from gpudash.model.errors import ExitStatus, GpudashError, WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode

_REAP_SECONDS = 5.0
_PATIENCE_SECONDS = 10.0
_FAREWELL_SECONDS = 0.5
_RETRY_SECONDS = 2.0
_COUNT = 9
_LEAST_INTERVAL = 0.1


class CollectorError(GpudashError):
    """The collector has ended; the message is its own last line, the status its own."""


class SilenceError(CollectorError):
    """The driver did not answer in time."""

    exit_status = ExitStatus.NO_ANSWER


class Survey:
    """A collector in a child of its own, and the samples that it gave last, oldest first."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        interval: float,
        keep: int,
        patience_seconds: float = _PATIENCE_SECONDS,
        takes_silence: bool = False,
    ) -> None:
        """Start it; with `takes_silence` a sample counts of which the driver told nothing."""
        self._takes_silence = takes_silence
        self.samples: deque[Snapshot] = deque(maxlen=keep)
        self._silence = ""
        self._patience = patience_seconds + 3 * interval
        self._argv = [*argv, "--interval", str(interval)]
        self._child = self._start()

    def next(self, timeout_seconds: float) -> Snapshot | None:
        """Return a sample that arrives within this time, the newest of several, None for none.

        Raises GpudashError with the collector's own last line and status when it has ended.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._child.wait(max(deadline - time.monotonic(), 0))
            lines, ended = self._child.read()
            fresh = [snapshot for line in lines if (snapshot := _decoded(line))]
            fresh = [snapshot for snapshot in fresh if self._has_answer(snapshot)]
            self.samples.extend(fresh)
            if fresh:
                return fresh[-1]
            if ended:
                raise self._end()
            if time.monotonic() >= deadline:
                return None

    def go_on(self) -> None:
        """Wait for the next sample; raises SilenceError if it is overdue.

        Raises GpudashError with status 6 where the driver says that there is no GPU.
        """
        self._silence = f"the driver did not answer in {self._patience:.0f} s"
        if self.next(self._patience) is None:
            raise SilenceError(f"{self._silence}; sudo dmesg | grep -i xid may say why")

    def fill(self) -> None:
        """Wait until as many samples are there as are kept."""
        while len(self.samples) < (self.samples.maxlen or 1):
            self.go_on()

    def insist(self, goes_on: Callable[[str], bool]) -> bool:
        """Wait for the next sample also through silence and restarts of the collector.

        `goes_on` is told of each trouble; where it says no that is the end, and False.
        """
        while True:
            try:
                self.go_on()
                return True
            except GpudashError as error:
                if not goes_on(str(error)):
                    return False
            time.sleep(_RETRY_SECONDS)
            self._child.abandon()
            self._child = self._start()

    def close(self) -> None:
        """End the collector; one that the driver holds is left behind after a moment."""
        self._child.abandon()
        self._child.await_status(_FAREWELL_SECONDS)

    def _has_answer(self, snapshot: Snapshot) -> bool:
        """Whether the driver was heard at all: without it no GPU is known, which is not none."""
        if snapshot.devices or self._takes_silence:
            return True
        for fault in snapshot.errors:
            if fault.source == "nvml" and fault.code != ExitStatus.NO_GPU:
                self._silence = fault.message
                return False
        error = GpudashError("there is no GPU")
        error.exit_status = ExitStatus.NO_GPU
        raise error

    def _start(self) -> Child:
        try:
            return spawn(self._argv)
        except OSError as error:
            raise not_started(error) from None

    def _end(self) -> GpudashError:
        status = self._child.await_status(_REAP_SECONDS)
        message = self._child.last_error or f"the collector ended with status {status}"
        error = CollectorError(message.removeprefix("gpudash: "))
        error.exit_status = status if status is not None and status > 0 else error.exit_status
        return error


def open_survey(argv: Sequence[str], window_seconds: float) -> Survey:
    """Return a survey of a collector over so many seconds; of one sample if that is too short."""
    interval = window_seconds / (_COUNT - 1)
    if interval < _LEAST_INTERVAL:
        return Survey(argv, interval=_LEAST_INTERVAL, keep=1)
    return Survey(argv, interval=interval, keep=_COUNT)


def _decoded(line: bytes) -> Snapshot | None:
    try:
        return decode(line)
    except WireError:
        return None
