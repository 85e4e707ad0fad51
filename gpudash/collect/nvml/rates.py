"""Counters of bytes that only rise, told as rates over the time between two readings of each.

The time is the counters' own: the driver stamps each entry when it reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Set
from typing import Any, NamedTuple

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import ASKED_SECONDS, STEADY_SECONDS, Pace
from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers, Library, Scoped
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.collect.nvml.values import within

_UNKNOWN = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})
_HELD_SECONDS = 3.0
"""Drivers count anew twice a second or so: one that has not for longer tells nothing of now."""

Slope = Callable[[FieldAnswer, FieldAnswer], float | None]
"""Counts per second from one reading to another, None where they do not tell."""


def slope(before: FieldAnswer, after: FieldAnswer) -> float | None:
    """Return the slope of a counter that only rises."""
    counts, microseconds = after.value - before.value, after.timestamp_us - before.timestamp_us
    return None if counts < 0 or microseconds < 0 else counts * 1e6 / microseconds


class _Known(NamedTuple):
    """The last reading with a time of its own, its slope, and when it was first seen."""

    answer: FieldAnswer
    slope: float | None
    since: float


class Slopes:
    """Counters by any key, from reading to reading; none of them ever falls.

    The time is each counter's own. One that fell back was started anew: its interval is dropped.
    """

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}

    def per_second(
        self, key: Hashable, answer: FieldAnswer | None, now: float, between: Slope = slope
    ) -> float | None:
        """Return counts per second since the reading before; None in a first one or for nothing.

        A driver that has not counted anew, which its time tells, has the slope of before, but not
        for long: `now` is the time of whoever reads, in seconds.
        """
        if answer is None or answer.value in _UNKNOWN:
            self._known.pop(key, None)
            return None
        known = self._known.get(key)
        if known is not None and known.answer.timestamp_us == answer.timestamp_us:
            return known.slope if now - known.since <= _HELD_SECONDS else None
        rate = None if known is None else between(known.answer, answer)
        self._known[key] = _Known(answer, rate, now)
        return rate


_KIB = 1024
_ALL_LINKS = 0xFFFFFFFF
_ROUND = 1 << 32
"""Where a counter of 32 bits begins anew: the kernel module has no wider ones for PCIe."""
_SURE = 0.9
"""Which share of a round leaves no doubt, as stamps are not that exact."""
_plausible = within(0, 10**14)


class Counter(Struct, frozen=True):
    """A field that counts, the field of a device that its rate fills, and the bytes of one."""

    id: int
    field: str
    unit_bytes: int
    over_links: bool = False
    """Whether NVLinks count on their own, and the driver adds them up where it can."""


COUNTERS = (
    Counter(197, "pcie_tx_bytes_per_second", 1),
    Counter(198, "pcie_rx_bytes_per_second", 1),
    Counter(138, "nvlink_tx_bytes_per_second", _KIB, over_links=True),
    Counter(139, "nvlink_rx_bytes_per_second", _KIB, over_links=True),
)


class Counters:
    """The counters of one GPU from tick to tick."""

    def __init__(self) -> None:
        self.links: tuple[int, ...] = ()
        """Its active NVLinks; without any their counters are not asked."""
        self.pcie_ceiling: float | None = None
        """Bytes per second that its PCIe link carries each way at its best, None if unknown."""
        self._wide: set[Counter] = set()
        """Those that have shown to have more than 32 bits."""
        self._slopes = Slopes()
        self._link_by_link: set[Counter] = set()
        self._absent: set[Counter] = set()

    def wanted(self) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        return [scope for counter in COUNTERS for scope in self._scopes(counter)]

    def rates(
        self, answers: Mapping[Scoped, FieldAnswer], refused: Set[Scoped], now: float
    ) -> dict[str, int | None]:
        """Return the rate of each counter in bytes per second, None where none can be told."""
        rates: dict[str, int | None] = {}
        for counter in COUNTERS:
            scopes = self._scopes(counter)
            between = self._between(counter, answers)
            parts = [
                self._slopes.per_second(scope, answers.get(scope), now, between) for scope in scopes
            ]
            known = [part for part in parts if part is not None]
            whole = bool(parts) and len(known) == len(parts)
            rates[counter.field] = _plausible(sum(known) * counter.unit_bytes) if whole else None
            if scopes and (answers or refused):
                self._settle(counter, scopes, answers, refused)
        return rates

    def _between(self, counter: Counter, answers: Mapping[Scoped, FieldAnswer]) -> Slope:
        """Return how the slope of a counter is found."""
        if counter.over_links or counter in self._wide:
            return slope
        answer = answers.get((counter.id, 0))
        if answer is None or answer.value < _ROUND:
            return self._slope_of_round
        self._wide.add(counter)
        return slope

    def _slope_of_round(self, before: FieldAnswer, after: FieldAnswer) -> float | None:
        """Return the slope of a counter that may go round, None if it may have done so twice."""
        seconds = (after.timestamp_us - before.timestamp_us) / 1e6
        if self.pcie_ceiling is None or not 0 < self.pcie_ceiling * seconds <= _SURE * _ROUND:
            return None
        per_second = (after.value - before.value) % _ROUND / seconds
        return per_second if per_second <= self.pcie_ceiling else None

    def _scopes(self, counter: Counter) -> list[Scoped]:
        if counter in self._absent:
            return []
        if not counter.over_links:
            return [(counter.id, 0)]
        links = self.links if counter in self._link_by_link else (_ALL_LINKS,)
        return [(counter.id, link) for link in links] if self.links else []

    def _settle(
        self,
        counter: Counter,
        scopes: list[Scoped],
        answers: Mapping[Scoped, FieldAnswer],
        refused: Set[Scoped],
    ) -> None:
        """Go link by link where the driver's sum is missing or stays 0; drop what is refused."""
        if counter.over_links and counter not in self._link_by_link:
            if not any(scope in answers and answers[scope].value for scope in scopes):
                self._link_by_link.add(counter)
        elif refused and all(scope in refused for scope in scopes):
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

