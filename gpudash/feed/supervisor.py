"""A command that is run again and again, one child at a time, and its output lines.

A child that the driver blocks for ever cannot even be killed: it is abandoned, and another one is
started. Only `wait` waits, so that event loops and blocking commands can share this.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Generic

from msgspec import Struct

from gpudash.feed.collector import (
    RELEASED,
    RELEASED_TEXT,
    Child,
    interval_message,
    reap,
    spawn,
)
from gpudash.feed.protocol import D
from gpudash.model.errors import (
    NVML_REFUSED,
    GpudashError,
    ResourceError,
    WireError,
    is_exhausted,
)
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import SafeText
from gpudash.model.wire import Received
from gpudash.model.xid_handover import encode_handover

if TYPE_CHECKING:
    from gpudash.system.fork import ForkedProcess

_STALE_INTERVALS = 3
_HUNG_STALES = 2
_STATUS_INTERVAL = 0.02
_MIN_WAIT = 0.01
_MAX_DOUBLINGS = 16
_OUTPUT_EXIT_SECONDS = 1.0
_MAX_OUTPUT_BYTES = 64 << 20
_WANTED_SECONDS = 1.0


class Limits(Struct, frozen=True, kw_only=True):
    """Timeouts of a child in seconds; tests inject shorter ones."""

    stale: float = 5.0
    """Without a document until it counts as silent; three intervals if that is longer."""
    hung: float = 30.0
    """Silence until another one is started; doubled each time, up to `max_hung`."""
    max_hung: float = 300.0
    retry: float = 1.0
    """Delay until a dead one is restarted; doubled each time, up to `max_retry`."""
    max_retry: float = 60.0
    max_refused_retry: float = 5.0
    """The longest delay until the return of a refusing driver, as after an update, is noticed."""
    answer: float = 10.0
    """For the driver to answer a command that waits for it, plus three intervals."""
    exit: float = 5.0
    """For a child that has closed its output to exit."""


LIMITS = Limits()


class CollectorError(GpudashError):
    """The collector has ended; message and status are its own."""


class End(Struct, frozen=True):
    """Why a child has ended."""

    silence: float | None = None
    """The seconds of silence after which it was killed."""
    status: int | None = None
    """Its exit status, negative for a signal, None if it closed its output and lingered."""
    errors: Sequence[SafeText] = ()
    """The last lines of its stderr."""


class LineSupervisor:
    """One child at a time: its lines, its silence, its end, and when the next one is due.

    Subclasses define what its lines mean and what follows from its end. Call their `advance` when
    `descriptor` is readable, and after `due_in` seconds at the latest.
    """

    def __init__(self, interval: float, limits: Limits, clock: Callable[[], float]) -> None:
        self.interval = interval
        """Seconds between two documents."""
        self.due = inf
        """When the next child is due; infinity if only the caller starts one."""
        self.started_at = clock()
        self.received_at: float | None = None
        """When the last document arrived."""
        self._released_at = -inf
        """When it last reported that the service has released the GPUs."""
        self._limits, self._clock = limits, clock
        self._process: Child | None = None
        self._ended_at: float | None = None
        self._paused_until = -inf
        """Until when it is not read: for subclasses that limit a child's cost."""
        self._attempts = 0
        """Number since the last document."""

    @property
    def is_running(self) -> bool:
        """Whether there is a child."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """PID of the child, None if there is none."""
        return None if self._process is None else self._process.pid

    @property
    def descriptor(self) -> int | None:
        """The descriptor to wait for, None if only time matters."""
        if self._process is None or self._ended_at is not None:
            return None
        return None if self._clock() < self._paused_until else self._process.descriptor

    @property
    def silence(self) -> float:
        """Seconds since this child's last document, or since its start."""
        return self._clock() - max(self.started_at, self.received_at or -inf, self._released_at)

    @property
    def stale_after(self) -> float:
        """Seconds without a document after which the child counts as silent."""
        return max(self._limits.stale, _STALE_INTERVALS * self.interval)

    @property
    def hung_after(self) -> float:
        """Seconds without a document after which the child is killed."""
        return max(self._limits.hung, _HUNG_STALES * self.stale_after)

    def due_in(self) -> float:
        """Return the seconds until there is something to do, infinity for never."""
        if self._process is None:
            return max(self.due - self._clock(), 0.0)
        if self._ended_at is not None:
            return _STATUS_INTERVAL
        silence = self.silence
        limit = self.stale_after if silence < self.stale_after else self.hung_after
        return max(limit - silence, _MIN_WAIT)

    def wait(self, seconds: float, *descriptors: int) -> None:
        """Wait until there is something to do or to read, for `seconds` at most."""
        wait(min(seconds, self.due_in()), self.descriptor, *descriptors)

    def close(self, wait_seconds: float = 0.0) -> None:
        """Kill the child; after `wait_seconds`, abandon one that the kernel holds."""
        self._abandon()
        self.due = inf
        reap(wait_seconds)

    def _start(self, spawn: Callable[[], Child]) -> OSError | None:
        """Start a child in place of the present one; return the error if that fails."""
        self._abandon()
        self.started_at, self.due, self._paused_until = self._clock(), inf, -inf
        try:
            self._process = spawn()
        except OSError as error:
            return error
        return None

    def _read(self, *, is_ready: bool = True) -> list[bytes]:
        """Return the whole lines that have arrived; without `is_ready`, read only stderr."""
        process = self._process
        if process is None or self._ended_at is not None:
            return []
        if not is_ready:
            process.read_errors()
            return []
        lines, has_ended = process.read()
        if has_ended:
            self._ended_at = self._clock()
        return lines

    def _has_dropped(self) -> bool:
        """Whether a line was too long since the last call."""
        return self._process is not None and self._process.take_oversized() > 0

    def _end(self) -> End | None:
        """Return why the child has ended, None if it has not; a hung one is killed."""
        process = self._process
        if process is None:
            return None
        if self._ended_at is None:
            silence = self.silence
            if silence < self.hung_after:
                return None
            end = End(silence=silence)
        else:
            status = process.status()
            if status is None and self._clock() - self._ended_at < self._limits.exit:
                return None
            process.read_errors()
            end = End(status=status, errors=process.errors)
        self._abandon()
        return end

    def _delay(self, longest: float) -> float:
        """Return the seconds until the next attempt, doubling them each time."""
        self._attempts += 1
        return min(self._limits.retry * 2.0 ** min(self._attempts - 1, _MAX_DOUBLINGS), longest)

    def _abandon(self) -> None:
        process, self._process = self._process, None
        self._ended_at = None
        if process is not None:
            process.abandon()


