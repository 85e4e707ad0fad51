"""Timers of an event loop that are known by their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle


class _Armed(NamedTuple):
    handle: TimerHandle
    call: Callable[[], None]


class Timers:
    """Calls to come on a loop, at most one of each name; there is none before `attach`."""

    def __init__(self) -> None:
        self._loop: AbstractEventLoop | None = None
        self._armed: dict[str, _Armed] = {}

    def attach(self, loop: AbstractEventLoop) -> None:
        """Use this loop from now on."""
        self._loop = loop

    def arm(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        """Call once in so many seconds, instead of what was to be called by this name."""
        assert self._loop is not None
        self.cancel(name)
        self._armed[name] = _Armed(self._loop.call_later(seconds, call), call)

    def hasten(self, name: str, seconds: float) -> None:
        """Call what is to come by this name in so many seconds at the latest; never put it off."""
        armed = self._armed.get(name)
        if self._loop is None or armed is None:
            return
        # One that was called already was due before.
        if armed.handle.when() > self._loop.time() + seconds:
            self.arm(name, seconds, armed.call)

    def cancel(self, *names: str) -> None:
        """Call nothing by these names any more."""
        for name in names:
            armed = self._armed.pop(name, None)
            if armed is not None:
                armed.handle.cancel()

    def cancel_all(self) -> None:
        """Call nothing any more."""
        self.cancel(*self._armed)
