"""What a simulated NVML hands back where pynvml hands back C structures and handles."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TypeVar

from gpudash.collect.simulated.constants import CONSTANTS
from gpudash.collect.simulated.errors import NVMLError
from gpudash.collect.simulated.gpu import Gpu, Instance

_INVALID = CONSTANTS["NVML_ERROR_INVALID_ARGUMENT"]

T = TypeVar("T")

Record = SimpleNamespace
"""A C structure: its members are attributes."""


class Handle:
    """An opaque device handle, valid from one initialization to its shutdown."""

    __slots__ = ("device", "session")

    def __init__(self, device: Gpu | Instance, session: int) -> None:
        self.device = device
        self.session = session


class Boxed(int):
    """An integer that also has ctypes' `value`, where pynvml forgets to unbox."""

    @property
    def value(self) -> int:
        """The number itself."""
        return int(self)


def pick(values: tuple[T, ...], index: int) -> T:
    """Return one of the values an enum chooses from.

    Raises NVMLError INVALID_ARGUMENT when it is none of them.
    """
    if not 0 <= index < len(values):
        raise NVMLError(_INVALID)
    return values[index]
