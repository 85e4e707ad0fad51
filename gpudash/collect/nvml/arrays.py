"""Arrays that C functions of NVML fill, in structures without pynvml's conveniences.

Those look into each attribute as it is read, which takes longer than the call itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.answers import Scoped

_BUFFER = 64
_GROWTHS = 6


def listed(
    function: Callable[..., int], handle: Any, structure: Any, *trailing: int
) -> tuple[Sequence[Any] | None, int]:
    """Call a function that fills an array, growing the array while it is too small."""
    from ctypes import byref, c_uint, c_ulonglong

    extra = [c_ulonglong(value) for value in trailing]
    capacity = _BUFFER
    for _ in range(_GROWTHS):
        count, buffer = c_uint(capacity), (structure * capacity)()
        # The utilization call takes its array before its count, the process lists after it.
        array_first = (buffer, byref(count)) if trailing else (byref(count), buffer)
        code = function(handle, *array_first, *extra)
        if code != codes.INSUFFICIENT_SIZE:
            return (buffer[: count.value] if code == codes.SUCCESS else None), code
        capacity = max(count.value, capacity) * 2
    return None, codes.INSUFFICIENT_SIZE


def field_values(
    function: Callable[..., int], handle: Any, structure: Any, ids: Sequence[Scoped]
) -> tuple[Iterable[Any] | None, int]:
    """Call the function that fills an array in which it finds what it is asked."""
    entries = (structure * len(ids))()
    for entry, (number, scope) in zip(entries, ids, strict=True):
        entry.fieldId, entry.scopeId = number, scope
    code = function(handle, len(ids), entries)
    return (entries if code == codes.SUCCESS else None), code


# Once each, as ctypes keeps its types for ever.
@lru_cache(maxsize=8)
def plain(structure: Any) -> Any:
    """Return a structure of the same layout that is nothing but a structure."""
    from ctypes import Structure

    return type(structure.__name__, (Structure,), {"_fields_": structure._fields_})


@lru_cache(maxsize=1)
def wider(structure: Any) -> Any:
    """Return the structure of a process with the fifth field that some drivers fill."""
    from ctypes import c_ulonglong

    return type("WideProcess", (structure,), {"_fields_": [("usedGpuCcMemory", c_ulonglong)]})
