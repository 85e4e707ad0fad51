"""Makes the calls of the table: each group at its interval, until a device refuses one."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.calls import (
    INSTANCE_SECONDS,
    RETRY_SECONDS,
    SLOW_SECONDS,
    STATIC_SECONDS,
    NvmlCall,
)
from gpudash.collect.nvml.library import DeviceLost, Library

LONG_SECONDS = 0.25
"""A call that takes longer is a slow one; most take microseconds."""
_LONG_PAUSES = 3
"""A slow call pauses for this multiple of its duration."""


class Timer:
    """When something is due: at once, and then every `seconds`."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due = 0.0

    def is_due(self, now: float) -> bool:
        """Return whether it is due; if so, restart the count."""
        if now < self._due:
            return False
        self._due = now + self._seconds
        return True


class PollGroup:
    """Calls made at the same interval; unsupported ones drop out for good.

    Constant facts drop out too once known. A slow call is made more rarely, so that it does not
    delay the others in every tick, and its fields are unknown in between. Only the facts of a MIG
    instance are read whenever due: without them, another instance would be mistaken for it.
    """

    def __init__(self, calls: tuple[NvmlCall, ...], seconds: float) -> None:
        self.seconds = seconds
        self._calls = list(calls)
        self._due = 0.0
        self._slow: dict[NvmlCall, float] = {}
        """When each call that was slow the last time may be repeated."""
        self._may_pause = seconds != INSTANCE_SECONDS

    def is_due(self, now: float) -> bool:
        """Whether it is time to read."""
        return now >= self._due

    def repeat_after(self, seconds: float, now: float) -> None:
        """Restart the count with another interval."""
        self.seconds, self._due = seconds, now + seconds

    def read(self, library: Library, handle: Any, values: dict[str, Any], now: float) -> list[int]:
        """Fill the fields into `values`, and return NVML's code of each call that is supported.

        Raises DeviceLost when the device is gone.
        """
        is_static = self.seconds == STATIC_SECONDS
        kept: list[NvmlCall] = []
        answered: list[int] = []
        began = library.stopwatch()
        for first in self._calls:
            if self._slow and now < self._slow.get(first, now):
                kept.append(first)
                values.update(dict.fromkeys(field for field, _ in first.fields))
                continue
            call, code = _make(library, handle, first, values)
            ended = library.stopwatch()
            took, began = ended - began, ended
            if call is None:
                continue
            self._note_duration(call, took, now)
            answered.append(code)
            if code or not is_static:
                kept.append(call)
        self._calls = kept
        self._due = now + (RETRY_SECONDS if is_static and kept else self.seconds)
        return answered

    def _note_duration(self, call: NvmlCall, took: float, now: float) -> None:
        """Pause a call that was slow twice in a row; once may be a GPU that had to wake up."""
        if took > LONG_SECONDS and self._may_pause:
            pause = max(SLOW_SECONDS, _LONG_PAUSES * took) if call in self._slow else 0.0
            self._slow[call] = now + pause
        elif self._slow:
            self._slow.pop(call, None)


def _note_failure(call: NvmlCall, code: int, values: dict[str, Any]) -> None:
    """Keep the code of a failed call, 0 for a meaningless answer; drop it after a success."""
    failed: dict[str, int] = values.setdefault("failed_fields", {})
    for field, _ in call.fields:
        if code or values[field] is None:
            failed[field] = code
        else:
            failed.pop(field, None)


def _make(
    library: Library, handle: Any, call: NvmlCall | None, values: dict[str, Any]
) -> tuple[NvmlCall | None, int]:
    """Make a call or its first supported fallback; return it and NVML's code."""
    while call is not None:
        if call.structure is None:
            value, code = library.call(call.name, handle, *call.arguments)
        else:
            value, code = library.filled(call.name, handle, call.structure)
        if code in codes.DEAD:
            raise DeviceLost(code)
        for field, convert in call.fields:
            values[field] = None if code else convert(value)
        if code not in codes.PERMANENT:
            if library.wants("failed_fields"):
                _note_failure(call, code, values)
            return call, code
        call = call.fallback
    return None, codes.SUCCESS
