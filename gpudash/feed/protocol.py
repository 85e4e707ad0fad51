"""The interface between the screen and the sources of its snapshots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Document, Received

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from gpudash.feed.timeline import Kept, Timeline


class FeedState(Enum):
    """Whether the last snapshot is the present state of the host."""

    STARTING = "starting"
    LIVE = "live"
    STALE = "stale"
    RESTARTING = "restarting"
    RELEASED = "released"
    SERVICE_RELEASED = "service released"


D = TypeVar("D", bound=Document)

OnSnapshots = Callable[[Sequence[Received[D]], bool], None]
"""Receives new snapshots, and whether they follow a jump and thus do not continue earlier ones."""


def ignore(*_: object) -> None:
    """Do nothing, in place of a listener before one is attached."""


class RemoteHost(NamedTuple):
    """The host that a feed is about, if not this one."""

    name: str
    run: Callable[[Sequence[str]], list[str]]
    """Returns the command that runs gpudash there, in this terminal, with some arguments."""


class Feed(Protocol[D]):
    """Snapshots of a host or of many, from a collector or a recording."""

    @property
    def latest(self) -> D | None:
        """The last snapshot that arrived; never a brief one."""

    @property
    def latest_line(self) -> bytes:
        """The line that the latest snapshot was decoded from."""

    @property
    def error(self) -> str | None:
        """Why there are no more, or the problem with the last one; None if all is well."""

    @property
    def exit_status(self) -> int | None:
        """Status of the last collector that ended, negative for a signal; None if all is well."""

    @property
    def interval(self) -> float:
        """Seconds between two snapshots."""

    @property
    def state(self) -> FeedState:
        """Whether the last snapshot is the present state of the host."""

    @property
    def age(self) -> float:
        """Seconds since the last snapshot arrived, or since the start if none did."""

    @property
    def collector(self) -> CollectorControl | None:
        """Controls of the collector, None for a recording."""

    def timeline(self, kept: Kept[D], show: Callable[[D], object]) -> Timeline[D]:
        """Return the timeline that chooses which samples are shown, kept or other ones."""

    def start(self) -> None:
        """Start collecting or reading."""

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: OnSnapshots[D],
        on_change: Callable[[], None],
    ) -> None:
        """Deliver snapshots on this loop, and report any other change by `on_change`."""

    def stop(self) -> None:
        """Deliver nothing more."""


class SnapshotFeed(Feed[Snapshot], Protocol):
    """Snapshots of one host."""

    @property
    def preview(self) -> Snapshot | None:
        """A brief snapshot, only to be shown, until the first whole one arrives."""

    @property
    def remote(self) -> RemoteHost | None:
        """The host if it is another one, None for this one or a recording."""

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        """Return the last snapshot before `attach`, waiting for a first one; it may be brief."""


class CollectorControl(Protocol):
    """The controls of a collector."""

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval."""

    def ask(self, request: bytes) -> None:
        """Send it a request line, which replaces the last one."""

    def release(self) -> None:
        """Release the GPUs until `resume`."""

    def resume(self) -> None:
        """Collect again after `release`; else replace the collector at once."""
