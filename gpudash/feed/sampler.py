"""Samples of a collector for commands that wait for them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gpudash.feed.collector import RELEASED_TEXT
from gpudash.feed.protocol import D
from gpudash.feed.supervisor import CollectorError, Limits, Supervisor
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.model.wire import Received, decode

_LIMITS = Limits(retry=2.0)
_DEATH_SECONDS = 0.5
_COUNT = 9
_MIN_INTERVAL = 0.1


class SilenceError(CollectorError):
    """The driver did not answer in time."""

    exit_status = ExitStatus.NO_ANSWER


class Sampler:
    """The last samples of its own collector, oldest first.

    Raises GpudashError if the collector cannot be started.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        interval: float,
        keep: int,
        decode: Callable[[bytes], Snapshot | None] = decode,
        limits: Limits = _LIMITS,
        allow_empty: bool = False,
        answer_seconds: float | None = None,
    ) -> None:
        """Start it; with `allow_empty`, a sample without the driver's answer counts too.

        A sample is overdue after `answer_seconds`, else by the limits and the interval.
        """
        self.samples: deque[Snapshot] = deque(maxlen=keep)
        self._allow_empty = allow_empty
        self._answer_seconds = answer_seconds or limits.answer + 3 * interval
        self._silence = ""
        self._collector = Supervisor(argv, interval, decode, limits=limits)
        self._collector.start()
        _require_running(self._collector)

    def poll(self, timeout_seconds: float) -> Snapshot | None:
        """Return the newest sample that arrives within this time, None for none.

        Raises GpudashError with the collector's last line and status if it has ended.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            self._collector.wait(max(deadline - time.monotonic(), 0))
            snapshots = [sample.snapshot for sample in self._collector.advance()]
            answers = list(filter(self._has_answer, snapshots))
            self.samples.extend(answers)
            if answers:
                return answers[-1]
            _require_running(self._collector)
            if time.monotonic() >= deadline:
                return None

    def next_sample(self) -> None:
        """Wait for the next sample; raises SilenceError if it is overdue.

        Raises GpudashError with status 6 if the driver reports no GPU.
        """
        self._silence = f"the driver did not answer in {self._answer_seconds:.0f} s"
        if self.poll(self._answer_seconds) is None:
            raise SilenceError(f"{self._silence}; sudo dmesg | grep -i xid may show why")

    def fill(self) -> None:
        """Wait until the samples are complete."""
        while len(self.samples) < (self.samples.maxlen or 1):
            self.next_sample()

    def next_sample_or_retry(self, goes_on: Callable[[str], bool]) -> bool:
        """Wait for the next sample, even through silence and restarts of the collector.

        `goes_on` gets each error; if it returns False, waiting ends with the result False. The
        supervisor restarts the collector, ever later while the driver hangs, as a collector that it
        holds cannot even be killed.
        """
        while True:
            try:
                self.next_sample()
                return True
            except GpudashError as error:
                if not goes_on(str(error)):
                    return False

    def close(self) -> None:
        """End the collector; after a moment, abandon one that the driver holds."""
        self._collector.close(_DEATH_SECONDS)

    def _has_answer(self, snapshot: Snapshot) -> bool:
        """Whether the driver answered: otherwise the GPUs are unknown, rather than none."""
        if snapshot.devices or self._allow_empty:
            return True
        for fault in snapshot.errors:
            if fault.source == "nvml" and fault.code != ExitStatus.NO_GPU:
                self._silence = fault.message
                return False
        error = GpudashError("there is no GPU")
        error.exit_status = ExitStatus.NO_GPU
        raise error


def sampling(window_seconds: float) -> tuple[float, int]:
    """Return the seconds between samples over a time, and their number; one if it is too short."""
    interval = window_seconds / (_COUNT - 1)
    return (_MIN_INTERVAL, 1) if interval < _MIN_INTERVAL else (interval, _COUNT)


def open_sampler(argv: Sequence[str], window_seconds: float) -> Sampler:
    """Return a sampler over `window_seconds`; of a single sample if that is too short."""
    interval, keep = sampling(window_seconds)
    return Sampler(argv, interval=interval, keep=keep)


class LineStream(Supervisor[D]):
    """The lines of a collector, byte for byte; `problem` reports a time without any.

    Raises GpudashError, with the collector's last line and status, if it never prints any.
    """

    def __init__(
        self,
        argv: Sequence[str],
        interval: float,
        decode: Callable[[bytes], D | None],
        *,
        encode: Callable[[D], bytes] | None = None,
        environ: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(argv, interval, decode, encode=encode, environ=environ, clock=clock)
        self._resumed_at = clock()
        self.start()
        _require_running(self)

    @property
    def problem(self) -> str:
        """Why there are no samples at present, empty if there are."""
        if self.is_released:
            return "detached from the driver: kill -USR1 reattaches"
        if self.is_service_released:
            return RELEASED_TEXT
        if not self.is_running:
            return str(self.failure)
        silence = min(self.age, self._clock() - self._resumed_at)
        if silence < self.stale_after:
            return ""
        if self.failure is not None:
            return f"no sample for {duration(silence)}: {self.failure}"
        return f"no sample for {duration(silence)}: the driver does not answer"

    def take(self) -> list[Received[D]]:
        """Return the samples that have arrived; restart the collector when due."""
        samples = self.advance()
        if self.latest is None and not self.is_released:
            _require_running(self)
        return samples

    def toggle_release(self) -> None:
        """Release the GPUs, so that they can be reset, or resume."""
        if self.is_released:
            self.resume()
            self._resumed_at = self._clock()
        else:
            self.release()


def _require_running(collector: Supervisor[Any]) -> None:
    """Raise the error of a collector that is not running."""
    if collector.failure is not None and not collector.is_running:
        raise collector.failure
