"""The fans of a GPU, each in its place."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.poll import DeviceLost
from gpudash.collect.nvml.values import fan_percent, small_count

_MAX_FANS = 16


class Fans:
    """How many fans a GPU has, asked until it is known, and their speeds."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._count: int | None = None

    def speeds(self, handle: Any) -> tuple[int | None, ...] | None:
        """Return the speed of each fan in percent; None if there is none or none answers.

        Raises DeviceLost when the device says that it is gone.
        """
        if self._count is None:
            count, code = self._ask("nvmlDeviceGetNumFans", handle)
            if code in codes.PERMANENT:
                self._count = 0
            elif (number := small_count(count)) is not None:
                self._count = min(number, _MAX_FANS)
        answers = [
            self._ask("nvmlDeviceGetFanSpeed_v2", handle, fan) for fan in range(self._count or 0)
        ]
        if answers and all(code in codes.PERMANENT for _, code in answers):
            self._count = 0
        speeds = tuple(fan_percent(speed) for speed, _ in answers)
        return speeds if any(speed is not None for speed in speeds) else None

    def _ask(self, call: str, *arguments: Any) -> tuple[Any, int]:
        value, code = self._library.ask(call, *arguments)
        if code in codes.DEAD:
            raise DeviceLost(code)
        return value, code
