"""The snapshots of a collector on an event loop.

The process that owns the screen never calls the driver: if NVML blocks a collector for ever, it is
abandoned, its last snapshot is shown as stale, and another collector is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from gpudash.feed.protocol import D, FeedState, OnSnapshots, RemoteHost, ignore
from gpudash.feed.supervisor import CollectorError, Supervisor
from gpudash.feed.timeline import Kept, Timeline

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

_DEATH_SECONDS = 0.1
"""For a killed collector to exit, unless the driver holds it."""

_Status = tuple[FeedState, str | None, int | None, bool]


class LiveFeed(Supervisor[D]):
    """The documents of one collector command, delivered on an event loop."""

    remote: RemoteHost | None = None
    """The host at the far end, None for this one."""
    adapt_past: Callable[[D], D] | None = None
    """Adapts past samples from this host's service; None if it has none."""

    _loop: AbstractEventLoop | None = None
    _timer: TimerHandle | None = None
    _watched: tuple[int | None, int] | None = None
    _reported: _Status = FeedState.STARTING, None, None, False
    _on_snapshots: OnSnapshots[D] = staticmethod(ignore)
    _on_change: Callable[[], None] = staticmethod(ignore)

    @property
    def error(self) -> str | None:
        """The last line of a collector that ended, or another error since the last snapshot."""
        failure = self.failure
        if isinstance(failure, CollectorError):
            return f"gpudash: {failure}"
        return None if failure is None else str(failure)

    @property
    def collector(self) -> LiveFeed[D]:
        """The feed itself."""
        return self

    @property
    def state(self) -> FeedState:
        """The collector's state, judged by its silence."""
        if self.is_released:
            return FeedState.RELEASED
        if self.is_service_released:
            return FeedState.SERVICE_RELEASED
        if self.is_restarting or not self.is_running:
            return FeedState.RESTARTING
        if self.age > self.stale_after:
            return FeedState.STALE
        return FeedState.LIVE if self.latest else FeedState.STARTING

    def timeline(self, kept: Kept[D], show: Callable[[D], object]) -> Timeline[D]:
        """Return the timeline of the present and the kept past."""
        if self.adapt_past is None:
            return Timeline(self, kept, show)
        from gpudash.feed.visits import Visits

        return Visits(self, kept, show, self.adapt_past, self._changed)

    def poll(self, timeout_seconds: float = 0) -> D | None:
        """Return the last snapshot before `attach`, waiting for a first one; it may be brief."""
        deadline = time.monotonic() + timeout_seconds
        while self._loop is None:
            left = deadline - time.monotonic()
            if self.latest is None and self.preview is None:
                self.wait(max(left, 0))
            self.advance()
            # A line longer than a pipe comes in pieces.
            if left <= 0 or self.latest or self.preview:
                break
        return self.latest or self.preview

    def attach(
        self, loop: AbstractEventLoop, on_snapshots: OnSnapshots[D], on_change: Callable[[], None]
    ) -> None:
        """Deliver snapshots on this loop from now on, and report changes of state or error."""
        self._loop, self._on_snapshots, self._on_change = loop, on_snapshots, on_change
        self._timer = loop.call_later(0, self._advance)

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval, from now on."""
        super().change_interval(seconds)
        self._update()

    def release(self) -> None:
        """Release the GPUs: end the collector, and start none until `resume`."""
        super().release()
        self._update()

    def resume(self) -> None:
        """Collect again after `release`; else replace the collector at once."""
        super().resume()
        self._update()

    def stop(self) -> None:
        """Kill the collector, briefly wait for its exit, and deliver nothing more."""
        self._on_snapshots = self._on_change = ignore
        self.close(_DEATH_SECONDS)
        self._update()

    def _changed(self) -> None:
        self._on_change()

    def _advance(self) -> None:
        for sample in self.advance():
            self._on_snapshots([sample], False)
        self._update()

    def _update(self) -> None:
        """Wait for the next event, and report changes."""
        if self._loop is None or self._loop.is_closed():
            return
        self._watch(self._loop)
        status = self.state, self.error, self.exit_status, self.preview is not None
        if status != self._reported:
            self._reported = status
            self._on_change()

    def _watch(self, loop: AbstractEventLoop) -> None:
        descriptor = self.descriptor
        watched = None if descriptor is None else (self.pid, descriptor)
        if watched != self._watched:
            # The new pipe may have the number of the old one, which is closed.
            if self._watched is not None:
                loop.remove_reader(self._watched[1])
            if descriptor is not None:
                loop.add_reader(descriptor, self._advance)
            self._watched = watched
        if self._timer is not None:
            self._timer.cancel()
        seconds = self.due_in()
        self._timer = None if seconds == inf else loop.call_later(seconds, self._advance)
