"""The last samples of many hosts, as received lines; all but the newest compressed."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from gpudash.fleet.sources import WITH_PAST
from gpudash.model.fleet import EMPTY, FleetSnapshot, decode
from gpudash.system.zstd import pack, unpack

_MAX_KEPT, _MAX_BYTES = 360, 24 << 20


class _Kept(NamedTuple):
    moment: float
    packed: bytes


class FleetHistory:
    """An hour of samples, less for a very large cluster, by the time they were taken."""

    def __init__(self, on_push: Callable[[FleetSnapshot], object] = lambda _snapshot: None) -> None:
        """`on_push` gets each pushed sample, also while another is shown."""
        self._on_push = on_push
        self.latest = EMPTY
        """The sample pushed last."""
        self._line = b""
        self._kept: deque[_Kept] = deque()
        """The earlier samples."""
        self._bytes = 0

    @property
    def now(self) -> float:
        """The time of the latest sample, in seconds since 1970."""
        return self.latest.taken_at.timestamp()

    @property
    def moments(self) -> list[float]:
        """The times of all samples, oldest first."""
        return [each.moment for each in self._kept] + [self.now] * bool(self._line)

    @property
    def reaches_back(self) -> bool:
        """Whether a source can be asked for older samples."""
        return any(source.kind in WITH_PAST for source in self.latest.sources)

    def push(self, snapshot: FleetSnapshot, line: bytes) -> None:
        """Add the next sample; it replaces one of the same time, and all if time went back."""
        moment = snapshot.taken_at.timestamp()
        if moment < self.now:
            self.clear()
        elif self._line and moment > self.now and not self.is_partial(self.latest):
            self._kept.append(_Kept(self.now, pack(self._line)))
            self._bytes += len(self._kept[-1].packed)
        self.latest, self._line = snapshot, line
        self._on_push(snapshot)
        while len(self._kept) >= _MAX_KEPT or self._bytes > _MAX_BYTES:
            self._bytes -= len(self._kept.popleft().packed)

    def is_partial(self, snapshot: FleetSnapshot) -> bool:
        """Whether hosts are still being asked, so that absence proves nothing.

        The next sample replaces a partial one.
        """
        return any(host.state == "connecting" for host in snapshot.hosts) or any(
            source.kind in WITH_PAST and source.state == "ok" and source.expected_hosts is None
            for source in snapshot.sources
        )

    def at(self, moment: float) -> FleetSnapshot:
        """Return the last sample at or before an instant, else the oldest."""
        index = max(0, bisect_right(self.moments, moment) - 1)
        if index >= len(self._kept):
            return self.latest
        return decode(unpack(self._kept[index].packed))

    def freeze_last_row(self) -> None:
        """Do nothing: samples come without rows of numbers."""

    def visit(self, samples: Sequence[tuple[float, FleetSnapshot]]) -> None:
        """Do nothing for the same reason."""

    def clear(self) -> None:
        """Drop all samples."""
        self.latest, self._line = EMPTY, b""
        self._kept.clear()
        self._bytes = 0
