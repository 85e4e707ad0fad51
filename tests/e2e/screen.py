"""The live screen in a terminal, on the stand-in library."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.run import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder

Holders = Callable[..., list[Holder]]

SIZES = [(80, 24), (140, 40)]

STALE = re.compile("stale", re.IGNORECASE)


def watching(
    library: Path,
    *arguments: str,
    size: tuple[int, int] = (80, 24),
    **told: Any,
) -> Terminal:
    argv = [*GPUDASH, "--interval", "0.2", *arguments]
    return Terminal(argv, env=environment(library, **told), columns=size[0], rows=size[1])


def shown_pids(terminal: Terminal, held: Sequence[Holder]) -> set[int]:
    """The holders whose PIDs stand on the screen."""
    words = set(re.findall(r"\d+", terminal.text))
    return {holder.pid for holder in held if str(holder.pid) in words}


def collectors(terminal: Terminal) -> list[psutil.Process]:
    """Those that look at the driver."""
    found = []
    for process in terminal.processes():
        # One may end between being listed and being asked.
        with suppress(psutil.NoSuchProcess):
            if process.name() == "nvml-collector":
                found.append(process)
    return found
