"""A chart of hours or days, drawn from the numbers a minute of a history."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from math import floor
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

    `lines` are those of `Recording.numbers`; `field` is one of `device_metrics`, else ValueError.
    Each point has the lowest mean of a minute in its time, their mean, and the highest value; None
    is a gap, and so is what cannot be read.
    """
    if field not in device_metrics():
        raise ValueError(f"no history is kept of {field}")
    decoder, began = _decoder(field), start.timestamp()
    found: dict[str, list[list[tuple[float, float]]]] = {}
    for line in lines:
        try:
            minute = decoder.decode(line)
        except (DecodeError, UnicodeDecodeError):
            continue
        slot = floor((minute.taken_at.timestamp() - began) / seconds * points)
        values = zip(minute.devices, minute.means.values, minute.maxima.values, strict=False)
        for device, mean, highest in values if 0 <= slot < points else ():
            if mean is not None:
                if device.key not in found:
                    found[device.key] = [[] for _ in range(points)]
                found[device.key][slot].append((mean, highest))
    return {key: [_extent(each) for each in slots] for key, slots in found.items()}


def _extent(minutes: list[tuple[float, float]]) -> Extent | None:
    if not minutes:
        return None
    means = [mean for mean, _ in minutes]
    return Extent(min(means), sum(means) / len(means), max(highest for _, highest in minutes))


@lru_cache(maxsize=8)
def _decoder(field: str) -> json.Decoder[Any]:
    """Return what reads of a minute no more than one metric."""
    values = defstruct("Values", [("values", _Values, ())], rename={"values": field})
    names = [("taken_at", datetime), ("devices", tuple[MinuteDevice, ...])]
    return json.Decoder(defstruct("Line", [*names, ("means", values), ("maxima", values)]))
