"""Freed memory that the C library keeps, given back to the system where it can be.

glibc does so by itself only at the end of its heap, and takes a size that it saw freed once for
one that is wanted often.
"""

from __future__ import annotations

from contextlib import suppress
from ctypes import CDLL

_M_MMAP_THRESHOLD = -3
"""mallopt's name for the size from which memory is the system's again as soon as it is freed."""
_LARGE_BYTES = 1 << 17


def give_back_large() -> None:
    """Have what is larger than 128 KiB given back from now on as soon as it is freed."""
    with suppress(AttributeError, OSError):
        CDLL(None).mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)


def give_back_freed() -> None:
    """Give back what is free now; 3 ms where that is 30 MB."""
    with suppress(AttributeError, OSError):
        CDLL(None).malloc_trim(0)
