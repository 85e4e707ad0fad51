"""What a process asks of the kernel about itself."""

from __future__ import annotations

import signal

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def end_with_parent() -> None:
    """Let the kernel kill us when the parent ends: a hung call would outlast it unseen."""
    _prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))


def take_name(name: str) -> None:
    """Be called so by `ps` and `top`, of which the kernel keeps 15 bytes."""
    _prctl(_PR_SET_NAME, name.encode())


def _prctl(option: int, value: int | bytes) -> None:
    from ctypes import CDLL

    CDLL(None).prctl(option, value, 0, 0, 0)
