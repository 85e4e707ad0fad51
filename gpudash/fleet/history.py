"""The last samples of many hosts, each as the line that arrived; all but the newest compressed."""

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
    """An hour of samples, less of a cluster too large for that, timed by when they were taken."""

    def __init__(self, on_push: Callable[[FleetSnapshot], object] = lambda _snapshot: None) -> None:
        """`on_push` gets each that is pushed, also while another is shown."""
        self._on_push = on_push
        self.latest = EMPTY
        """The one pushed last."""
        self._line = b""
        self._kept: deque[_Kept] = deque()
        """Those before it."""
        self._bytes = 0

    @property
    def now(self) -> float:
        """The instant of the latest, in seconds since 1970."""
        return self.latest.taken_at.timestamp()

    @property
    def moments(self) -> list[float]:
        """The instants of all, oldest first."""
        return [each.moment for each in self._kept] + [self.now] * bool(self._line)

    @property
    def reaches_back(self) -> bool:
        """Whether a source can be asked for older ones."""
        return any(source.kind in WITH_PAST for source in self.latest.sources)

    def push(self, snapshot: FleetSnapshot, line: bytes) -> None:
        """Add the next sample; it replaces one of its instant, and all where time went back."""
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
        """Whether hosts are still being asked, so that what is missing proves nothing.

        The next sample replaces such a one.
        """
        return any(host.state == "connecting" for host in snapshot.hosts) or any(
            source.kind in WITH_PAST and source.state == "ok" and source.expected_hosts is None
            for source in snapshot.sources
        )

    def at(self, moment: float) -> FleetSnapshot:
        """Return the last sample not after an instant, the oldest for one before it."""
        index = max(0, bisect_right(self.moments, moment) - 1)
        if index >= len(self._kept):
            return self.latest
        return decode(unpack(self._kept[index].packed))

    def freeze_last_row(self) -> None:
        """Do nothing: no numbers are kept beside the samples."""

    def visit(self, samples: Sequence[tuple[float, FleetSnapshot]]) -> None:
        """Do nothing for the same reason."""

    def clear(self) -> None:
        """Drop all samples."""
        self.latest, self._line = EMPTY, b""
        self._kept.clear()
        self._bytes = 0
