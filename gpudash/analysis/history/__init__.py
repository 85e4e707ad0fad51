"""The bounded past of a host: what its screens showed, and the numbers to draw charts from.

All times are seconds on the host's own uptime clock, which no one sets; a host that does not tell
its uptime is timed by the instants at which its snapshots were taken.
"""

from __future__ import annotations

from gpudash.analysis.history.metrics import DEVICE_METRICS, HOST_METRICS, PROCESS_METRICS
from gpudash.analysis.history.past import Past
from gpudash.analysis.history.snapshots import Frames
from gpudash.analysis.history.tracks import Extent
from gpudash.model.process import Process
from gpudash.model.snapshot import EMPTY, Snapshot, UptimeClock

__all__ = [
    "DEVICE_METRICS",
    "HOST_METRICS",
    "PROCESS_METRICS",
    "Extent",
    "History",
    "Key",
]

Key = str | tuple[int, float | None] | None
"""`Device.key`, `Process.key`, or None for the host."""


class History:
    """The last half hour of a host in numbers, and its last minutes in whole snapshots."""

    def __init__(self) -> None:
        self.latest: Snapshot = EMPTY
        """The snapshot pushed last."""
        self.now = 0.0
        """The instant of the latest snapshot."""
        self.began = 0.0
        """The instant of the first, which the oldest numbers are of unless they had to go."""
        self._clock = UptimeClock()
        self._frames = Frames()
        self._past = Past()

    def push(self, snapshot: Snapshot) -> None:
        """Add the next snapshot; one from before the latest, as after a reboot, starts anew."""
        now = self._clock.instant(snapshot)
        if now < self.now:
            self.clear()
        if self.latest is EMPTY:
            self.began = now
        self.now, self.latest = now, snapshot
        self._frames.push(now, snapshot)
        self._past.push(now, snapshot)

    def seal(self) -> None:
        """Keep the present as it is known now: a second is one point, which samples still raise."""
        self._past.seal()

    def clear(self) -> None:
        """Forget everything."""
        self.now, self.latest = 0.0, EMPTY
        self._frames, self._past = Frames(), Past()

    @property
    def moments(self) -> list[float]:
        """The instants of the snapshots that can be shown again, oldest first."""
        return self._frames.moments()

    def at(self, moment: float) -> Snapshot:
        """Return the host as it was shown at an instant, the oldest kept for one before it."""
        return self._frames.at(moment) or self.latest

    def step(self, moment: float, count: int) -> float:
        """Return the instant `count` snapshots after the one of `moment`, before it if negative."""
        return self._frames.step(moment, count)

    def series(
        self, key: Key, field: str, seconds: float, points: int, until: float | None = None
    ) -> list[float | None]:
        """Return a metric over the last `seconds` in so many points, each the highest in its time.

        `field` is one of DEVICE_METRICS, PROCESS_METRICS or HOST_METRICS, as the key says, else
        ValueError. None is a gap. The points stand still on the time axis from call to call, so
        that only the last one changes. `until` is the instant of the last point, else now.
        """
        return self._past.series(key, field, self._window(seconds, points, until))

    def extents(
        self, key: Key, field: str, seconds: float, points: int, until: float | None = None
    ) -> list[Extent | None]:
        """Return like `series` the lowest, mean and highest value in the time of each point."""
        return self._past.extents(key, field, self._window(seconds, points, until))

    def idle_seconds(self, process: Process, moment: float | None = None) -> float | None:
        """Return how long a process had held memory at 0 % SM, as far as was seen by an instant.

        0 if it worked or held nothing; None if its SM utilization was not known. The instant is
        now unless told.
        """
        return self._past.idle_seconds(process.key, moment)

    def seen_since(self, process: Process) -> float | None:
        """Return the instant at which a process was seen first, None if it was not."""
        return self._past.seen_since(process.key)

    def _window(self, seconds: float, points: int, until: float | None) -> tuple[float, float, int]:
        if seconds <= 0 or points <= 0:
            raise ValueError(f"{points} points over {seconds} s are no series")
        return self.now if until is None else until, seconds, points
