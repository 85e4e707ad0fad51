"""The signals that gpudash has sent, among what happened on the screen: no key waits for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudash.feed.background import Background
    from gpudash.model.fleet import Event

_Read = tuple[object, "Sequence[Event] | None"]


class SentSignals:
    """Those of the record, which a thread reads again when it has changed."""

    def __init__(self) -> None:
        self._found: Sequence[Event] = ()
        self._stamp: object = None
        self._is_reading = False

    @cached_property
    def _background(self) -> Background:
        # The first picture does not wait for the imports.
        from asyncio import get_running_loop

        from gpudash.feed.background import Background

        background = Background()
        background.start(get_running_loop())
        return background

    def ask(self, changed: Callable[[], object]) -> None:
        """Have them read; `changed` is called where there are others. On an event loop."""
        if not self._is_reading:
            self._is_reading = True
            take = partial(self._take, changed)
            self._background.submit(partial(_read, self._stamp), take, lambda _: None)

    def of(self, hosts: Set[str], since: datetime | None) -> list[Event]:
        """Return those since then that were sent on one of these hosts, the oldest first."""
        if not self._found or since is None:
            return []
        from gpudash.actions.sent import is_here

        return [each for each in self._found if each.at >= since] if is_here(hosts) else []

    def _take(self, changed: Callable[[], object], read: _Read) -> None:
        self._is_reading = False
        self._stamp, found = read
        if found is not None:
            self._found = found
            changed()


def _read(before: object) -> _Read:
    """Return what the record is known by, and its signals, None if they are the same as before."""
    from gpudash.actions import sent

    stamp = sent.stamp()
    return stamp, None if stamp == before else sent.signals()
