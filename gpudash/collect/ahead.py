"""An answer that the kernel takes long for, awaited on a thread while something else is done."""

from __future__ import annotations

import _thread
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """A call under way; `result` waits for it."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._done = _thread.allocate_lock()
        self._done.acquire()
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:  # the system has no thread to give
            self._run()

    def result(self) -> T:
        """Return what the call returned."""
        with self._done:
            return self._results[0]

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        finally:
            self._done.release()
