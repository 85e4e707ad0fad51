"""The live screen in a real pty, over a real collector on the stand-in library."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.run import no_library, tell
from tests.e2e.screen import (
    SIZES,
    STALE,
    Holders,
    collectors,
    press_until,
    shown_pids,
    the_collector,
    watching,
)
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import pid_list

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("size", SIZES)
def test_eight_gpus_leave_room_for_eight_processes(
    fakenvml: Path, holders: Holders, size: tuple[int, int]
) -> None:
    held = holders(30)
    told: dict[str, Any] = {"PROCS_PER_DEVICE": 4, "PIDS": pid_list(held)}
    with watching(fakenvml, size=size, **told) as terminal:
        least = 8 if size == SIZES[0] else 20
        terminal.wait_until(lambda: len(shown_pids(terminal, held)) >= least)
        terminal.settle(0.05)
        assert "sleep 600" in terminal.text
        assert len(terminal.lines) == size[1]
        for index in range(8):
            assert re.search(rf"(?m)^\W*(GPU ?)?{index}\b", terminal.text)


def test_numbers_move(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        row = re.compile(r"(?m)^.*A100.*$")
        before = row.findall(terminal.wait_for(row))
        terminal.wait_for(lambda text: row.findall(text) != before)


def test_quit_restores_the_terminal_and_leaves_nothing_behind(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        assert 1049 in terminal.modes
        terminal.send("q")
        assert terminal.wait_exit() == 0
        assert terminal.modes == {7, 25}
        assert terminal.text.strip() == ""
        terminal.wait_until(lambda: not terminal.processes())


PARTING = """
from textual.widgets import Static
from gpudash.tui.terminal import Terminal, TerminalApp

class Late(Static):
    def on_unmount(self):
        self.app.terminal.write("\\x1b[1;1Hlate")
        self.app.terminal.send()

class Parting(TerminalApp):
    def compose(self):
        yield Late("shown")

    def on_key(self):
        self.exit()

