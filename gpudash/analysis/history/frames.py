"""The last whole snapshots, for stepping back through what the screen showed.

Every snapshot of the last moments is kept, and one a second of the last minutes. Each is a short
patch to a reference that it shares with its neighbours: a few hundred bytes for a small host,
where the plain snapshot takes a hundred times that.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from itertools import chain
from typing import NamedTuple

from gpudash.analysis.history.snapshots import Reference, restore
from gpudash.model.snapshot import Snapshot

_RECENT = 60
_SETTLED = 600
_SETTLED_SECONDS = 0.9
_AGE_SECONDS = 630.0
_REFERENCE_SECONDS = 60.0
_SMALL_PATCH = 2048
_BYTES = 12 << 20


class Frame(NamedTuple):
    """A snapshot as its reference and what differs from it, both packed."""

    time: float
    reference: bytes
    patch: bytes


class Frames:
    """The whole snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest: Snapshot | None = None
        self._recent: deque[Frame] = deque()
        self._settled: deque[Frame] = deque()
        self._reference: Reference | None = None
        self._reference_until = 0.0

    def push(self, now: float, snapshot: Snapshot) -> None:
        """Add a snapshot; one of the same instant takes the place of the last."""
        self._latest = snapshot
        if self._recent and self._recent[-1].time == now:
            self._recent.pop()
        self._recent.append(self._frame(now, snapshot))
        if len(self._recent) > _RECENT:
            self._settle(self._recent.popleft())
        while self._settled and (
            len(self._settled) > _SETTLED or now - self._settled[0].time > _AGE_SECONDS
        ):
            self._settled.popleft()

    def moments(self) -> list[float]:
        """Return the instants of all, oldest first."""
        return [frame.time for frame in chain(self._settled, self._recent)]

    def at(self, moment: float) -> Snapshot | None:
        """Return the last one not after `moment`, else the oldest; None before the first."""
        if not self._recent or moment >= self._recent[-1].time:
            return self._latest
        place = max(bisect_right(self.moments(), moment) - 1, 0)
        frame = (*self._settled, *self._recent)[place]
        return restore(frame.reference, frame.patch)

    def step(self, moment: float, count: int) -> float:
        """Return the instant `count` snapshots away from the one of `moment`, within what is."""
        moments = self.moments()
        place = max(bisect_right(moments, moment) - 1, 0) + count
        return moments[min(max(place, 0), len(moments) - 1)] if moments else moment

    def _frame(self, now: float, snapshot: Snapshot) -> Frame:
        if self._reference is not None and now < self._reference_until:
            packed, patch = self._reference.packed, self._reference.patch(snapshot)
            if len(patch) <= max(_SMALL_PATCH, len(packed) // 2):
                return Frame(now, packed, patch)
        self._shrink()
        self._reference = Reference(snapshot)
        self._reference_until = now + _REFERENCE_SECONDS
        return Frame(now, self._reference.packed, b"")

    def _settle(self, frame: Frame) -> None:
        if not self._settled or frame.time - self._settled[-1].time >= _SETTLED_SECONDS:
            self._settled.append(frame)

    def _shrink(self) -> None:
        """Drop the oldest while all together take too much memory."""
        sizes = {id(frame.reference): len(frame.reference) for frame in self._settled}
        total = sum(sizes.values()) + sum(len(frame.patch) for frame in self._settled)
        while self._settled and total > _BYTES:
            frame = self._settled.popleft()
            shared = self._settled and self._settled[0].reference is frame.reference
            total -= len(frame.patch) + (0 if shared else len(frame.reference))
