"""Driver calls on threads, which are left behind when a call does not come back.

NVML knows no timeout, and a GPU that fell off the bus may hold a call for ever. One thread does
all tasks of a tick in turn, so that a healthy driver is asked by one thread as ever; only when
a call takes long does each of the others get a thread of its own.
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Generic, TypeVar

from msgspec import Struct

T = TypeVar("T")

_LULL_SECONDS = 5.0


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


STEADY = Patience(alone=0.5, rest=1.0, first=5.0)
"""For a screen, which rather goes on with the GPUs that answer."""


def once(seconds: float, news: Callable[[], None] = no_news) -> Patience:
    """Return the patience of a single look: each call has `seconds` to answer."""
    return Patience(alone=min(1.0, seconds / 2), rest=seconds, first=seconds, news=news)


class Task(Generic[T]):
    """Some driver calls with one outcome; `thread` is that which is on it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self.started_at: float | None = None
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self.is_out = True
        self.thread = 0

    @property
    def seconds(self) -> float:
        """For how long it has been under way."""
        return 0.0 if self.started_at is None else monotonic() - self.started_at

    def outcome(self) -> T:
        """Return what the work returned, once it is back; raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def run(self) -> None:
        """Do the work on this thread."""
        self.thread, self.started_at = _thread.get_ident(), monotonic()
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the outcome
            self._error = error
        self.is_out = False


def run(tasks: Sequence[Task[T]], patience: Patience | None, *, first: bool) -> None:
    """Do the tasks; those that are out when patience ends are left to their threads.

    Without patience they are done here, one after another.
    """
    if patience is None:
        for task in tasks:
            task.run()
    elif tasks:
        _Shift(tasks, patience.news).finish(
            patience.alone, patience.first if first else patience.rest
        )


class _Shift:
    """The tasks of one tick and the threads that are on them."""

    def __init__(self, tasks: Sequence[Task[T]], news: Callable[[], None]) -> None:
        self._tasks = tasks
        self._waiting = deque(tasks)
        self._left = len(tasks)
        self._news = news
        self._news_at = monotonic()
        self._counting = _thread.allocate_lock()
        self._over = _thread.allocate_lock()
        self._over.acquire()

    def finish(self, alone: float, rest: float) -> None:
        """Return when all are back, or none has come back for long."""
        if not self._start():
            self._work()
        if self._wait(lambda: self._news_at + alone):
            return
        for _ in range(len(self._waiting)):
            self._start()
        self._wait(lambda: self._given_up_at(rest))

    def _start(self) -> bool:
        """Let another thread work; False where the system has none to give."""
        try:
            _thread.start_new_thread(self._work, ())
        except RuntimeError:
            return False
        return True

    def _given_up_at(self, rest: float) -> float:
        """Return when those that are out have had their time, and the others were long silent.

        The driver serves one call after another: while it answers at all, a late one is no hung
        one. GPUs that nobody uses are started one by one, each within seconds.
        """
        out = (task.started_at or 0.0 for task in self._tasks if task.is_out)
        started = max(out, default=self._news_at)
        return max(started + rest, self._news_at + min(rest / 2, _LULL_SECONDS))

    def _wait(self, until: Callable[[], float]) -> bool:
        """Wait until all are back; False when the time has come before that."""
        while (left := until() - monotonic()) > 0:
            if self._over.acquire(timeout=min(left, _LULL_SECONDS)):
                return True
        return False

    def _work(self) -> None:
        while self._waiting:
            try:
                task = self._waiting.popleft()
            except IndexError:  # another thread was quicker
                return
            task.run()
            self._news()
            with self._counting:
                self._left -= 1
                self._news_at = monotonic()
                if not self._left:
                    self._over.release()
