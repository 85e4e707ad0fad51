"""What must not grow while a process runs: its memory, its descriptors, its threads."""

import os
import re
import time
from pathlib import Path
from typing import NamedTuple

_LOOKS, _PAUSE_SECONDS = 5, 0.03
_STAT_FILE = re.compile(r"/proc/\d+/stat").fullmatch


class Vitals(NamedTuple):
    """One process at one moment."""

    resident_mib: float
    proportional_mib: float
    """Resident memory, shared pages counted by their share (Pss)."""
    descriptors: int
    threads: int


def vitals(pid: int) -> Vitals:
    """Look at a process several times; files and threads of a moment do not count.

    Raises ProcessLookupError when it is gone.
    """
    try:
        memory = _fields(Path(f"/proc/{pid}/smaps_rollup"))
        looks = [_look(pid) for _ in range(_LOOKS)]
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    descriptors, threads = map(min, zip(*looks, strict=True))
    return Vitals(_mib(memory["Rss"]), _mib(memory["Pss"]), descriptors, threads)


def _look(pid: int) -> tuple[int, int]:
    time.sleep(_PAUSE_SECONDS)
    return _descriptors(pid), len(os.listdir(f"/proc/{pid}/task"))


def _descriptors(pid: int) -> int:
    """Count the open files, but for those of the processes that it lists, which come and go."""
    links = map(_link, Path(f"/proc/{pid}/fd").iterdir())
    return sum(_STAT_FILE(link) is None for link in links)


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _fields(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in path.read_text().splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _mib(kib: str) -> float:
    return int(kib.removesuffix("kB")) / 1024
