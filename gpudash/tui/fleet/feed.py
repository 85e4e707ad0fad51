"""The interface between the screen of many hosts and what brings its snapshots."""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Sequence
from typing import Protocol

from gpudash.feed.protocol import FeedState
from gpudash.model.fleet import FleetSnapshot
from gpudash.model.wire import Received


class Collector(Protocol):
    """A collector that takes requests."""

    def ask(self, request: bytes) -> None:
        """Send it a line, which replaces the last."""


class FleetFeed(Protocol):
    """Snapshots of many hosts, from a collector or a recording."""

    @property
    def latest(self) -> FleetSnapshot | None:
        """The last snapshot that arrived."""

    @property
    def latest_line(self) -> bytes:
        """The line that it was decoded from."""

    @property
    def error(self) -> str | None:
        """Why there are no more, or what was wrong with the last; None if all is well."""

    @property
    def exit_status(self) -> int | None:
        """Status of the last collector that ended, negative for a signal; None if all is well."""

    @property
    def interval(self) -> float:
        """Seconds between two snapshots."""

    @property
    def state(self) -> FeedState:
        """Whether snapshots arrive."""

    @property
    def age(self) -> float:
        """Seconds since the last snapshot arrived, or since the start if none did."""

    @property
    def collector(self) -> Collector | None:
        """What can be asked for other instants and charts, None for a recording."""

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: Callable[[Sequence[Received[FleetSnapshot]], bool], None],
        on_change: Callable[[], None],
    ) -> None:
        """Deliver snapshots on this loop, and report changes of anything else by `on_change`."""

    def stop(self) -> None:
        """Deliver nothing more."""
