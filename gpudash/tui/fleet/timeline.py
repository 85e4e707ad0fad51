"""Which instant is shown of many hosts: the present, a sample that was kept, or one asked for."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from gpudash.model.fleet import FleetSnapshot, decode
from gpudash.model.units import duration
from gpudash.system.zstd import pack, unpack

EMPTY = FleetSnapshot(taken_at=datetime.fromtimestamp(0, timezone.utc))
"""What is shown before anything is known."""

_STEP = timedelta(minutes=1)
"""How far apart instants are that are asked for."""
_SAME_SECONDS = 1.0
_MAX_KEPT, _MAX_BYTES = 360, 24 << 20


class _Kept(NamedTuple):
    taken_at: datetime
    packed: bytes


class Timeline:
    """The samples that arrived lately, compressed, and the one that is shown."""

    def __init__(self) -> None:
        self.latest = EMPTY
        """The newest that arrived; another one is shown while time stands still."""
        self.moment: datetime | None = None
        """The instant of the past that is shown or waited for, None for the present."""
        self.asked: datetime | None = None
        """The one that the collector was asked for, None if it is none."""
        self._is_asking = False
        """Whether that is waited for, and what was shown before is shown."""
        self._kept: deque[_Kept] = deque()
        self._bytes = 0

    @property
    def mark(self) -> str:
        """How far back the instant is, and if it is waited for, for the header.

        Empty for the present.
        """
        if self.moment is None:
            return ""
        ago = (self.latest.taken_at - self.moment).total_seconds()
        if ago <= 0:
            return "PAUSED"
        return f"{'ASKING FOR ' if self._is_asking else ''}{duration(ago)} AGO"

    def receive(self, snapshot: FleetSnapshot, line: bytes) -> bool:
        """Keep the next snapshot of the feed; return whether it is to be shown."""
        if self.asked is not None:
            # What was on its way when another instant was asked for is not that.
            if abs((snapshot.taken_at - self.asked).total_seconds()) >= _SAME_SECONDS:
                return False
            self.moment, self._is_asking = snapshot.taken_at, False
            return True
        if self.latest is not EMPTY and snapshot.taken_at < self.latest.taken_at:
            # An instant that was asked for, and comes late.
            return False
        self.latest = snapshot
        self._keep(snapshot.taken_at, line)
        return self.moment is None

    def step(self, samples: int, *, has_past: bool) -> FleetSnapshot | None:
        """Return an earlier or later sample; the one after the last is the present.

        None for one that is older than those that are kept and is asked for, where there
        `has_past`.
        """
        times = self._times
        if not times:
            return None
        now = self.moment or times[-1]
        index = bisect_left(times, now) + samples
        if now < times[0]:
            return self.go_to(now + samples * _STEP, has_past=has_past)
        if index < 0:
            return self.go_to(times[0] + index * _STEP, has_past=has_past)
        return self._at(index)

    def go_to(self, moment: datetime, *, has_past: bool) -> FleetSnapshot | None:
        """Return the sample of an instant, the first that is kept, or None as `step` does."""
        if self.reaches(moment):
            return self._at(bisect_right(self._times, moment) - 1)
        if has_past:
            self.asked = self.moment = moment
            self._is_asking = True
            return None
        return self._at(0) if self._kept else None

    @property
    def first_at(self) -> datetime | None:
        """When the oldest that is kept was taken, None while there is none."""
        return self._kept[0].taken_at if self._kept else None

    def reaches(self, moment: datetime) -> bool:
        """Whether samples of that instant were kept."""
        return bool(self._kept) and moment >= self._kept[0].taken_at

    def go_live(self) -> FleetSnapshot:
        """Return the present, which is followed again."""
        self.asked = self.moment = None
        self._is_asking = False
        return self.latest

    @property
    def _times(self) -> list[datetime]:
        return [each.taken_at for each in self._kept]

    def _at(self, index: int) -> FleetSnapshot:
        """Return a sample that is kept, the present for the last and all behind it."""
        if index >= len(self._kept) - 1:
            return self.go_live()
        kept = self._kept[index]
        self.asked, self.moment, self._is_asking = None, kept.taken_at, False
        return decode(unpack(kept.packed))

    def _keep(self, taken_at: datetime, line: bytes) -> None:
        packed = pack(line)
        self._kept.append(_Kept(taken_at, packed))
        self._bytes += len(packed)
        while len(self._kept) > _MAX_KEPT or self._bytes > _MAX_BYTES:
            self._bytes -= len(self._kept.popleft().packed)
