"""A process with children, found again by a mark in their environment, orphans too."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType

import psutil

from gpudash.system import process_tree
from tests import waiting

_MARK = "GPUDASH_TEST_FAMILY"

LAUNCHER = "setsid sleep 600 & trap 'exit 0' TERM; wait"
"""A shell script whose child in a session of its own outlives it."""

DEAF_LAUNCHER = "setsid sleep 600 & trap '' TERM; sleep 600 & while :; do wait; done"
"""One that ignores SIGTERM, as does the second of its children."""


class Family:
    """All that one command starts; leaving the `with` block kills them."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._mark = uuid.uuid4().hex
        self._root = subprocess.Popen(
            argv,
            env={**os.environ, _MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.pid = self._root.pid

    def alive(self) -> set[int]:
        return {each.pid for each in psutil.process_iter() if self._is_member(each)}

    def until(self, condition: Callable[[set[int]], bool]) -> set[int]:
        """Wait until those that run are as they should be, and return them."""

        def found() -> list[set[int]]:
            alive = self.alive()
            return [alive] if condition(alive) else []

        (alive,) = waiting.until(found, self.alive)
        return alive

    def started(self, count: int, sleepers: int) -> set[int]:
        """Wait until so many run, so many of them as `sleep 600`, and return them.

        In the midst of exec a process has neither arguments nor the mark.
        """

        def settled(alive: set[int]) -> bool:
            relatives = map(process_tree.process_of, alive)
            lines = [each.command_line for each in relatives if each is not None]
            return (
                len(alive) == count and sum(line == ("sleep", "600") for line in lines) == sleepers
            )

        return self.until(settled)

    def reap(self) -> None:
        self._root.wait(waiting.LIMIT_SECONDS)

    def __enter__(self) -> Family:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while alive := self.alive():
            for pid in sorted(alive):
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
        self._root.wait()

    def _is_member(self, process: psutil.Process) -> bool:
        try:
            marked = process.environ().get(_MARK) == self._mark
            return marked and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False
