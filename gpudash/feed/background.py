"""A thread that reads for a loop: files may be slow, or on a file system that hangs."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from gpudash.model.errors import GpudashError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

R = TypeVar("R")
_Jobs = queue.SimpleQueue["Callable[[], None] | None"]


class Background:
    """Reads in a thread; results of interrupted reads are discarded."""

    def __init__(self) -> None:
        self._turn = 0
        self._loop: AbstractEventLoop | None = None
        self._jobs: _Jobs = queue.SimpleQueue()
        weakref.finalize(self, self._jobs.put, None)

    def start(self) -> None:
        """Start on the running loop, unless started."""
        # A recording that is only printed needs no loop.
        from asyncio import get_running_loop

        if self._loop is None:
            self._loop = get_running_loop()
            threading.Thread(target=_work, args=(self._jobs,), name="reader", daemon=True).start()

    def stop(self) -> None:
        """Deliver nothing more."""
        self.interrupt()
        self._loop = None
        self._jobs.put(None)

    def interrupt(self) -> None:
        """Discard submitted reads that have not arrived yet."""
        self._turn += 1

    def submit(
        self,
        read: Callable[[], R],
        on_read: Callable[[R], object],
        on_error: Callable[[str], object],
        *,
        is_lasting: bool = False,
    ) -> None:
        """Read in the thread, then call `on_read` or `on_error` on the loop, unless interrupted.

        With `is_lasting`, an interruption does not discard the read.
        """
        # A thread lacks the context in which an app draws.
        loop, turn, context = self._loop, self._turn, copy_context()
        if loop is None:
            return

        def arrive(call: Callable[[], object]) -> None:
            if is_lasting or turn == self._turn:
                call()

        def job() -> None:
            if not is_lasting and turn != self._turn:
                return
            try:
                call = partial[object](on_read, read())
            except (GpudashError, OSError) as failure:
                call = partial(on_error, str(failure))
            # The loop may have ended meanwhile.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(arrive, call, context=context)

        self._jobs.put(job)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        job()
