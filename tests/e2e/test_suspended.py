"""Suspended from wherever one is, and back by `fg`, in a real shell."""

import os
import re
import signal
from pathlib import Path

import psutil

from tests.e2e.forking import GPUDASH
from tests.e2e.screen import press_until
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder

SCREEN_MODES = frozenset({1000, 1002, 1006, 1049, 2004})
"""The alternate screen, the mouse, and pasted text in brackets."""

SECOND_SAMPLE = 1.5
"""Seconds after which there is none until the interval is over: the second comes after one."""


def in_shell(library: Path, *, config: Path | None = None, **told: object) -> Terminal:
    """Return a terminal with a shell that runs gpudash, whose screen stands still."""
    env = environment(library, DEVICES=2, PROCS_PER_DEVICE=1, **told)
    if config is not None:
        env = {**env, "GPUDASH_CONFIG": str(config)}
    shell = ["bash", "--norc", "--noprofile", "-i"]
    terminal = Terminal(shell, env=env, columns=100, rows=30)
    terminal.send(" ".join([*GPUDASH, "--interval", "600"]) + "\r", then="q quit")
    terminal.idle(SECOND_SAMPLE)
    return terminal


def stopped(terminal: Terminal, key: str = "ctrl+z") -> None:
    press_until(terminal, key, lambda: "Stopped" in terminal.text)
    assert not SCREEN_MODES & terminal.modes - {2004}
    assert 25 in terminal.modes


def ask(terminal: Terminal) -> None:
    """Open the question, and wait until it may be answered."""
    terminal.send("K", then="Kill PID ")
    terminal.settle(0.5)


def test_every_dialog_and_prompt_is_left_and_comes_back_whole(fakenvml: Path) -> None:
    dialogs = {
        "/": ("discard", "q quit"),
        "h": ("close", "q quit"),
        "s": ("type to find", "q quit"),
        ":": ("type to find", "q quit"),
        "g": ("Space on or off", "q quit"),
        "C": ("Space on or off", "q quit"),
        "K": ("Close  q", "q quit"),
        "d": ("next", "quit"),
    }
    with in_shell(fakenvml) as terminal:
        for key, (sign, after) in dialogs.items():
            terminal.send(key, then=sign)
            before = terminal.settle(0.3)
            modes = terminal.modes
            stopped(terminal)
            terminal.send("fg\r", then=lambda text, before=before: text == before)
            assert terminal.modes == modes >= SCREEN_MODES
            terminal.settle(0.4)
            terminal.send("escape")
            terminal.wait_for(
                lambda text, sign=sign, after=after: sign not in text and after in text
            )


def test_what_was_typed_to_the_shell_does_not_answer(fakenvml: Path, job: Holder) -> None:
    with in_shell(fakenvml, PIDS=job.pid) as terminal:
        ask(terminal)
        stopped(terminal)
        terminal.send("fg\r" + "y" * 20, then="Kill PID ")
        terminal.settle(0.6)
        assert "Kill PID " in terminal.text
        assert job.alive
        press_until(terminal, "y", lambda: "Kill PID " not in terminal.text)
        terminal.wait_for(f"killed {job.pid}")
        terminal.wait_until(lambda: not job.alive)


def test_keys_right_behind_the_one_that_suspends_do_not_answer(fakenvml: Path, job: Holder) -> None:
    with in_shell(fakenvml, PIDS=job.pid) as terminal:
        ask(terminal)
        terminal.send("\x1ayyy", then="Stopped")
        terminal.send("\x15fg\r", then="Kill PID ")
        terminal.settle(0.6)
        assert "Kill PID " in terminal.text
        assert job.alive


def test_another_key_suspends_where_it_types_nothing(fakenvml: Path, tmp_path: Path) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text('[keys]\n"screen.suspend" = ["B", "f9"]\n"process.kill" = []\n')
    with in_shell(fakenvml, config=settings) as terminal:
        terminal.send("/", "B", "ctrl+z", then="/B")
        stopped(terminal, "f9")
        terminal.send("fg\r", then="/B")
        terminal.settle(0.5)
        terminal.send("escape", then="q quit")
        terminal.send("h", then="close")
        stopped(terminal, "B")
        terminal.send("fg\r", then="close")


def test_what_was_pushed_is_popped_also_after_a_stop_that_gave_no_warning(fakenvml: Path) -> None:
    env = environment(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1)
    with Terminal([*GPUDASH, "--interval", "600"], env=env, columns=100, rows=30) as terminal:
        terminal.wait_for("q quit")
        before = terminal.idle(SECOND_SAMPLE)
        os.kill(terminal.pid, signal.SIGSTOP)
        terminal.wait_until(lambda: psutil.Process(terminal.pid).status() == psutil.STATUS_STOPPED)
        terminal.settle()
        count = len(terminal.raw)
        os.kill(terminal.pid, signal.SIGCONT)
        terminal.wait_until(lambda: len(terminal.raw) > count + 2000 and terminal.text == before)
        assert terminal.settle(0.3) == before
        assert terminal.quit() == 0
        pushed, popped = re.findall(rb"\x1b\[>\d+u", terminal.raw), terminal.raw.count(b"\x1b[<u")
        assert len(pushed) == popped == 2
