"""Starts a collector, watches it, and starts another when it dies or hangs.

A collector that the driver blocks for ever cannot even be killed: it is abandoned, and another one
is started. Nothing here waits, except `wait`: an event loop and a blocking command use the same.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Generic

from msgspec import Struct

from gpudash.feed.collector import CollectorProcess, interval_message, reap, spawn
from gpudash.feed.protocol import D
from gpudash.model.errors import (
    NVML_REFUSED,
    GpudashError,
    ResourceError,
    WireError,
    is_exhausted,
)
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received
from gpudash.model.xid_handover import encode_handover

if TYPE_CHECKING:
    from gpudash.system.fork import ForkedProcess

_STALE_INTERVALS = 3
_HUNG_STALES = 2
_STATUS_INTERVAL = 0.02
_MIN_WAIT = 0.01


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds that a collector is given; tests inject shorter ones."""

    stale: float = 5.0
    """Without a sample before it counts as silent; three intervals if that is longer."""
    hung: float = 30.0
    """Of silence before another one is started; twice as long each time, up to `max_hung`."""
    max_hung: float = 300.0
    retry: float = 1.0
    """Before a dead one is started again; twice as long each time, up to `max_retry`."""
    max_retry: float = 60.0
    max_refused_retry: float = 5.0
    """The longest delay until a driver that is back, as after an update, is noticed."""
    answer: float = 10.0
    """For the driver to answer a command that waits for it; three intervals more."""
    exit: float = 5.0
    """For one that has closed its output to end."""


LIMITS = Limits()


class CollectorError(GpudashError):
    """The collector has ended; message and status are its own."""


