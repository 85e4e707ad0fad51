"""Rising counters, shown as rates between two readings of each.

The time is the counters' own: the driver stamps each entry when it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import COSTLY_SECONDS, STEADY_SECONDS
from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.polling import Timer
from gpudash.collect.nvml.values import within

_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_MAX_HOLD_SECONDS = 3.0
"""Drivers count about twice a second: an older count is out of date."""

Slope = Callable[[FieldAnswer, FieldAnswer], float | None]
"""Counts per second between two readings, None if unknown."""


def slope(before: FieldAnswer, after: FieldAnswer) -> float | None:
    """Return the slope of a counter that only rises, None if it fell."""
    counts, microseconds = after.value - before.value, after.timestamp_us - before.timestamp_us
    return None if counts < 0 or microseconds < 0 else counts * 1e6 / microseconds


class _Known(Struct, frozen=True):
    """The last reading with a new time, its slope, and when it was first seen."""

    answer: FieldAnswer
    slope: float | None
    since: float


class RateTracker:
    """Counters by any key, from reading to reading.

    Each counter has its own time. One that fell was reset: its interval is dropped.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}

    def per_second(
        self, key: Hashable, answer: FieldAnswer | None, now: float, between: Slope = slope
    ) -> float | None:
        """Return counts per second since the last reading; None for the first, or for None.

        If the driver has not updated it, by the counter's time, the slope is kept for a few
        seconds: `now` is the caller's time.
        """
        if answer is None or answer.value in _UNKNOWN:
            self._known.pop(key, None)
            return None
        known = self._known.get(key)
        if known is not None and known.answer.timestamp_us == answer.timestamp_us:
            return known.slope if now - known.since <= _MAX_HOLD_SECONDS else None
        rate = None if known is None else between(known.answer, answer)
        self._known[key] = _Known(answer, rate, now)
        return rate


_KIB = 1024
_ALL_LINKS = 0xFFFFFFFF
_WRAP = 1 << 32
"""Where a 32-bit counter wraps: the kernel module has no wider ones for PCIe."""
_SAFE_SHARE = 0.9
"""Part of a wrap that is unambiguous, as timestamps are not that exact."""
_bytes_per_second = within(0, 10**14)


class Counter(Struct, frozen=True):
    """A counting field, the field of a device that its rate fills, and the bytes of one count."""

    id: int
    field: str
    unit_bytes: int
    over_links: bool = False
    """Whether it is counted per NVLink, and summed by the driver if it can."""


COUNTERS = (
    Counter(197, "pcie_tx_bytes_per_second", 1),
    Counter(198, "pcie_rx_bytes_per_second", 1),
    Counter(138, "nvlink_tx_bytes_per_second", _KIB, over_links=True),
    Counter(139, "nvlink_rx_bytes_per_second", _KIB, over_links=True),
)


class ByteCounters:
    """The traffic counters of one GPU."""

    def __init__(self) -> None:
        self.links: tuple[int, ...] = ()
        """Its active NVLinks; without any, their counters are not read."""
        self.max_pcie_bytes_per_second: float | None = None
        """The capacity of its PCIe link in each direction, None if unknown."""
        self.pcie_is_known = False
        """Whether PCIe rates have another source, so that their counters are not read."""
        self._wide: set[Counter] = set()
        """Those that have more than 32 bits, as their values have shown."""
        self._read_at = 0.0
        self._rates = RateTracker()
        self._link_by_link: set[Counter] = set()
        self._absent: set[Counter] = set()

    def may_go_round(self, now: float) -> bool:
        """Whether a 32-bit counter has not wrapped yet, and may before the next tick."""
        ceiling = self.max_pcie_bytes_per_second
        narrow = (each for each in COUNTERS if not each.over_links and each not in self._wide)
        if ceiling is None or not any(map(self._scopes, narrow)):
            return False
        return ceiling * (now - self._read_at) <= _SAFE_SHARE * _WRAP

    def wanted(self, now: float) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        self._read_at = now
        return [scope for counter in COUNTERS for scope in self._scopes(counter)]

    def values(self, answers: FieldAnswers, now: float) -> dict[str, int | None]:
        """Return the rate of each counter in bytes per second, None if there is none."""
        rates: dict[str, int | None] = {}
        for counter in COUNTERS:
            scopes = self._scopes(counter)
            between = self._between(counter, answers.values)
            parts = [
                self._rates.per_second(scope, answers.values.get(scope), now, between)
                for scope in scopes
            ]
            known = [part for part in parts if part is not None]
            is_whole = bool(parts) and len(known) == len(parts)
            total = sum(known) * counter.unit_bytes
            rates[counter.field] = _bytes_per_second(total) if is_whole else None
            if scopes and (answers.values or answers.refused):
                self._settle(counter, scopes, answers)
        return rates

    def _between(self, counter: Counter, answers: Mapping[Scoped, FieldAnswer]) -> Slope:
        """Return the slope function of a counter."""
        if counter.over_links or counter in self._wide:
            return slope
        answer = answers.get((counter.id, 0))
        if answer is None or answer.value < _WRAP:
            return self._wrapping_slope
        self._wide.add(counter)
        return slope

    def _wrapping_slope(self, before: FieldAnswer, after: FieldAnswer) -> float | None:
        """Return the slope of a counter that may wrap, None if it may have done so twice."""
        ceiling = self.max_pcie_bytes_per_second
        seconds = (after.timestamp_us - before.timestamp_us) / 1e6
        if ceiling is None or not 0 < ceiling * seconds <= _SAFE_SHARE * _WRAP:
            return None
        per_second = (after.value - before.value) % _WRAP / seconds
        return per_second if per_second <= ceiling else None

    def _scopes(self, counter: Counter) -> list[Scoped]:
        if counter in self._absent or (self.pcie_is_known and not counter.over_links):
            return []
        if not counter.over_links:
            return [(counter.id, 0)]
        links = self.links if counter in self._link_by_link else (_ALL_LINKS,)
        return [(counter.id, link) for link in links] if self.links else []

    def _settle(self, counter: Counter, scopes: list[Scoped], answers: FieldAnswers) -> None:
        """Read links one by one if the driver's sum is missing or stays 0; drop refused ones."""
        if counter.over_links and counter not in self._link_by_link:
            found = (answers.values.get(scope) for scope in scopes)
            if not any(answer is not None and answer.value for answer in found):
                self._link_by_link.add(counter)
        elif answers.refused.issuperset(scopes):
            self._absent.add(counter)


