"""Feeds whose collector is a test: it gives their snapshots, and says how all is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.feed.protocol import FeedState, RemoteHost
from gpudash.feed.timeline import Timeline
from gpudash.model import fleet, wire
from gpudash.model.fleet import FleetRequest
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received


class HandFeed:
    """A feed of snapshots of one host."""

    encode = staticmethod(wire.encode)

    def __init__(self) -> None:
        self.latest: Any = None
        self.latest_line = b""
        self.preview: Snapshot | None = None
        self.error: str | None = None
        self.exit_status: int | None = None
        self.interval = 1.0
        self.state = FeedState.LIVE
        self.age = 0.0
        self.stopped = False
        self.remote: RemoteHost | None = None

    @property
    def collector(self) -> HandFeed:
        return self

    def timeline(self, kept: Any, show: Callable[[Any], object]) -> Timeline[Any]:
        return Timeline(self, kept, show)

    def start(self) -> None: ...

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        return self.latest

    def attach(
        self,
        loop: object,
        on_snapshots: Callable[[list[Received[Any]], bool], object],
        on_change: Callable[[], object],
    ) -> None:
        self._on_snapshots, self._on_change = on_snapshots, on_change

    def change_interval(self, seconds: float) -> None:
        self.interval = seconds

    def release(self) -> None:
        self.change(FeedState.RELEASED)

    def resume(self) -> None:
        self.change(FeedState.LIVE)

    def stop(self) -> None:
        self.stopped = True

    def give(self, snapshot: Any) -> None:
        """Let a snapshot arrive."""
        self.latest, self.latest_line = snapshot, self.encode(snapshot)
        self._on_snapshots([Received(snapshot, self.latest_line)], False)

    def change(self, state: FeedState, seconds: float = 0.0) -> None:
        """Let it be in a state, so many seconds after the last snapshot."""
        self.state, self.age = state, seconds
        self._on_change()


class HandFleetFeed(HandFeed):
    """A feed of snapshots of many hosts, and what was asked of its collector."""

    encode = staticmethod(fleet.encode)

    def __init__(self) -> None:
        super().__init__()
        self.interval = 10.0
        self.asked: list[FleetRequest] = []
        self.clock = 0.0
        """Seconds that have passed."""

    def timeline(self, kept: Any, show: Callable[[Any], object]) -> Timeline[Any]:
        return Timeline(self, kept, show, lambda: self.clock)

    def ask(self, request: bytes) -> None:
        self.asked.append(fleet.decode_request(request))


class PlayedFeed(HandFleetFeed):
    """Snapshots of a recording, of which no collector can be asked."""

    collector = None  # type: ignore[assignment]
