"""The clock by which samples are told apart: the host's uptime, which nobody sets."""

from __future__ import annotations

from gpudash.model.snapshot import Snapshot


class UptimeClock:
    """Tells when a snapshot was taken, also where one lacks the uptime."""

    def __init__(self) -> None:
        self._boot = 0.0

    def instant(self, snapshot: Snapshot) -> float:
        """Return when a snapshot was taken, in seconds since the host started."""
        taken_at, uptime = snapshot.taken_at.timestamp(), snapshot.host.uptime_seconds
        if uptime is None:
            return taken_at - self._boot
        self._boot = taken_at - uptime
        return uptime