Parting(driver_class=Terminal).run()
"""
"""An app of which a widget draws while it closes, as what a timer had held back is."""


def test_nothing_is_drawn_once_the_terminal_is_given_back() -> None:
    argv = [sys.executable, "-c", PARTING]
    with Terminal(argv, env=dict(os.environ), columns=80, rows=24) as terminal:
        terminal.wait_for("shown")
        terminal.send("x")
        assert terminal.wait_exit() == 0
        assert terminal.text.strip() == ""


def test_key_pressed_before_anything_is_shown_is_obeyed(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.send("q")
        assert terminal.wait_exit() == 0


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_signal_ends_it_in_order(fakenvml: Path, number: signal.Signals, status: int) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        psutil.Process(terminal.pid).send_signal(number)
        assert terminal.wait_exit() in (status, -number, 0)
        terminal.wait_until(lambda: not terminal.processes())
        assert terminal.modes == {7, 25}


def test_vanished_terminal_leaves_no_process(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        terminal.hang_up()
        terminal.wait_until(lambda: not terminal.processes())


@pytest.mark.parametrize("is_first", [True, False])
def test_screen_that_is_killed_leaves_no_collector_that_hangs(
    fakenvml: Path, is_first: bool
) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        collector = the_collector(terminal)
        if not is_first:
            collector.kill()
            terminal.wait_until(lambda: collectors(terminal) not in ([], [collector]))
            collector = the_collector(terminal)
        # It would hear of the end of its reader only where it comes to write.
        collector.suspend()
        os.kill(terminal.pid, signal.SIGKILL)
        terminal.wait_until(lambda: not terminal.processes())


def test_collector_that_dies_is_replaced(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        first = the_collector(terminal)
        first.kill()
        terminal.wait_until(lambda: [p for p in collectors(terminal) if p.pid != first.pid])
        assert "A100" in terminal.text
        terminal.wait_for(lambda text: not STALE.search(text))


def test_lost_gpu_keeps_its_row(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    with watching(fakenvml, DEVICES=4, CONTROL=control) as terminal:
        terminal.wait_for("A100")
        tell(control, LOST=2)
        terminal.wait_for(re.compile(r"(?mi)^\W*(GPU ?)?2\b.*lost"))
        assert not re.search(r"(?mi)^\W*(GPU ?)?3\b.*lost", terminal.text)


def test_kill_takes_the_selected_process_and_only_that(fakenvml: Path, holders: Holders) -> None:
    held = holders(3)
    told: dict[str, Any] = {"DEVICES": 1, "PROCS_PER_DEVICE": 3, "PIDS": pid_list(held)}
    with watching(fakenvml, **told) as terminal:
        terminal.wait_until(lambda: len(shown_pids(terminal, held)) == 3)
        _ask_to_kill(terminal)
        dialog = terminal.wait_for(re.compile(r"frees\s+[\d.]+ [GM]iB on GPU 0"))
        asked = re.search(r"PID\s+(\d+)", dialog[dialog.index("Kill this process?") :])
        assert asked is not None
        chosen = next(holder for holder in held if holder.pid == int(asked[1]))
        press_until(terminal, "y", lambda: not chosen.alive)
        terminal.wait_for(re.compile(rf"killed.*{chosen.pid}|{chosen.pid}.*killed"))
        assert sum(holder.alive for holder in held) == 2


@pytest.mark.parametrize("answer", ["escape", "n", "enter"])
def test_kill_is_refused_by_default(fakenvml: Path, holders: Holders, answer: str) -> None:
    (holder,) = holders(1)
    with watching(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=holder.pid) as terminal:
        terminal.wait_for(str(holder.pid))
        _ask_to_kill(terminal)
        press_until(terminal, answer, lambda: "Kill this process?" not in terminal.text)
        assert holder.alive


def test_pause_freezes_the_picture(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    with watching(fakenvml, DEVICES=1, CONTROL=control) as terminal:
        terminal.wait_for("A100")
        terminal.send("p")
        terminal.wait_for(re.compile("paused", re.IGNORECASE))
        tell(control, LOST=0)
        terminal.settle(0.5)
        assert not re.search("lost", terminal.text, re.IGNORECASE)
        terminal.send("p")
        terminal.wait_for(re.compile("lost", re.IGNORECASE))


@pytest.mark.parametrize("gpus", [8, 64])
def test_any_size_and_back(fakenvml: Path, holders: Holders, gpus: int) -> None:
    held = holders(2)
    told: dict[str, Any] = {"DEVICES": gpus, "PROCS_PER_DEVICE": 1, "PIDS": pid_list(held)}
    with watching(fakenvml, size=(200, 60), **told) as terminal:
        terminal.wait_for(str(held[0].pid))
        sizes = ((40, 10), (10, 3), (3, 10), (1, 1), (1, 200), (60, 1), (80, 24), (200, 60))
        for columns, rows in sizes:
            terminal.resize(columns, rows)
            terminal.settle(0.05)
        terminal.wait_for(str(held[0].pid))
        terminal.wait_for("sleep 600")
        terminal.send("q")
        assert terminal.wait_exit() == 0


def test_hostile_command_line_never_reaches_the_terminal(fakenvml: Path, holders: Holders) -> None:
    hostile = "\x1b]0;owned\x07\x1b[31;5m\u202e[/x][@click=app.bell]\n"
    (holder,) = holders(1, (sys.executable, "-c", "import signal; signal.pause()", hostile))
    told: dict[str, Any] = {"DEVICES": 1, "PROCS_PER_DEVICE": 1, "PIDS": holder.pid}
    with watching(fakenvml, size=(200, 40), **told) as terminal:
        terminal.wait_for(str(holder.pid))
        terminal.wait_for(r"\x1b]0;owned\x07")
        _ask_to_kill(terminal)
        terminal.settle(0.05)
        for forbidden in (b"\x1b]0;owned", b"\x1b[31;5m", "\u202e".encode()):
            assert forbidden not in terminal.raw


def test_missing_driver_is_one_line_in_the_shell(tmp_path: Path) -> None:
    with watching(no_library(tmp_path)) as terminal:
        assert terminal.wait_exit() == 12
        assert terminal.modes == {7, 25}
        assert "--demo" in terminal.text
        assert "Traceback" not in terminal.text


@pytest.mark.parametrize("demo", ["mig", "laptop", "lost", "single"])
def test_simulated_hosts_are_shown_without_a_driver(tmp_path: Path, demo: str) -> None:
    with watching(no_library(tmp_path), f"--demo={demo}") as terminal:
        terminal.wait_for(re.compile(r"(?m)^\W*0\b.*(\d+C|asleep)"))
        terminal.wait_for("DEMO")
        terminal.send("q")
        assert terminal.wait_exit() == 0


def _ask_to_kill(terminal: Terminal) -> str:
    """Open the dialog on the selected process and return the screen."""
    terminal.send("K")
    return terminal.wait_for("Kill this process?")


@pytest.mark.parametrize("moment", ["gpudash.tui.overview:Overview", "textual.widget:Widget"])
def test_ends_quietly_when_it_is_given_to_while_it_starts(fakenvml: Path, moment: str) -> None:
    argv = [sys.executable, "-c", TOLD_WHILE_IT_STARTS, moment]
    with Terminal(argv, env=environment(fakenvml, DEVICES=2)) as terminal:
        assert terminal.wait_exit() == 128 + signal.SIGTERM
        assert terminal.text.strip() == ""
        assert terminal.modes == {7, 25}
        terminal.wait_until(lambda: not terminal.processes())


TOLD_WHILE_IT_STARTS = """
import importlib, os, signal, sys
from gpudash import cli

module, _, name = sys.argv.pop().partition(":")
widget = getattr(importlib.import_module(module), name)
compose = widget.compose

def told(self):
    widget.compose = compose
    os.kill(os.getpid(), signal.SIGTERM)
    return compose(self)

widget.compose = told
cli.main(["--no-config"])
"""
