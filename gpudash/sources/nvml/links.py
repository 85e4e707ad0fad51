"""Which NVLinks of a GPU are up."""

from __future__ import annotations

from typing import Any

from gpudash.sources.nvml import codes
from gpudash.sources.nvml.library import Library

_MAX_LINKS = 36
_PAST_THE_LAST = frozenset({codes.INVALID_ARGUMENT, *codes.PERMANENT})


def active_links(library: Library, handle: Any) -> tuple[tuple[int, ...] | None, int]:
    """Return (numbers of the links that are up, 0), or (None, NVML's value) of a GPU without any.

    A link that is down has no traffic, but keeps its number: the numbers may have holes.
    """
    active: list[int] = []
    for link in range(_MAX_LINKS):
        state, code = library.ask("nvmlDeviceGetNvLinkState", handle, link)
        if code in codes.DEAD or (code and not link):
            return None, code
        if code in _PAST_THE_LAST:
            break
        if state:
            active.append(link)
    return tuple(active), codes.SUCCESS
