"""The interface between the screen and what brings its snapshots."""

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
"""Takes new snapshots, and whether they follow a jump: then those before are not their past."""


def ignore(*_: object) -> None:
    """Stand in for a listener before one is attached."""


class RemoteHost(NamedTuple):
    """The host that a feed is about, where that is not this one."""

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
        """Why there are no more, or what was wrong with the last; None if all is well."""

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
        """Return what chooses the samples that are shown, of those that are kept and others."""

    def start(self) -> None:
        """Begin to collect or to read."""

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: OnSnapshots[D],
        on_change: Callable[[], None],
    ) -> None:
        """Deliver snapshots on this loop, and report changes of anything else by `on_change`."""

    def stop(self) -> None:
        """Deliver nothing more."""


class SnapshotFeed(Feed[Snapshot], Protocol):
    """Snapshots of one host."""

    @property
    def preview(self) -> Snapshot | None:
        """A brief snapshot until the first whole one arrives: to be shown, and for nothing else."""

    @property
    def remote(self) -> RemoteHost | None:
        """The host where that is another one, None for this one or a recording."""

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        """Return the last snapshot before `attach`, waiting for a first one; it may be brief."""


class CollectorControl(Protocol):
    """What can be asked of a collector."""

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval."""

    def ask(self, request: bytes) -> None:
        """Send it a line of what is asked for, which replaces the last."""

    def release(self) -> None:
        """Release the GPUs until `resume`."""

    def resume(self) -> None:
        """Collect again after `release`; else replace the collector at once."""
