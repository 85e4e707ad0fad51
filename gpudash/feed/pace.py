"""The interval of a collector, which whoever started it may change while it runs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from math import inf

_VARIABLE = "GPUDASH_LED"
LED: Mapping[str, str] = {_VARIABLE: "1"}
"""The environment of a collector whose stdin tells intervals, and which ends with its starter."""

_CHUNK = 1 << 12


class Pace:
    """Seconds between two samples; lines of a descriptor, if there is one, tell others."""

    def __init__(self, seconds: float, descriptor: int | None = None) -> None:
        self.seconds = seconds
        self.descriptor = descriptor
        self._rest = b""
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Take note of what was told, of which the last counts; whether it is another interval."""
        before = self.seconds
        if self.descriptor is not None:
            with suppress(BlockingIOError):
                self._take(os.read(self.descriptor, _CHUNK))
        return self.seconds != before

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self.descriptor = None
        *lines, self._rest = (self._rest + chunk)[-_CHUNK:].split(b"\n")
        for line in lines:
            with suppress(ValueError):
                seconds = float(line)
                if 0 < seconds < inf:
                    self.seconds = seconds


def told(seconds: float) -> bytes:
    """Return the line that tells an interval."""
    return b"%r\n" % seconds


def is_led(environ: Mapping[str, str]) -> bool:
    """Whether stdin tells intervals."""
    return _VARIABLE in environ
