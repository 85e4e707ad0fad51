"""The next nvidia-smi in PATH, which does what gpudash does not: it changes GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress

PROGRAM = "nvidia-smi"

_HANDED_ON = "GPUDASH_HANDED_ON"
"""Set when another nvidia-smi was started, so that one that starts gpudash is not started again."""
_BEGINNING = 1024
"""Bytes of a script within which it names gpudash if it starts that."""


def is_ours(path: str) -> bool:
    """Whether a program, or the target of a link, starts gpudash."""
    try:
        with open(path, "rb") as file:
            return b"gpudash" in file.read(_BEGINNING)
    except OSError:
        return False


def programs() -> Iterator[str]:
    """Yield each nvidia-smi in PATH, in its order."""
    for folder in os.get_exec_path():
        path = os.path.abspath(os.path.join(folder, PROGRAM))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            yield path


def become(words: Sequence[str]) -> None:
    """Become the first nvidia-smi in PATH that is not gpudash; return if there is none."""
    if _HANDED_ON in os.environ:
        return
    for path in programs():
        if not is_ours(path):
            with suppress(OSError):
                os.execve(path, [PROGRAM, *words], {**os.environ, _HANDED_ON: "1"})
