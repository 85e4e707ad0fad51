"""Readings of one pace: asked when they are due, and no more once the device refused them."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import (
    INSTANCE_SECONDS,
    LONG_SECONDS,
    LONG_SHARE,
    RETRY_SECONDS,
    SLOW_SECONDS,
    STATIC_SECONDS,
    Reading,
)
from gpudash.collect.nvml.library import Library


class DeviceLost(Exception):  # noqa: N818
    """The GPU answered that it is gone; `code` says how."""

    def __init__(self, code: int) -> None:
        super().__init__(codes.text(code))
        self.code = code


class Lane:
    """Readings of one pace; one that the device does not have drops out for good.

    A fact that never changes drops out too, as soon as it was told. One for which the driver needs
    long is asked more rarely, so that it does not hold up all others in every tick, and is unknown
    in between. Only what an instance is said to be is asked whenever it is due: without that
    another one would be taken for it.
    """

    def __init__(self, readings: tuple[Reading, ...], seconds: float) -> None:
        self.seconds = seconds
        self._readings = list(readings)
        self._due = 0.0
        self._slow: dict[Reading, float] = {}
        self._may_wait = seconds != INSTANCE_SECONDS

    def is_due(self, now: float) -> bool:
        """Whether it is time to read."""
        return now >= self._due

    def read(self, library: Library, handle: Any, facts: dict[str, Any], now: float) -> list[int]:
        """Fill the fields into `facts`, and return NVML's value of each that the device has.

        Raises DeviceLost when the device says that it is gone.
        """
        is_static = self.seconds == STATIC_SECONDS
        kept: list[Reading] = []
        seen: list[int] = []
        began = library.stopwatch()
        for first in self._readings:
            if self._slow and now < self._slow.get(first, now):
                kept.append(first)
                facts.update(dict.fromkeys(field for field, _ in first.fields))
                continue
            reading, code = _ask(library, handle, first, facts)
            ended = library.stopwatch()
            took, began = ended - began, ended
            if reading is None:
                continue
            self._take_time(reading, took, now)
            seen.append(code)
            if code or not is_static:
                kept.append(reading)
        self._readings = kept
        self._due = now + (RETRY_SECONDS if is_static and kept else self.seconds)
        return seen

    def _take_time(self, reading: Reading, took: float, now: float) -> None:
        """Put a reading off that took long twice in a row; once may be a GPU that was started."""
        if took > LONG_SECONDS and self._may_wait:
            pause = max(SLOW_SECONDS, LONG_SHARE * took) if reading in self._slow else 0.0
            self._slow[reading] = now + pause
        elif self._slow:
            self._slow.pop(reading, None)


def _ask(
    library: Library, handle: Any, reading: Reading | None, facts: dict[str, Any]
) -> tuple[Reading | None, int]:
    """Return which of a reading and its fallbacks the device has, and NVML's value of it."""
    while reading is not None:
        value, code = library.ask(reading.call, handle, *reading.arguments)
        if code in codes.DEAD:
            raise DeviceLost(code)
        for field, convert in reading.fields:
            facts[field] = None if code else convert(value)
        if code not in codes.PERMANENT:
            return reading, code
        reading = reading.fallback
    return None, codes.SUCCESS
