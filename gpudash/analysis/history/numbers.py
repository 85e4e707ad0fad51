"""A chart of hours or days, drawn from a history's numbers per minute."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from math import floor
from types import GenericAlias
from typing import Any

from msgspec import DecodeError, defstruct, json

from gpudash.analysis.history.metrics import device_metrics
from gpudash.analysis.history.tracks import Extent
from gpudash.model.report import MinuteDevice

_Values = tuple[float | None, ...]


def extents(
    lines: Iterable[bytes], field: str, start: datetime, seconds: float, points: int
) -> dict[str, list[Extent | None]]:
    """Return by `Device.key` a metric over `seconds` from `start` on, in `points` points.

    `lines` are those of `charted_lines`; `field` is one of `device_metrics`, else ValueError. Each
    point has the lowest minute mean in its time, the mean of all, and the highest value; None is a
    gap or unreadable.
    """
    if field not in device_metrics():
        raise ValueError(f"no history is kept of {field}")
    decoder, began = _decoder(field), start.timestamp()
    keys: list[str] = []
    slots: list[list[Sequence[_Values]]] = [[] for _ in range(points)]
    for line in lines:
        try:
            row = decoder.decode(line)
        except (DecodeError, UnicodeDecodeError):
            continue
        # With the division last, the start of a point is an integer.
        slot = floor((row.taken_at.timestamp() - began) * points / seconds)
        means, own = row.means.values, row.keys or [device.key for device in row.devices]
        if not means or not 0 <= slot < points:
            continue
        columns: Sequence[_Values] = row.minima.values or means, means, row.maxima.values
        if own != keys:
            keys = [*dict.fromkeys((*keys, *own))]
            found = [dict(zip(own, values, strict=False)) for values in columns]
            columns = [tuple([values.get(key) for key in keys]) for values in found]
        slots[slot].append(columns)
    by_slot = [_extents(rows) for rows in slots]
    return dict(zip(keys, map(list, zip_longest(*by_slot)), strict=False))


def _extents(rows: Sequence[Sequence[_Values]]) -> list[Extent | None]:
    """Return the extents of rows by device; the first rows may know fewer devices."""
    if len(rows) == 1:
        known = zip(*rows[0], strict=False)
        return [None if None in each else Extent(*each) for each in known]
    by_device = (zip_longest(*column) for column in zip(*rows, strict=True))
    return [*map(_extent, *by_device)] if rows else []


def _extent(lows: Sequence[Any], means: Sequence[Any], highs: Sequence[Any]) -> Extent | None:
    if None in means or None in lows or None in highs:
        lows, means, highs = ([x for x in each if x is not None] for each in (lows, means, highs))
    known = lows and means and highs
    return Extent(min(lows), sum(means) / len(means), max(highs)) if known else None


@lru_cache(maxsize=8)
def _decoder(field: str) -> json.Decoder[Any]:
    """Return a decoder that reads only one metric and the keys of devices."""
    names = MinuteDevice.__struct_fields__
    before = [(name, float | None) for name in names[: names.index("key")]]
    device = defstruct("Device", [*before, ("key", str)], array_like=True)
    values = defstruct("Values", [("values", _Values, ())], rename={"values": field}, frozen=True)
    devices = GenericAlias(tuple, (device, ...))
    fields: list[tuple[str, Any, Any]] = [("keys", list[str], []), ("devices", devices, ())]
    fields += [(name, values, values()) for name in ("minima", "means", "maxima")]
    return json.Decoder(defstruct("Line", [("taken_at", datetime), *fields]))
