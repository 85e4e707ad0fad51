"""What the screen asks of whatever brings its snapshots."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from gpudash.feed.feed import FeedState
from gpudash.feed.playback import Playback
from gpudash.model.snapshot import Snapshot

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class LiveSupply(Protocol):
    """Snapshots of the present, as `gpudash.feed.feed.Feed` brings them from a collector."""

    latest: Snapshot | None
    error: str | None
    """Why there are no more, or what was wrong with the last; None if all is well."""
    exit_status: int | None
    """Status of the last collector that ended, negative for a signal; None if all is well."""
    interval: float
    """Seconds between two snapshots."""

    @property
    def state(self) -> FeedState:
        """Whether the last snapshot is what the host looks like now."""

    @property
    def age(self) -> float:
        """Seconds since the last snapshot arrived, or since the start if none did."""

    def start(self) -> None:
        """Begin to collect."""

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        """Return the last snapshot that arrives before `attach`, waiting so long at most."""

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshot: Callable[[Snapshot], None],
        on_change: Callable[[], None],
    ) -> None:
        """Deliver snapshots on this loop from now on, and tell when state or error changed."""

    def change_interval(self, seconds: float) -> None:
        """Sample at another interval."""

    def release(self) -> None:
        """Let go of the GPUs until `resume`."""

    def resume(self) -> None:
        """Collect again, or anew at once."""

    def stop(self) -> None:
        """Deliver nothing more."""


Supply = LiveSupply | Playback
"""Where the snapshots of a screen come from."""
