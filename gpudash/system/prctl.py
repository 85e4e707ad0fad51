"""What a process asks of the kernel about itself."""

from __future__ import annotations

import os
import signal

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def end_with_parent(parent: int) -> None:
    """Let the kernel kill us when the parent ends: a hung call would outlast it unseen.

    `parent` is its PID: where we have another one by then, it has ended before we could ask.
    """
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def take_name(name: str) -> None:
    """Be called so by `ps` and `top`, of which the kernel keeps 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value, 0, 0, 0)
