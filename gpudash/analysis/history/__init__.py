"""The bounded past of a host: its last snapshots, and the numbers to draw charts from.

All times are seconds of the host's uptime, a clock that is never set; a host of unknown uptime is
timed by when its snapshots were taken. A line differs little from earlier ones, so it is compressed
with a reference line of the last minute: 1.3 KB instead of 5.3 for a line of 78 KB.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from msgspec import Struct

from gpudash.analysis.history.metrics import MetricStore
from gpudash.analysis.history.tracks import Extent
from gpudash.model import wire
from gpudash.model.process import Process
from gpudash.model.snapshot import EMPTY, Snapshot, UptimeClock

Key = str | tuple[int, float | None] | None
"""`Device.key`, `Process.key`, or None for the host."""

_REFERENCE_SECONDS = 60.0
_SMALL = 2048
"""Bytes up to which a line keeps a reference that it has little in common with."""
_RECENT = 60
"""Newest snapshots to keep, however close together."""
_SETTLED_SECONDS = 0.9
"""Minimum distance between older ones."""
_MAX_COUNT = 660
_MAX_AGE_SECONDS = 630.0
_MAX_BYTES = 12 << 20
"""Of all but the newest."""


class History:
    """The last half hour of a host in numbers, and its last minutes in whole snapshots."""

    reaches_back = False
    """Whether older snapshots can be requested."""

    def __init__(self) -> None:
        self.latest: Snapshot = EMPTY
        """The snapshot pushed last."""
        self.now = 0.0
        """The time of the latest snapshot."""
        self._began = 0.0
        self._visited: tuple[float, MetricStore] | None = None
        self._clock = UptimeClock()
        self._snapshots = Snapshots()
        self._metrics = MetricStore()

    def push(self, snapshot: Snapshot, line: bytes) -> None:
        """Add the next snapshot and the line that it was decoded from.

        One older than the latest, as after a reboot, clears the history.
        """
        now = self._clock.instant(snapshot)
        if now < self.now:
            self.clear()
        if self.latest is EMPTY:
            self._began = now
        self.now, self.latest = now, snapshot
        self._snapshots.push(now, snapshot, line)
        self._metrics.push(now, snapshot)

    def is_partial(self, snapshot: Snapshot) -> bool:
        """Return False: a host is read as a whole."""
        return False

    def freeze_last_row(self) -> None:
        """Keep the numbers of the last second; later samples within it would change them."""
        self._metrics.freeze_last_row()

    @property
    def began(self) -> float:
        """The start of the charted time, whether or not it is still kept."""
        return self._began if self._visited is None else self._visited[0]

    def visit(self, samples: Sequence[tuple[float, Snapshot]]) -> None:
        """Chart samples of another time, with their instants; none ends that."""
        self._visited = None
        if samples:
            store = MetricStore()
            for moment, snapshot in samples:
                store.push(moment, snapshot)
            self._visited = samples[0][0], store

    def precede(self, began: float, earlier: MetricStore) -> None:
        """Chart also the time before the first sample; `earlier` has it from `began` on."""
        for moment in self.moments:
            earlier.push(moment, self.at(moment))
        self._began, self._metrics = began, earlier

    @property
    def _charted(self) -> MetricStore:
        return self._metrics if self._visited is None else self._visited[1]

    def clear(self) -> None:
        """Drop everything."""
        self.now, self.latest = 0.0, EMPTY
        self._snapshots, self._metrics = Snapshots(), MetricStore()

    @property
    def moments(self) -> list[float]:
        """The instants of the snapshots that can be shown again, oldest first."""
        return self._snapshots.times()

    def at(self, moment: float) -> Snapshot:
        """Return the host as shown at an instant, the oldest kept for an earlier one."""
        return self._snapshots.at(moment)

    def series(
        self, key: Key, field: str, seconds: float, points: int, until: float | None = None
    ) -> list[float | None]:
        """Return a metric over the last `seconds` in `points` points, each the mean in its time.

        `field` is one of `device_metrics`, PROCESS_METRICS or HOST_METRICS, by the kind of the key;
        ValueError for any other, if the key is known. None is a gap. The points keep their places
        on the time axis from call to call, so that only the last one changes. `until` is the time
        of the last point, else now.
        """
        return self._charted.series(key, field, self._window(seconds, points, until))

    def extents(
        self, key: Key, field: str, seconds: float, points: int, until: float | None = None
    ) -> list[Extent | None]:
        """Like `series`, return the lowest, mean and highest value in the time of each point."""
        return self._charted.extents(key, field, self._window(seconds, points, until))

    def seen_since(self, process: Process) -> float | None:
        """Return when a process was first seen, None if it was not."""
        return self._charted.seen_since(process.key)

    def _window(self, seconds: float, points: int, until: float | None) -> tuple[float, float, int]:
        if seconds <= 0 or points <= 0:
            raise ValueError(f"invalid series: {points} points over {seconds} s")
        return self.now if until is None else until, seconds, points


class _Packed(Struct, frozen=True):
    time: float
    reference: bytes
    """A compressed line."""
    line: bytes
    """This line, compressed with that one as reference; empty if it is that one."""

    @property
    def size(self) -> int:
        """Size in bytes; a reference counts only once."""
        return len(self.line or self.reference)


class Snapshots:
    """The whole snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest = EMPTY
        self._newest: tuple[float, bytes] | None = None
        """Compressed when the next one arrives, so that the first picture does not wait for it."""
        self._kept: list[_Packed] = []
        """The earlier ones."""
        self._bytes = 0
        self._reference = _Packed(-inf, b"", b"")
        self._reference_line = b""

    def push(self, now: float, snapshot: Snapshot, line: bytes) -> None:
        """Add a snapshot and its line; one of the same instant replaces the last."""
        before, self._newest, self._latest = self._newest, (now, line), snapshot
        if before is None or before[0] == now:
            return
        packed = self._pack(*before)
        self._kept.append(packed)
        self._bytes += packed.size
        settled = len(self._kept) - _RECENT
        if settled > 0:
            distance = self._kept[settled].time - self._kept[settled - 1].time
            if distance < _SETTLED_SECONDS:
                self._drop(settled)
        while self._is_full(now):
            self._drop(0)

    def times(self) -> list[float]:
        """Return the instants of all, oldest first."""
        times = [packed.time for packed in self._kept]
        return times if self._newest is None else [*times, self._newest[0]]

    def at(self, moment: float) -> Snapshot:
        """Return the last snapshot at or before `moment`, else the oldest; EMPTY without any."""
        number = max(bisect_right(self.times(), moment) - 1, 0)
        if number >= len(self._kept):
            return self._latest
        return wire.decode(_unpacked(self._kept[number]))

    def _is_full(self, now: float) -> bool:
        if not self._kept:
            return False
        count = len(self._kept) + 1
        is_old = count > _RECENT and now - self._kept[0].time > _MAX_AGE_SECONDS
        return is_old or count > _MAX_COUNT or self._bytes > _MAX_BYTES

    def _drop(self, index: int) -> None:
        self._bytes -= self._kept.pop(index).size

    def _pack(self, now: float, line: bytes) -> _Packed:
        from gpudash.system.zstd import pack

        if now - self._reference.time < _REFERENCE_SECONDS:
            packed = _Packed(now, self._reference.reference, pack(line, self._reference_line))
            if packed.size <= max(_SMALL, len(packed.reference) // 2):
                return packed
        self._reference = _Packed(now, pack(line), b"")
        self._reference_line = line
        return self._reference


def _unpacked(packed: _Packed) -> bytes:
    from gpudash.system.zstd import unpack

    reference = unpack(packed.reference)
    return unpack(packed.line, reference) if packed.line else reference
