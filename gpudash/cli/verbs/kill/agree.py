"""Asking the person at the terminal, once more and in other words where much would end."""

from __future__ import annotations

import os
import termios
from collections.abc import Sequence

from gpudash.actions.kill.signals import Signal
from gpudash.cli.verbs.kill.aim import Aimed
from gpudash.model.errors import UsageError

_YES = (b"y", b"yes")


def agreed(aimed: Sequence[Aimed], signal: Signal, *, yes: bool) -> bool:
    """Return whether the signal is to be sent; `yes` answers for plain jobs.

    Raises UsageError where a grave process needs an answer and there is no terminal.
    """
    grave = [each for each in aimed if each.grave]
    if grave and not os.isatty(0):
        pid = grave[0].hit.target.process.pid
        raise UsageError(f"PID {pid} is no plain job and there is no terminal to confirm it on")
    if not yes:
        count = sum(each.reach for each in aimed)
        whom = "this process" if count == 1 else f"these {count} processes"
        if _answer(f"Send SIG{signal.name} to {whom}? [y/N] ").lower() not in _YES:
            return False
    for each in grave:
        pid = each.hit.target.process.pid
        if _answer(f"PID {pid} is no plain job; type {pid} to send it: ") != str(pid).encode():
            return False
    return True


def _answer(question: str) -> bytes:
    """Return what is typed after the question: whoever typed ahead had not read it."""
    if os.isatty(0):
        termios.tcflush(0, termios.TCIFLUSH)
    os.write(2, question.encode())
    answer = os.read(0, 64)
    if not answer.endswith(b"\n"):
        os.write(2, b"\n")
    return answer.strip()
