"""Counters of bytes that only rise, told as rates over the time between two readings of each.

The time is the counters' own: the driver stamps each entry when it reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from msgspec import Struct

from gpudash.collect.nvml.answers import FieldAnswer, Scoped
from gpudash.collect.nvml.slopes import Slope, Slopes, slope
from gpudash.collect.nvml.values import within

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