def wait(seconds: float, *descriptors: int | None) -> None:
    """Wait until one of the existing descriptors is readable, for `seconds` at most."""
    poll = select.poll()
    for descriptor in descriptors:
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    poll.poll(max(seconds, 0.0) * 1000)


class Output(LineSupervisor):
    """The whole output of a command; one that takes too long or prints too much fails."""

    def __init__(
        self,
        argv: Sequence[str],
        seconds: float,
        max_bytes: int = _MAX_OUTPUT_BYTES,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        limits = Limits(stale=0.0, hung=seconds, exit=_OUTPUT_EXIT_SECONDS)
        super().__init__(0.0, limits, clock)
        self.lines: list[bytes] = []
        self.failure: str | None = None
        """Why the output is incomplete, None if it is complete or the command still runs."""
        self._argv, self._max_bytes, self._size = argv, max_bytes, 0
        self._environ = environ or {}

    def start(self) -> None:
        """Run the command, with its output independent of the locale."""
        environ = {"LC_ALL": "C", **self._environ}
        error = self._start(
            lambda: spawn(self._argv, environ, self._max_bytes, is_controlled=False)
        )
        if error is not None:
            self.failure, self.due = f"cannot be started: {error.strerror}", self._clock()

    def advance(self) -> None:
        """Read what has arrived; detect the end of the command, and excessive or late output."""
        was_open = self.descriptor is not None
        self._take(self._read())
        if self._process is not None and was_open and self.descriptor is None:
            self._take([self._process.rest])
        if self._size > self._max_bytes or self._has_dropped():
            self.failure = f"more than {self._max_bytes >> 20} MiB"
            self._abandon()
        elif (end := self._end()) is not None:
            if end.silence is not None:
                self.failure = f"no answer for {end.silence:.0f} s"
            elif end.status != 0:
                self.failure = end.errors[-1] if end.errors else f"exit status {end.status}"

    def run(self, is_wanted: Callable[[], bool] = lambda: True) -> None:
        """Run the command, and wait for its end or until it is not wanted any more."""
        self.start()
        while self.is_running and is_wanted():
            self.wait(_WANTED_SECONDS)
            self.advance()
        self.close()

    def _take(self, lines: Sequence[bytes]) -> None:
        self.lines += lines
        self._size += sum(map(len, lines)) + len(lines)


class Supervisor(LineSupervisor, Generic[D]):
    """The documents of a collector that is restarted when it dies or hangs.

    A running `forked` collector is used first.

    `decode` reads its lines, and returns None for one to skip; with `encode`, the kept line is
    re-encoded.
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
        super().__init__(interval, limits or LIMITS, clock)
        self.latest: D | None = None
        self.latest_line = b""
        self.preview: D | None = None
        """The brief first snapshot of a collector, only to be shown."""
        self.failure: GpudashError | None = None
        """The error since the last sample."""
        self.exit_status: int | None = None
        """Exit status of a collector that ended since the last sample, negative for a signal."""
        self.is_released = False
        """Whether the collector is stopped until `resume`."""
        self.is_service_released = False
        """Whether it reads from a service that has released the GPUs."""
        self.is_restarting = False
        """Whether another collector was started and has sent no sample yet."""
        self._argv, self._environ, self._forked = list(argv), dict(environ or {}), forked
        self._decode, self._encode = decode, encode
        self._request = b""
        self._handover: dict[str, str] = {}
        self._began_at, self._hung_factor = clock(), 1.0

    @property
    def age(self) -> float:
        """Seconds since the last sample, or since the start if there was none."""
        return self._clock() - (self._began_at if self.received_at is None else self.received_at)

    @property
    def hung_after(self) -> float:
        """Seconds without a sample after which another collector is started."""
        first = super().hung_after
        return max(first, min(first * self._hung_factor, self._limits.max_hung))

    def start(self) -> None:
        """Start a collector, replacing a running one; if that fails, set `failure`, retry later."""
        if isinstance(self.latest, Snapshot):
            self._handover = encode_handover(self.latest, self._handover)
        self.is_service_released = False
        error = self._start(self._spawn)
        if error is not None:
            self.failure, self.exit_status = _not_started(error), None
            self._restart_later()
        elif self._process is not None:
            self._process.send(self._request)

    def advance(self) -> list[Received[D]]:
        """Return the samples that have arrived; detect exit and silence, and restart when due."""
        if self._clock() >= self.due:
            self._restart()
            return []
        samples = list(filter(None, map(self._decoded, self._read())))
        if self._has_dropped():
            self.failure = GpudashError("collector: a line too long for a snapshot")
        end = self._end()
        if end is not None and end.silence is not None:
            self.failure = GpudashError(
                f"collector: no answer for {end.silence:.0f} s, started another"
            )
            self._hung_factor *= 2
            self._restart()
        elif end is not None:
            self._bury(end)
        return samples

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval from now on."""
        self.interval = seconds
        if self._process is not None:
            self._process.send(interval_message(seconds))

    def ask(self, request: bytes) -> None:
        """Send a request line to this collector, and to each later one."""
        self._request = request
        if self._process is not None:
            self._process.send(request)

    def release(self) -> None:
        """End the collector, and with it all use of the GPUs, until `resume`."""
        self.close()
        self.is_released, self.failure = True, None

    def resume(self) -> None:
        """Start a collector after `release`, or replace it at once."""
        # A sample from before the release keeps its age until the next one arrives.
        self.is_restarting |= self.is_released and self.latest is not None
        self.is_released = False
        self.start()

    def _spawn(self) -> Child:
        forked, self._forked = self._forked, None
        if forked is None:
            argv = [*self._argv, "--interval", str(self.interval)]
            return spawn(argv, {**self._environ, **self._handover})
        process = Child(forked)
        process.send(interval_message(self.interval))
        return process

    def _decoded(self, line: bytes) -> Received[D] | None:
        if line == RELEASED:
            self._released_at, self.is_service_released = self._clock(), True
            self.failure = GpudashError(RELEASED_TEXT)
            return None
        try:
            snapshot = self._decode(line)
        except WireError as error:
            self.failure = GpudashError(f"collector: {error}")
            return None
        if snapshot is None:
            return None
        if self._encode is not None:
            line = self._encode(snapshot)
        self.received_at = self._clock()
        is_brief = isinstance(snapshot, Snapshot) and snapshot.brief
        self.preview = snapshot if is_brief and self.latest is None else None
        if is_brief:
            return None
        self.latest, self.latest_line = snapshot, line
        self.failure = self.exit_status = None
        self.is_restarting = self.is_service_released = False
        self._hung_factor, self._attempts = 1.0, 0
        return Received(snapshot, line)

    def _bury(self, end: End) -> None:
        """Store the message and the status of a collector that closed its output."""
        status = end.status
        how = "closed its output" if status is None else f"ended with status {status}"
        message = end.errors[-1] if end.errors else f"the collector {how}"
        self.failure = CollectorError(message.removeprefix("gpudash: "))
        self.exit_status = status
        if status is not None and status > 0:
            self.failure.exit_status = status
        self._restart_later()

    def _restart(self) -> None:
        self.is_restarting = True
        self.start()

    def _restart_later(self) -> None:
        refused = self.exit_status in NVML_REFUSED
        limits = self._limits
        longest = limits.max_refused_retry if refused else limits.max_retry
        self.due = self._clock() + self._delay(longest)


def _not_started(error: OSError) -> GpudashError:
    if is_exhausted(error):
        return ResourceError(error)
    return GpudashError(f"the collector cannot be started: {error}")