class Supervisor(Generic[D]):
    """One collector at a time. `advance` reads it and does what is due.

    Call it when `descriptor` can be read, and after `due_in` seconds at the latest. A `forked`
    collector that runs already is the first one.

    `decode` reads its lines, and returns None for one to skip; with `encode` what is kept is not
    the line that arrived.
    """

    def __init__(
        self,
        argv: Sequence[str],
        interval: float,
        decode: Callable[[bytes], D | None],
        *,
        encode: Callable[[D], bytes] | None = None,
        environ: Mapping[str, str] | None = None,
        forked: ForkedProcess | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.interval = interval
        self.latest: D | None = None
        self.latest_line = b""
        self.brief: D | None = None
        """The brief snapshot of a collector that has given no other yet: for the eye alone."""
        self.failure: GpudashError | None = None
        """What went wrong since the last sample."""
        self.exit_status: int | None = None
        """Status of a collector that ended since the last sample, negative for a signal."""
        self.is_released = False
        """Whether there is none until `resume`."""
        self.is_restarting = False
        """Whether another one was started and has given no sample yet."""
        self._argv, self._environ, self._forked = list(argv), dict(environ or {}), forked
        self._decode, self._encode = decode, encode
        self._request = b""
        self._limits = limits or LIMITS
        self._clock = clock
        self._hung_factor, self._retry = 1, self._limits.retry
        self._process: CollectorProcess | None = None
        self._handover: dict[str, str] = {}
        self._started_at = self.sampled_at = clock()
        self._ended_at: float | None = None
        self._restart_at = inf

    @property
    def is_running(self) -> bool:
        """Whether there is a collector."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """PID of the collector, None if there is none."""
        return None if self._process is None else self._process.pid

    @property
    def descriptor(self) -> int | None:
        """What can be read when there is something to do, None while only time matters."""
        if self._process is None or self._ended_at is not None:
            return None
        return self._process.descriptor

    @property
    def age(self) -> float:
        """Seconds since the last sample, or since the beginning if there was none."""
        return self._clock() - self.sampled_at

    @property
    def stale_after(self) -> float:
        """Seconds without a sample after which the collector counts as silent."""
        return max(self._limits.stale, _STALE_INTERVALS * self.interval)

    def start(self) -> None:
        """Start a collector, replacing a running one; if that fails, set `failure`, retry later."""
        self._abandon()
        self._started_at = self._clock()
        if isinstance(self.latest, Snapshot):
            self._handover = encode_handover(self.latest, self._handover)
        forked, self._forked = self._forked, None
        try:
            self._process = CollectorProcess(forked) if forked else self._spawn()
            if forked:
                self._process.send(interval_message(self.interval))
            self._process.send(self._request)
        except OSError as error:
            self.failure, self.exit_status = _not_started(error), None
            self._restart_later()

    def advance(self) -> list[Received[D]]:
        """Return the samples that have arrived; notice death and silence, start again when due."""
        process = self._process
        if process is None:
            if self._clock() >= self._restart_at:
                self._restart()
            return []
        samples: list[Received[D]] = []
        if self._ended_at is None:
            lines, has_ended = process.read()
            samples = list(filter(None, map(self._decoded, lines)))
            if process.take_oversized():
                self.failure = GpudashError("collector: a line too long for a snapshot")
            if has_ended:
                self._ended_at = self._clock()
        if self._ended_at is not None:
            self._bury(process, self._ended_at)
        elif self._silence >= self._hung_after:
            self.failure = GpudashError(
                f"collector: no answer for {self._silence:.0f} s, started another"
            )
            self._hung_factor *= 2
            self._restart()
        return samples

    def due_in(self) -> float:
        """Return after how many seconds `advance` has something to do, infinity for never."""
        if self._process is None:
            return max(self._restart_at - self._clock(), 0.0)
        if self._ended_at is not None:
            return _STATUS_INTERVAL
        silence = self._silence
        limit = self.stale_after if silence < self.stale_after else self._hung_after
        return max(limit - silence, _MIN_WAIT)

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Wait until there is something to do or to read, `seconds` at most."""
        poll = select.poll()
        for descriptor in (self.descriptor, *descriptors):
            if descriptor is not None:
                poll.register(descriptor, select.POLLIN)
        poll.poll(max(min(seconds, self.due_in()), 0.0) * 1000)

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval from now on."""
        self.interval = seconds
        if self._process is not None:
            self._process.send(interval_message(seconds))

    def ask(self, request: bytes) -> None:
        """Send a line of what is asked for to this collector, and to each later one."""
        self._request = request
        if self._process is not None:
            self._process.send(request)

    def release(self) -> None:
        """End the collector, and with it all use of the GPUs, until `resume`."""
        self._abandon()
        self.is_released, self.failure = True, None

    def resume(self) -> None:
        """Start a collector after `release`, or at once another one."""
        # A sample from before the release is as old as that until the next one arrives.
        self.is_restarting |= self.is_released and self.latest is not None
        self.is_released = False
        self.start()

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the collector; one that the driver holds is left behind after `wait_seconds`."""
        self._abandon()
        reap(wait_seconds)

    @property
    def _silence(self) -> float:
        """Seconds since the last sample of this collector, or since its start."""
        return self._clock() - max(self.sampled_at, self._started_at)

    @property
    def _hung_after(self) -> float:
        first = max(self._limits.hung, _HUNG_STALES * self.stale_after)
        return max(first, min(first * self._hung_factor, self._limits.max_hung))

    def _spawn(self) -> CollectorProcess:
        argv = [*self._argv, "--interval", str(self.interval)]
        return spawn(argv, {**self._environ, **self._handover})

    def _decoded(self, line: bytes) -> Received[D] | None:
        try:
            snapshot = self._decode(line)
        except WireError as error:
            self.failure = GpudashError(f"collector: {error}")
            return None
        if snapshot is None:
            return None
        if self._encode is not None:
            line = self._encode(snapshot)
        self.sampled_at = self._clock()
        is_brief = isinstance(snapshot, Snapshot) and snapshot.brief
        self.brief = snapshot if is_brief and self.latest is None else None
        if is_brief:
            return None
        self.latest, self.latest_line = snapshot, line
        self.failure = self.exit_status = None
        self.is_restarting = False
        self._hung_factor, self._retry = 1, self._limits.retry
        return Received(snapshot, line)

    def _bury(self, process: CollectorProcess, ended_at: float) -> None:
        """Keep the status of a collector that closed its output; kill it when it lingers."""
        status = process.status()
        if status is None and self._clock() - ended_at < self._limits.exit:
            return
        end = "closed its output" if status is None else f"ended with status {status}"
        message = process.last_error or f"the collector {end}"
        self.failure = CollectorError(message.removeprefix("gpudash: "))
        self.exit_status = status
        if status is not None and status > 0:
            self.failure.exit_status = status
        self._abandon()
        self._restart_later()

    def _restart(self) -> None:
        self.is_restarting = True
        self.start()

    def _restart_later(self) -> None:
        self._restart_at = self._clock() + self._retry
        refused = self.exit_status in NVML_REFUSED
        limit = self._limits.max_refused_retry if refused else self._limits.max_retry
        self._retry = min(2 * self._retry, limit)

    def _abandon(self) -> None:
        process, self._process = self._process, None
        self._ended_at, self._restart_at = None, inf
        if process is not None:
            process.abandon()


def _not_started(error: OSError) -> GpudashError:
    if is_exhausted(error):
        return ResourceError(error)
    return GpudashError(f"the collector cannot be started: {error}")
