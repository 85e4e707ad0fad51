"""Processes that come and go on the stand-in's GPUs, a generation after the other."""

import os
import signal
from pathlib import Path

_ARGV = ("sleep", "120")
"""What a real process runs; should nobody end it, it ends by itself."""
_FIRST_MADE_UP = 1 << 23
"""No kernel gives a PID as high as this, so that a made-up one is never somebody's."""


class Churn:
    """Replaces all listed PIDs at once: `real` of each generation are processes, others made up.

    A generation lives on until the one after the next, so that whoever was told of it finds it.
    """

    def __init__(self, control: Path, *, size: int, real: int) -> None:
        self.listed = self.started = 0
        """PIDs that were listed so far, and those of them that were processes."""
        self._control = control
        self._made_up = size - real
        self._real = real
        self._living: list[list[int]] = []

    def turn(self) -> None:
        """List the next generation, and end the one before the last."""
        born = [os.posix_spawnp(_ARGV[0], _ARGV, os.environ) for _ in range(self._real)]
        self._living.append(born)
        first = _FIRST_MADE_UP + self.listed
        pids = [*born, *range(first, first + self._made_up)]
        partial = self._control.with_suffix(".new")
        partial.write_text(f"PIDS={','.join(map(str, pids))}\n")
        partial.replace(self._control)
        self.listed += len(pids)
        self.started += len(born)
        while len(self._living) > 2:
            _end(self._living.pop(0))

    def end(self) -> None:
        """End all that live."""
        while self._living:
            _end(self._living.pop())


def _end(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        os.waitpid(pid, 0)
