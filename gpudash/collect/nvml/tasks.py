"""Driver calls with one outcome, done on a thread that may be left behind, and how patiently."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from time import monotonic
from typing import Any, Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")


def no_news() -> None:
    """Do nothing: nobody listens."""


class Patience(Struct, frozen=True):
    """How long calls are waited for, in seconds."""

    alone: float
    """So long a call may hold up the others."""
    rest: float
    """So long each may take; then it is no more waited for."""
    first: float
    """The same where nothing is known yet; afterwards, how old values may be and still be shown."""
    news: Callable[[], None] = no_news
    """Called whenever a task came back."""
    is_limited_elsewhere: bool = False
    """Whether whoever waits for us gives us up as a whole, so that a call may hold us as well."""


STEADY = Patience(alone=0.5, rest=1.0, first=5.0)
"""For a screen, which rather goes on with the GPUs that answer."""


def once(seconds: float, news: Callable[[], None] = no_news) -> Patience:
    """Return the patience of a single look: each call has `seconds` to answer."""
    return Patience(
        alone=min(1.0, seconds / 2),
        rest=seconds,
        first=seconds,
        news=news,
        is_limited_elsewhere=True,
    )


class Task(Generic[T]):
    """Some driver calls with one outcome; `thread` is that which is on it.

    One that is put in the place of a task for which there was no thread waits since that one did.
    """

    def __init__(
        self,
        work: Callable[[], T],
        instead_of: Task[Any] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._work = work
        self._clock = clock
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self.started_at: float | None = None
        self.is_out = True
        """Whether it is still to come back."""
        self.has_no_thread = False
        """Whether it was never begun, and will not be, for the system gave no thread."""
        self.thread = 0
        self.since = clock()
        """Since when it is to be done."""
        if instead_of is not None and instead_of.has_no_thread:
            self.since = instead_of.since

    @property
    def seconds(self) -> float:
        """For how long it has been under way, or for how long there was no thread to begin it."""
        return self._clock() - (self.since if self.started_at is None else self.started_at)

    @property
    def is_back(self) -> bool:
        """Whether there is an outcome."""
        return not self.is_out and not self.has_no_thread

    def outcome(self) -> T:
        """Return what the work returned, once it is back; raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def run(self) -> None:
        """Do the work on this thread."""
        self.thread, self.started_at = _thread.get_ident(), self._clock()
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the outcome
            self._error = error
        self.is_out = False

    def withdraw(self) -> None:
        """Take it back: nobody began it."""
        self.is_out, self.has_no_thread = False, True
