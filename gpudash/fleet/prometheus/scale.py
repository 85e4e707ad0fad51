"""Conversion of values of series to the units of fields, whatever unit an exporter uses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from math import inf

from gpudash.fleet.prometheus.dialects import FRACTIONS, Series
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import KnownDevice, Row
from gpudash.model.device import device_fields
from gpudash.model.units import HIGHEST, Unit

_RATIO_LIMIT = 1.001
"""A ratio above this is a percentage: DCGM 4.6 reports one under the name of a ratio."""
_MAX_PERCENT = 101.0
"""Up to this, a percentage above 100 comes from a short measurement and is cut to 100."""


def scaled(
    inventory: Inventory, rows: Iterable[Row], computed: Series | None = None
) -> Iterator[tuple[KnownDevice, Series, float | None]]:
    """Yield devices with values in the unit of the field; `computed` is for unnamed rows."""
    ratios: list[tuple[KnownDevice, Series, float]] = []
    for row in rows:
        found = inventory.find(row)
        series = None if found is None else found[1] or computed
        if found is None or series is None:
            continue
        device, value = found[0], row.number
        if value is not None and series.is_ratio:
            ratios.append((device, series, value))
        else:
            yield device, series, _checked(value, series.factor, series)
    if ratios:
        yield from _as_percent(ratios)


def _as_percent(
    ratios: list[tuple[KnownDevice, Series, float]],
) -> Iterator[tuple[KnownDevice, Series, float | None]]:
    """Yield ratios as percentages, which some of them already are."""
    for device, _, value in ratios:
        if value > _RATIO_LIMIT:
            device.host.is_percent = True
        elif value != int(value) and device.host.is_percent is None:
            device.host.is_percent = False
    is_percent = are_percent(device.host.is_percent for device, _, _ in ratios)
    for device, series, value in ratios:
        factor = 1 if is_percent[device.host.is_percent] else series.factor
        yield device, series, _checked(value, factor, series)


def are_percent(known: Iterable[bool | None]) -> dict[bool | None, bool]:
    """Return what hosts have: one whose values are all 0 or 1 has what the others have."""
    kinds = set(known)
    return {True: True, False: False, None: True in kinds and False not in kinds}


def _checked(value: float | None, factor: float, series: Series) -> float | None:
    """Return a value in the unit and type of its field, None if the field cannot have it."""
    if value is None:
        return None
    value *= factor
    highest = _highest(series.field)
    if 100 < value <= _MAX_PERCENT and highest == HIGHEST[Unit.PERCENT]:
        value = 100.0
    if value > highest:
        return None
    return value if series.field in FRACTIONS else round(value)


@cache
def _highest(field: str) -> float:
    """Return what no GPU exceeds in a field, infinity if it is not a field."""
    known = device_fields().get(field)
    return inf if known is None else HIGHEST.get(known.unit, inf)