REASONS = {
    74: "throttled_sw_power_cap_percent",
    75: "throttled_thermal_percent",
    76: "throttled_sync_boost_percent",
    77: "throttled_board_limit_percent",
    269: "throttled_sw_thermal_percent",
    270: "throttled_hw_thermal_percent",
    271: "throttled_hw_power_brake_percent",
}
"""NVML_FI_DEV_PERF_POLICY_* and NVML_FI_DEV_CLOCKS_EVENT_REASON_*, and the fields they fill."""

_COSTLY = frozenset({270, 271})
"""Those that occupy the driver for a millisecond each."""

_NANOSECONDS_PER_PERCENT = 1e7
_MAX_PERCENT = 150.0
"""A counter is updated in steps, so a share may slightly exceed 100; more is garbage."""


class Throttling:
    """How long the clocks of one GPU were throttled, each counter read until it is refused."""

    def __init__(self) -> None:
        self._supported = {
            number: Timer(COSTLY_SECONDS if number in _COSTLY else STEADY_SECONDS)
            for number in REASONS
        }
        self._rates = RateTracker()
        self._unrated = set(REASONS) - _COSTLY
        """Those read in every tick until their first share is known."""
        self._wanted: list[Scoped] = []

    def wanted(self, now: float) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        self._wanted = [
            (number, 0)
            for number, timer in self._supported.items()
            if timer.is_due(now) or number in self._unrated
        ]
        return self._wanted

    def values(self, answers: FieldAnswers, now: float) -> dict[str, float | None]:
        """Return the due shares of the last interval in percent."""
        shares: dict[str, float | None] = {}
        for scope in self._wanted:
            nanoseconds = self._rates.per_second(scope, answers.values.get(scope), now)
            shares[REASONS[scope[0]]] = _percent(nanoseconds)
            if nanoseconds is not None:
                self._unrated.discard(scope[0])
            if scope in answers.refused:
                del self._supported[scope[0]]
        return shares


def _percent(nanoseconds_per_second: float | None) -> float | None:
    if nanoseconds_per_second is None:
        return None
    share = nanoseconds_per_second / _NANOSECONDS_PER_PERCENT
    return min(100.0, round(share, 1)) if share <= _MAX_PERCENT else None


_KB = 1000
PCIE_FIELDS = {0: "pcie_tx_bytes_per_second", 1: "pcie_rx_bytes_per_second"}
"""NVML_PCIE_UTIL_TX_BYTES and NVML_PCIE_UTIL_RX_BYTES, and the fields that they fill."""
_kilobytes_per_second = within(0, 10**9)


class PcieThroughput:
    """The PCIe rates of one GPU by a call that blocks for 20 ms each way."""

    def __init__(self, library: Library, handle: Any) -> None:
        self._library = library
        self._handle = handle
        self._timer = Timer(COSTLY_SECONDS)
        self._measured: dict[str, int | None] = {}
        self._is_supported = True

    def missing(self, known: Mapping[str, Any], now: float) -> dict[str, int | None]:
        """Return the rates as last measured, nothing if counters give them.

        Raises DeviceLost when the device reports that it is gone.
        """
        if any(known.get(field) is not None for field in PCIE_FIELDS.values()):
            self._measured = {}
        elif self._is_supported and self._timer.is_due(now):
            self._measured = {field: self._measure(way) for way, field in PCIE_FIELDS.items()}
        return self._measured

    def _measure(self, way: int) -> int | None:
        call = "nvmlDeviceGetPcieThroughput"
        value, code = self._library.call_device(call, self._handle, way)
        self._is_supported = self._is_supported and code not in codes.PERMANENT
        kilobytes: int | None = None if code else _kilobytes_per_second(value)
        return None if kilobytes is None else kilobytes * _KB
