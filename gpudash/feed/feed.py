"""A collector elsewhere as a stream of snapshots, with its age, its death and its restarts.

The process that owns the screen never calls the driver: a collector that NVML holds for ever is
left alone, its last snapshot grows stale in sight of everyone, and a fresh one is tried.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudash.feed import collector
from gpudash.feed.collector import Child, reap, spawn
from gpudash.feed.protocol import FeedState, OnSnapshots
from gpudash.model import xid_handover
from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode
from gpudash.system.fork import ForkedProcess

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle


class _Armed(NamedTuple):
    handle: TimerHandle
    call: Callable[[], None]


class Timers:
    """Calls to come on a loop, at most one of each name; there is none before `attach`."""

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None
        self._armed: dict[str, _Armed] = {}

    def attach(self, loop: AbstractEventLoop) -> None:
        """Use this loop from now on."""
        self._loop = loop

    def arm(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call once in so many seconds, instead of what was to be called by this name."""
        assert self._loop is not None
        self.cancel(name)
        self._armed[name] = _Armed(self._loop.call_later(seconds, call), call)

    def hasten(self, name: str, seconds: float) -> None:
        """Call what is to come by this name in so many seconds at the latest; never put it off."""
        armed = self._armed.get(name)
        if self._loop is None or armed is None:
            return
        # One that was called already was due before.
        if armed.handle.when() > self._loop.time() + seconds:
            self.arm(name, seconds, armed.call)

    def cancel(self, *names: str) -> None:
        """Call nothing by these names any more."""
        for name in names:
            armed = self._armed.pop(name, None)
            if armed is not None:
                armed.handle.cancel()

    def cancel_all(self) -> None:
        """Call nothing any more."""
        self.cancel(*self._armed)


_RETRY_SECONDS, _RETRY_MAX_SECONDS = 1.0, 60.0
_DRIVER_RETRY_MAX_SECONDS = 5.0
"""At most so long a driver that comes back, as after an update, is not noticed."""
_REFUSALS = frozenset({*range(3, 31), 999 % 256})
"""How a collector ends that NVML refused: with NVML's return value."""
_STALE_SECONDS, _STALE_INTERVALS = 5.0, 3
_PATIENCE_SECONDS, _PATIENCE_MAX_SECONDS = 30.0, 300.0
_REAP_SECONDS = 0.02
_DYING_SECONDS = 0.1
"""As long as one that was killed may take to die, unless the driver holds it."""