_NANOSECONDS_PER_PERCENT = 1e7
_MOST_PERCENT = 150.0
"""A counter is renewed in steps, so that a share may exceed 100 a little; further is garbage."""


class Throttling:
    """The counters of one GPU, each asked until the driver refuses it."""

    def __init__(self) -> None:
        self._pace = Pace(STEADY_SECONDS)
        self._left = dict(REASONS)
        self._slopes = Slopes()
        self._asked: list[Scoped] = []

    def wanted(self, now: float) -> list[Scoped]:
        """Return what the next batch of field values has to bring."""
        self._asked = [(number, 0) for number in self._left] if self._pace.is_due(now) else []
        return self._asked

    def facts(self, answers: FieldAnswers, now: float) -> dict[str, float | None]:
        """Return the shares of the last interval in percent, nothing while they were not due."""
        facts: dict[str, float | None] = {}
        for scope in self._asked:
            slope = self._slopes.per_second(scope, answers.values.get(scope), now)
            facts[REASONS[scope[0]]] = _percent(slope)
            if scope in answers.refused:
                del self._left[scope[0]]
        return facts


def _percent(nanoseconds_per_second: float | None) -> float | None:
    if nanoseconds_per_second is None:
        return None
    share = nanoseconds_per_second / _NANOSECONDS_PER_PERCENT
    return min(100.0, round(share, 1)) if share <= _MOST_PERCENT else None


_KB = 1000
_SENT, _RECEIVED = 0, 1
_FIELDS = {_SENT: "pcie_tx_bytes_per_second", _RECEIVED: "pcie_rx_bytes_per_second"}
_pcie_plausible = within(0, 10**9)


class PcieThroughput:
    """The two rates of one GPU as they were measured last; a GPU that cannot is asked once."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._pace = Pace(ASKED_SECONDS)
        self._measured: dict[str, int | None] = {}
        self._has_call = True

    def missing(self, handle: Any, told: dict[str, Any], now: float) -> dict[str, int | None]:
        """Return the rates if nothing else has `told` them.

        Raises DeviceLost when the device says that it is gone.
        """
        if any(told.get(field) is not None for field in _FIELDS.values()):
            self._measured = {}
            return {}
        if self._has_call and self._pace.is_due(now):
            self._measured = {field: self._ask(handle, which) for which, field in _FIELDS.items()}
        return self._measured

    def _ask(self, handle: Any, which: int) -> int | None:
        value, code = self._library.ask("nvmlDeviceGetPcieThroughput", handle, which)
        if code in codes.DEAD:
            raise DeviceLost(code)
        self._has_call = self._has_call and code not in codes.PERMANENT
        kilobytes: int | None = None if code else _pcie_plausible(value)
        return None if kilobytes is None else kilobytes * _KB
