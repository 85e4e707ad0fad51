"""The NVLinks of a GPU: which there are, which of them are up, and their version."""

from __future__ import annotations

from typing import Any

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library

MAX_LINKS = 36
_PAST_THE_LAST = frozenset({codes.INVALID_ARGUMENT, *codes.PERMANENT})

_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}
"""NVML_NVLINK_VERSION_*, which is no version itself."""

FIELDS = ("nvlink_count", "nvlink_total_count", "nvlink_inactive_links", "nvlink_version")
"""What is told of them."""


class NvLinks:
    """The links from look to look; a GPU without any is not asked again."""

    def __init__(self, library: Library) -> None:
        self.active: tuple[int, ...] = ()
        """Numbers of those that are up; there may be holes between them."""
        self._library = library
        self._has_any = True
        self._version: str | None = None

    def facts(self, handle: Any) -> tuple[dict[str, Any], int]:
        """Return what there is to tell, and NVML's value where the GPU says that it is gone."""
        states, code = _states(self._library, handle) if self._has_any else (None, codes.SUCCESS)
        if code in codes.DEAD:
            return {}, code
        if states is None:
            self._has_any = self._has_any and code not in codes.PERMANENT
            self.active = ()
            return dict.fromkeys(FIELDS), codes.SUCCESS
        self.active = _active(states)
        if self._version is None and self.active:
            number, _ = self._library.ask("nvmlDeviceGetNvLinkVersion", handle, self.active[0])
            self._version = _VERSIONS.get(number)
        inactive = tuple(link for link, is_up in enumerate(states) if is_up is False)
        values = (len(self.active), len(states), inactive, self._version)
        return dict(zip(FIELDS, values, strict=True)), codes.SUCCESS


def active_links(library: Library, handle: Any) -> tuple[int, ...]:
    """Return the numbers of the links that are up, none of a GPU without any."""
    return _active(_states(library, handle)[0] or [])


def _active(states: list[bool | None]) -> tuple[int, ...]:
    return tuple(link for link, is_up in enumerate(states) if is_up)


def _states(library: Library, handle: Any) -> tuple[list[bool | None] | None, int]:
    """Return (whether each link is up, 0), or (None, NVML's value) of a GPU without any."""
    states: list[bool | None] = []
    for link in range(MAX_LINKS):
        state, code = library.ask("nvmlDeviceGetNvLinkState", handle, link)
        if code in codes.DEAD or (code and not link):
            return None, code
        if code in _PAST_THE_LAST:
            break
        states.append(None if code else bool(state))
    return states, codes.SUCCESS
