"""What the shell finds when the screen was left: a status, and no answer meant for the screen."""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal

SHELL = """
import signal, subprocess, sys, termios, tty
signal.signal(signal.SIGINT, lambda *_: None)
status = subprocess.call(sys.argv[1:])
tty.setcbreak(0, termios.TCSANOW)
print(f"\\nstatus {status}", flush=True)
typed = ""
while not typed.endswith("."):
    typed += sys.stdin.read(1)
print(f"typed {typed!r}", flush=True)
"""
"""Runs a command, and tells what it reads from the terminal up to a dot."""


class LateTerminal(Terminal):
    """Answers every question some time after it has read it."""

    def __init__(self, *arguments: Any, late: float, **options: Any) -> None:
        self._late, self._due = late, []
        super().__init__(*arguments, **options)

    @property
    def has_answered(self) -> bool:
        """Whether no answer is due."""
        return not self._due

    def pump(self, timeout: float) -> bool:
        """Give the answers that are due, and read."""
        while self._due and self._due[0][0] <= time.monotonic():
            super().write(self._due.pop(0)[1])
        return super().pump(min(timeout, 0.05) if self._due else timeout) or bool(self._due)

    def answer(self, data: bytes) -> None:
        self._due.append((time.monotonic() + self._late, data))


def shell(late: float, *arguments: str) -> LateTerminal:
    argv = [sys.executable, "-c", SHELL, *GPUDASH, "--no-config", "--demo=dgx-h100", *arguments]
    return LateTerminal(argv, env=dict(os.environ), late=late, columns=120, rows=40)


def test_late_answers_do_not_reach_the_shell() -> None:
    with shell(0.1) as terminal:
        terminal.wait_until(lambda: b"?2026$p" in terminal.raw)
        terminal.send("ctrl+c", then="status 0")
        terminal.wait_until(lambda: terminal.has_answered)
        terminal.send("x.", then="typed 'x.'")


def device_view(terminal: Terminal) -> None:
    terminal.wait_for("quit")
    terminal.settle()
    terminal.send("d", then="q back")


PLACES: dict[str, Callable[[Terminal], object]] = {
    "before the first picture": lambda terminal: terminal.wait_for("gpudash"),
    "with the first picture": lambda terminal: terminal.wait_until(
        lambda: b"?2026$p" in terminal.raw
    ),
    "before the first key": lambda terminal: terminal.wait_until(lambda: 1000 in terminal.modes),
    "view": device_view,
}


def ended(terminal: Terminal) -> int:
    """The status of a screen that leaves the terminal as it was, and no process."""
    status = terminal.wait_exit()
    assert terminal.modes == {7, 25}
    assert "Traceback" not in terminal.text
    terminal.wait_until(lambda: not terminal.processes())
    return status


@pytest.mark.parametrize("place", ["before the first picture", "before the first key"])
def test_ctrl_c_is_the_key_that_quits_everywhere(place: str) -> None:
    with Terminal([*GPUDASH, "--no-config", "--demo=dgx-h100"], env=dict(os.environ)) as terminal:
        PLACES[place](terminal)
        terminal.send("ctrl+c")
        assert ended(terminal) == 0


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("before the first picture", signal.SIGHUP),
        ("with the first picture", signal.SIGTERM),
        ("view", signal.SIGINT),
    ],
)
def test_signal_is_the_status(place: str, number: int) -> None:
    with Terminal([*GPUDASH, "--no-config", "--demo=dgx-h100"], env=dict(os.environ)) as terminal:
        PLACES[place](terminal)
        os.kill(terminal.pid, number)
        assert ended(terminal) == 128 + number
