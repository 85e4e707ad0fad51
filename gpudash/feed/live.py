"""The snapshots of a collector on an event loop.

The process that owns the screen never calls the driver: a collector that NVML blocks for ever is
abandoned, its last snapshot is shown as stale, and another one is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Generic

from gpudash.feed.protocol import D, FeedState, OnSnapshots, RemoteHost
from gpudash.feed.supervisor import CollectorError, Limits, Supervisor
from gpudash.model.wire import Received

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

    from gpudash.system.fork import ForkedProcess

_DEATH_SECONDS = 0.1
"""For a killed collector to die, unless the driver holds it."""

_Status = tuple[FeedState, str | None, int | None, bool]


class LiveFeed(Generic[D]):
    """The documents of one collector command, which is started again when it dies or hangs.

    Its environment is ours and `environ`. `forked` is a collector that runs already, and is the
    first.
    """

    def __init__(
        self,
        argv: Sequence[str],
        interval: float,
        decode: Callable[[bytes], D | None],
        *,
        encode: Callable[[D], bytes] | None = None,
        environ: Mapping[str, str] | None = None,
        remote: RemoteHost | None = None,
        forked: ForkedProcess | None = None,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._supervisor = Supervisor(
            argv,
            interval,
            decode,
            encode=encode,
            environ=environ,
            forked=forked,
            limits=limits,
            clock=clock,
        )
        self.remote = remote
        self._loop: AbstractEventLoop | None = None
        self._timer: TimerHandle | None = None
        self._watched: tuple[int | None, int] | None = None
        self._reported: _Status = FeedState.STARTING, None, None, False
        self._on_snapshots: OnSnapshots[D] = _ignore
        self._on_change: Callable[[], None] = _nothing

    @property
    def latest(self) -> D | None:
        """The last snapshot that arrived."""
        return self._supervisor.latest

    @property
    def latest_line(self) -> bytes:
        """The line that the latest snapshot was decoded from."""
        return self._supervisor.latest_line

    @property
    def preview(self) -> D | None:
        """A brief snapshot until the first whole one arrives."""
        return self._supervisor.brief

    @property
    def error(self) -> str | None:
        """The last line of a collector that ended, or what else went wrong since a snapshot."""
        failure = self._supervisor.failure
        if isinstance(failure, CollectorError):
            return f"gpudash: {failure}"
        return None if failure is None else str(failure)

    @property
    def exit_status(self) -> int | None:
        """Status of the last collector that ended, negative for a signal; None if all is well."""
        return self._supervisor.exit_status

    @property
    def interval(self) -> float:
        """Seconds between two snapshots."""
        return self._supervisor.interval

    @property
    def collector(self) -> LiveFeed[D]:
        """This feed has a collector."""
        return self

    @property
    def player(self) -> None:
        """This feed is no recording."""

    @property
    def age(self) -> float:
        """Seconds since the last snapshot arrived, or since the start if none did."""
        return self._supervisor.age

    @property
    def state(self) -> FeedState:
        """What the collector is doing, as far as its silence shows."""
        if self._supervisor.is_released:
            return FeedState.RELEASED
        if self._supervisor.is_restarting or not self._supervisor.is_running:
            return FeedState.RESTARTING
        if self.age > self._supervisor.stale_after:
            return FeedState.STALE
        return FeedState.LIVE if self.latest else FeedState.STARTING

    def start(self) -> None:
        """Start the collector; what it prints waits in its pipe until `poll` or `attach`."""
        self._supervisor.start()

    def poll(self, timeout_seconds: float = 0) -> D | None:
        """Return the last snapshot before `attach`, waiting for a first one; it may be brief."""
        if self._loop is None:
            if self.latest is None and self.preview is None:
                self._supervisor.wait(timeout_seconds)
            self._supervisor.advance()
        return self.latest or self.preview

    def attach(
        self, loop: AbstractEventLoop, on_snapshots: OnSnapshots[D], on_change: Callable[[], None]
    ) -> None:
        """Deliver each snapshot on this loop from now on, and report changes of state or error."""
        self._loop, self._on_snapshots, self._on_change = loop, on_snapshots, on_change
        self._timer = loop.call_later(0, self._advance)

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval, from now on."""
        self._supervisor.change_interval(seconds)
        self._update()

    def ask(self, request: bytes) -> None:
        """Send a line to the collector, and to each one that replaces it."""
        self._supervisor.ask(request)

    def release(self) -> None:
        """Release the GPUs: end the collector, and start none until `resume`."""
        self._supervisor.release()
        self._update()

    def resume(self) -> None:
        """Collect again after `release`; else replace the collector at once."""
        self._supervisor.resume()
        self._update()

    def stop(self) -> None:
        """Kill the collector, wait a moment at most for it to die, and deliver nothing more."""
        self._on_snapshots, self._on_change = _ignore, _nothing
        self._supervisor.close(_DEATH_SECONDS)
        self._update()

    def _advance(self) -> None:
        for sample in self._supervisor.advance():
            self._on_snapshots([sample], False)
        self._update()

    def _update(self) -> None:
        """Wait for what comes next, and report what has changed."""
        if self._loop is None or self._loop.is_closed():
            return
        self._watch(self._loop)
        status = self.state, self.error, self.exit_status, self.preview is not None
        if status != self._reported:
            self._reported = status
            self._on_change()

    def _watch(self, loop: AbstractEventLoop) -> None:
        descriptor = self._supervisor.descriptor
        watched = None if descriptor is None else (self._supervisor.pid, descriptor)
        if watched != self._watched:
            # The new pipe may have the number of the old one, which is closed.
            if self._watched is not None:
                loop.remove_reader(self._watched[1])
            if descriptor is not None:
                loop.add_reader(descriptor, self._advance)
            self._watched = watched
        if self._timer is not None:
            self._timer.cancel()
        seconds = self._supervisor.due_in()
        self._timer = None if seconds == inf else loop.call_later(seconds, self._advance)


def _ignore(_snapshots: Sequence[Received[Any]], _after_jump: bool) -> None:
    """Stand in for a listener before one is attached."""


def _nothing() -> None:
    """Stand in for a listener before one is attached."""
