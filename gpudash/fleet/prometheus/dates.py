"""Since when the values of GPUs have been within the bounds of a finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from gpudash.analysis.activity import IDLE_PERCENT, NOTABLE_BYTES
from gpudash.fleet.lasting import Bound, Key, Lasted, Lasting
from gpudash.fleet.prometheus.catalog import Catalog
from gpudash.fleet.prometheus.dialects import MEMORY, UTILIZATION
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import (
    KnownDevice,
    Row,
    last_times,
    named,
    number_of,
)
from gpudash.fleet.prometheus.queries import FOUND_LABEL, Metric
from gpudash.model.units import grouped

_MAX_ASKED, _MAX_UNLIKE = 20, 8
"""GPUs whose samples of a whole day are read in one query, and sets of bounds in it.

Each makes the query longer, and some servers accept 16 KiB.
"""


RESTING = (Bound(UTILIZATION, below=IDLE_PERCENT), Bound(MEMORY, NOTABLE_BYTES))
"""The values of a GPU that is held idle."""


class Dates:
    """Start times of current findings, each queried once."""

    def __init__(self, inventory: Inventory, longest_seconds: float) -> None:
        """Anything that has lasted for longer than `longest_seconds` has no date."""
        self._inventory, self._longest = inventory, longest_seconds
        self._found: dict[Key, tuple[KnownDevice, tuple[Bound, ...]]] = {}
        self._known: dict[Key, float | None] = {}
        """Unix time, None if it cannot be known."""
        self._asked: list[dict[KnownDevice, Key]] = []
        """The findings being queried, grouped by rule and bounds."""

    def want(self, lasting: Lasting) -> bool:
        """Set the current findings; return whether some still have to be queried."""
        uuids = {uuid for _, uuid in lasting}
        devices = self._inventory.devices() if uuids else ()
        there = {each.uuid: each for each in devices if each.uuid in uuids and not each.instance}
        self._found = {
            key: (there[key[1]], bounds) for key, bounds in lasting.items() if key[1] in there
        }
        self._known = {key: at for key, at in self._known.items() if key in self._found}
        return len(self._known) < len(self._found)

    def terms(self) -> Iterator[Metric]:
        """Yield terms that show when values of some GPUs were outside their bounds."""
        left = [key for key in self._found if key not in self._known][:_MAX_ASKED]
        unlike = grouped(((key[0], self._found[key][1]), key) for key in left)
        alike = dict(islice(unlike.items(), _MAX_UNLIKE))
        self._asked = [{self._found[key][0]: key for key in keys} for keys in alike.values()]
        for number, ((_, bounds), devices) in enumerate(zip(alike, self._asked, strict=True)):
            terms = [*outside(self._inventory.catalog, bounds, devices, str(number))]
            if not terms:
                # No metric shows it.
                self._known.update(dict.fromkeys(devices.values()))
            yield from terms

    def take(self, rows: Iterable[Row], at: float) -> None:
        """Store when a value was last outside its bounds, or had its first sample."""
        for found in self._asked:
            self._known.update(dict.fromkeys(found.values()))
        times = last_times(self._asked_of(rows)).items()
        self._known.update((key, last) for key, last in times if last > at - self._longest)

    def _asked_of(self, rows: Iterable[Row]) -> Iterator[tuple[Key, Row]]:
        """Yield the findings that series belong to."""
        for device, row in self._inventory.devices_of(rows):
            number = number_of(row.labels.get(FOUND_LABEL, ""))
            found = self._asked[number] if number is not None and number < len(self._asked) else {}
            if device in found:
                yield found[device], row

    def lasted(self, now: float) -> Lasted:
        """Return for how long findings have lasted at an instant, where known."""
        return {key: max(0.0, now - at) for key, at in self._known.items() if at is not None}


def outside(
    catalog: Catalog, bounds: Iterable[Bound], devices: Iterable[KnownDevice], mark: str = ""
) -> Iterator[Metric]:
    """Yield terms that show when a value of a few devices was outside its bounds, with a mark."""
    for is_percent, some in grouped((e.host.is_percent is True, e) for e in devices).items():
        yield from catalog.outside(bounds, *named(some), mark, is_percent=is_percent)
