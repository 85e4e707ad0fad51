"""Texts for the first and the last line of every view: the feed, errors, results of actions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from gpudash.feed.collector import lingering
from gpudash.feed.protocol import Feed, FeedState, SnapshotFeed
from gpudash.model.device import Device
from gpudash.model.units import duration
from gpudash.tui.bindings import shown_key
from gpudash.tui.keymap import Key

_LONG = 2.0
"""Seconds after which a first sample, or the end of a collector, is overdue."""

_MARKS = {
    FeedState.STALE: "STALE",
    FeedState.RESTARTING: "NO COLLECTOR",
    FeedState.RELEASED: "DETACHED",
    FeedState.SERVICE_RELEASED: "DETACHED",
}
"""The states in which the screen is out of date."""


def state_mark(feed: Feed[Any]) -> str:
    """Return `STALE 14 s` or the like, nothing while the feed is live."""
    mark = _MARKS.get(feed.state)
    return "" if mark is None else f"{mark} {duration(feed.age)}"


def error_text(
    feed: SnapshotFeed, device: Device | None, keys: Iterable[Key], of_time: str = ""
) -> str:
    """Return what keeps the screen from being right, or the fault of the selected device.

    `keys` are those in force; `of_time` is the message about the instant shown.
    """
    if feed.state is FeedState.RELEASED:
        if lingering():
            if feed.age > feed.interval + _LONG:
                return "a collector hangs in the driver and still holds the GPUs"
            return "detaching from the driver"
        return f"detached from the driver: {shown_key(keys, 'driver.release')} reattaches"
    if feed.error is not None:
        return feed.error
    if of_time:
        return of_time
    if device is not None and device.fault is not None:
        return device.fault.message
    waited = feed.age
    if feed.latest or (feed.preview and waited <= _LONG):
        return ""
    return "reading GPUs" + (f", no answer for {duration(waited)}" if waited > _LONG else "")


SECONDS = 10.0
"""Age at which a message may no longer be true, and gives way to the keys."""


class StatusMessage:
    """A text that expires, or stays until the next action if it must be answered."""

    def __init__(self) -> None:
        self._text, self._until = "", float("inf")
        self.on_expiry: Callable[[float], object] = lambda _seconds: None
        """Called with the seconds until a text expires, when the screen must be redrawn."""

    @property
    def text(self) -> str:
        """The message, empty once it has expired."""
        return self._text if time.monotonic() < self._until else ""

    def show(self, text: str, *, stays: bool = False) -> None:
        """Set the message, empty for none."""
        expires = bool(text) and not stays
        self._text, self._until = text, float("inf")
        if expires:
            self._until = time.monotonic() + SECONDS
            self.on_expiry(SECONDS)