class Feed:
    """The snapshots of one collector command, which is started again when it dies or hangs.

    `forked` is a collector that runs already, and is the first.
    """

    def __init__(
        self,
        argv: Sequence[str],
        interval: float,
        *,
        forked: ForkedProcess | None = None,
        clock: Callable[[], float] = time.monotonic,
        retry_seconds: float = _RETRY_SECONDS,
        stale_seconds: float = _STALE_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self.latest: Snapshot | None = None
        self.error: str | None = None
        """Last line that a collector left behind when it ended, or the last bad line's fault."""
        self.exit_status: int | None = None
        """Status of the last collector that ended, negative for a signal; None if all is well."""
        self.bad_lines = 0
        self.restarts = 0
        self.interval = interval
        self._argv = list(argv)
        self._clock = clock
        self._first_retry = self._retry = retry_seconds
        self._least_stale, self._least_patience = stale_seconds, patience_seconds
        self._stale_after = self._first_patience = self._patience = 0.0
        self._adapt()
        self._recovering = self._released = False
        self._forked = forked
        self._child: Child | None = None
        self._left: dict[str, str] = {}
        self._started_at = self._heard_at = clock()
        self._loop: AbstractEventLoop | None = None
        self._timers = Timers()
        self._on_snapshots: OnSnapshots = _ignore
        self._on_change: Callable[[], None] = _nothing

    def start(self) -> None:
        """Spawn the collector; what it prints waits in its pipe until `attach`."""
        self._abandon()
        self._started_at = self._clock()
        self._left = xid_handover.encode_handover(self.latest, self._left)
        forked, self._forked = self._forked, None
        try:
            self._child = Child(forked) if forked else self._spawn()
        except OSError as error:
            self._child, self.error, self.exit_status = None, f"collector: {error}", None

    @property
    def collector(self) -> Feed:
        """This feed has a collector."""
        return self

    @property
    def player(self) -> None:
        """This feed is no recording."""

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        """Return the last snapshot that arrives before `attach`, waiting so long at most."""
        if self._loop is None and self._child is not None:
            if self.latest is None:
                self._child.wait(timeout_seconds)
            for line in self._child.read()[0]:
                self._receive(line)
        return self.latest

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: OnSnapshots,
        on_change: Callable[[], None],
    ) -> None:
        """Deliver each snapshot on this loop from now on, and report changes of state or error."""
        self._loop, self._on_snapshots, self._on_change = loop, on_snapshots, on_change
        self._timers.attach(loop)
        self._listen()

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval, from now on."""
        if "--interval" in self._argv:
            self._argv[self._argv.index("--interval") + 1] = str(seconds)
        self.interval = seconds
        self._adapt()
        if self._child is not None:
            self._child.tell(collector.told(seconds))
        # Never put off: one change may follow another for as long as a key is held.
        self._timers.hasten("silence", self._stale_after)

    def release(self) -> None:
        """Let go of the GPUs: end the collector, and start none until `resume`."""
        self._timers.cancel("restart")
        self._released, self.error = True, None
        self._abandon()
        self._on_change()

    def resume(self) -> None:
        """Collect again after `release`, or anew at once by another collector."""
        self._timers.cancel("restart")
        # What was seen before it let go is as old as that, until the next one tells.
        self._recovering |= self._released and self.latest is not None
        self._released = False
        self.start()
        self._listen()
        self._on_change()

    @property
    def age(self) -> float:
        """Seconds since the last snapshot arrived, or since the start if none did."""
        return self._clock() - self._heard_at

    @property
    def state(self) -> FeedState:
        """What the collector is doing, as far as its silence tells."""
        if self._released:
            return FeedState.RELEASED
        if self._child is None or self._recovering:
            return FeedState.RESTARTING
        if self.age > self._stale_after:
            return FeedState.STALE
        return FeedState.LIVE if self.latest else FeedState.STARTING

    def stop(self) -> None:
        """Kill the collector, wait a moment at most for it to die, and deliver nothing more."""
        self._timers.cancel_all()
        self._on_snapshots, self._on_change = _ignore, _nothing
        self._abandon()
        reap(_DYING_SECONDS)

    def _spawn(self) -> Child:
        return spawn(self._argv, given=self._left)

    def _listen(self) -> None:
        if self._loop is None:
            return
        if self._child is None:
            self._restart_later()
            return
        self._loop.add_reader(self._child.descriptor, self._read)
        self._timers.arm("silence", self._stale_after, self._notice_silence)

    def _read(self) -> None:
        child = self._child
        if child is None:
            return
        lines, ended = child.read()
        for line in lines:
            self._receive(line)
        self._count_bad(child.take_oversized(), "a line beyond all measure")
        if ended and self._child is child:
            self._wait_for_status(child)

    def _receive(self, line: bytes) -> None:
        try:
            snapshot = decode(line)
        except WireError as error:
            self._count_bad(1, str(error))
            return
        self.latest, self._heard_at = snapshot, self._clock()
        self._recovering = False
        self._retry, self._patience = self._first_retry, self._first_patience
        self.error = self.exit_status = None
        self._on_snapshots([snapshot], False)

    def _count_bad(self, count: int, reason: str) -> None:
        if count:
            self.bad_lines += count
            self.error = f"collector: {reason}"
            self._on_change()

    def _wait_for_status(self, child: Child, patience: int = 50) -> None:
        """Ask for the status of a child that closed its pipes; kill it when it lingers."""
        assert self._loop is not None
        if self._child is not child:
            return
        self._loop.remove_reader(child.descriptor)
        status = child.status()
        if status is None and patience:
            self._timers.arm(
                "reap", _REAP_SECONDS, lambda: self._wait_for_status(child, patience - 1)
            )
            return
        self.exit_status = status
        self.error = child.last_error or f"collector ended with status {status}"
        self._abandon()
        self._restart_later()
        self._on_change()

    def _restart_later(self) -> None:
        self._timers.arm("restart", self._retry, self._restart)
        refused = self.exit_status in _REFUSALS
        most = _DRIVER_RETRY_MAX_SECONDS if refused else _RETRY_MAX_SECONDS
        self._retry = min(2 * self._retry, most)

    def _restart(self) -> None:
        self._timers.cancel("restart")
        self.restarts += 1
        self._recovering = True
        self.start()
        self._listen()
        self._on_change()

    def _adapt(self) -> None:
        """Choose what counts as silence at this interval."""
        self._stale_after = max(self._least_stale, _STALE_INTERVALS * self.interval)
        self._first_patience = self._patience = max(self._least_patience, 2 * self._stale_after)

    def _notice_silence(self) -> None:
        """Look at the clock when the collector should have spoken; give up on a hung one."""
        if self._child is None:
            return
        self._child.read_errors()
        silence = self._clock() - max(self._heard_at, self._started_at)
        if silence >= self._patience:
            self._patience = min(max(60.0, 2 * self._patience), _PATIENCE_MAX_SECONDS)
            self.error = f"collector: no answer for {silence:.0f} s, started another"
            self._restart()
            return
        due = self._stale_after if silence < self._stale_after else self._patience
        self._timers.arm("silence", max(due - silence, 0.01), self._notice_silence)
        if silence >= self._stale_after:
            self._on_change()

    def _abandon(self) -> None:
        """Let go of the child and of the timers that watch it."""
        child, self._child = self._child, None
        if child is None:
            return
        self._timers.cancel("silence", "reap")
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(child.descriptor)
        child.abandon()


def _ignore(_snapshots: Sequence[Snapshot], _after_jump: bool) -> None:
    """Stand in for a listener before one is attached."""


def _nothing() -> None:
    """Stand in for a listener before one is attached."""
