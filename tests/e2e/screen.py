"""The live screen in a terminal, on the stand-in library."""

import re
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder

STALE = re.compile("stale", re.IGNORECASE)


def watching(
    library: Path, *arguments: str, size: tuple[int, int] = (80, 24), **told: Any
) -> Terminal:
    argv = [*GPUDASH, "--interval", "0.2", *arguments]
    return Terminal(argv, env=environment(library, **told), columns=size[0], rows=size[1])


def shown_pids(terminal: Terminal, held: Sequence[Holder]) -> set[int]:
    words = set(re.findall(r"\d+", terminal.text))
    return {holder.pid for holder in held if str(holder.pid) in words}


GUARD_SECONDS = 0.5
"""More than a question ignores keys for, which may be meant for what was there before."""
RETRY_SECONDS = 5.0


def press_until(
    terminal: Terminal, key: str, condition: Callable[[], object], guard: float = GUARD_SECONDS
) -> None:
    """Answer the question on the screen by a key."""
    answer_until(terminal, lambda: terminal.send(key), condition, guard)


def answer_until(
    terminal: Terminal,
    answer: Callable[[], object],
    condition: Callable[[], object],
    guard: float = GUARD_SECONDS,
) -> None:
    """Answer the question on the screen, again if that was too early all the same.

    Each answer has its time: behind the dialog it means something else.
    """

    def answered() -> object:
        answer()
        end = time.monotonic() + RETRY_SECONDS
        while time.monotonic() < end and not condition():
            terminal.pump(0.05)
        return condition()

    terminal.settle(0.05)
    terminal.rest(guard)
    terminal.wait_until(answered)


def the_collector(terminal: Terminal) -> psutil.Process:
    """Return the only process that looks at the driver, once it has its name."""
    found: list[psutil.Process] = []

    def is_one() -> bool:
        found[:] = collectors(terminal)
        return len(found) == 1

    terminal.wait_until(is_one)
    return found[0]


def collectors(terminal: Terminal, name: str = "nvml-collector") -> list[psutil.Process]:
    found = []
    for process in terminal.processes():
        # One may end between being listed and being asked.
        with suppress(psutil.NoSuchProcess):
            if process.name() == name:
                found.append(process)
    return found
