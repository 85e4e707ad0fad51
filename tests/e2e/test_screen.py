import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.emulation import cells
from tests.e2e.run import no_library
from tests.e2e.screen import STALE, collectors, shown_pids, the_collector, watching
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holders, pid_list


def test_eight_gpus_leave_room_for_processes_and_quit_restores_the_terminal(
    fakenvml: Path, holders: Holders
) -> None:
    held = holders(30)
    told: dict[str, Any] = {"PROCS_PER_DEVICE": 4, "PIDS": pid_list(held)}
    with watching(fakenvml, **told) as terminal:
        for size, count in (((80, 24), 8), ((1, 1), 0), ((140, 40), 20)):
            terminal.resize(*size)
            terminal.wait_until(lambda count=count: len(shown_pids(terminal, held)) >= count)
            terminal.settle(0.05)
            assert len(terminal.lines) == size[1]
            if count:
                assert "sleep 600" in terminal.text
                for index in range(8):
                    assert re.search(rf"(?m)^ *{index}\b", terminal.text)
        row = re.compile(r"(?m)^.*A100.*$")
        before = row.findall(terminal.text)
        terminal.wait_for(lambda text: row.findall(text) not in ([], before))
        assert 1049 in terminal.modes
        assert terminal.quit() == 0
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
        assert terminal.quit() == 0


def test_collector_that_dies_is_replaced_and_none_outlives_the_screen(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        first = the_collector(terminal)
        first.kill()
        terminal.wait_until(lambda: collectors(terminal) not in ([], [first]))
        assert "A100" in terminal.text
        terminal.wait_for(lambda text: not STALE.search(text))
        kill_both(terminal)


def test_first_collector_does_not_outlive_the_screen(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2) as terminal:
        terminal.wait_for("A100")
        kill_both(terminal)


def kill_both(terminal: Terminal) -> None:
    """Kill the screen while its collector hangs, which ends, too."""
    # It would hear of the end of its reader only where it comes to write.
    the_collector(terminal).suspend()
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.wait_until(lambda: not terminal.processes())


def test_missing_driver_is_one_line_in_the_shell(tmp_path: Path) -> None:
    with watching(no_library(tmp_path)) as terminal:
        assert terminal.wait_exit() == 12
        assert terminal.modes == {7, 25}
        assert "--demo" in terminal.text
        assert "Traceback" not in terminal.text


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


WITHOUT_PARSER = (
    "import sys, gpudash.tui.keyboard as k; k.XTermParser = None;"
    "from gpudash.__main__ import main; sys.exit(main())"
)
"""Where Textual's parser is missing, a thread reads the keys."""


def test_a_redraw_changes_no_cell(fakenvml: Path) -> None:
    env = environment(fakenvml, DEVICES=8, PROCS_PER_DEVICE=2)
    argv = [sys.executable, "-c", WITHOUT_PARSER, "--no-config", "--interval", "600"]
    with Terminal(argv, env=env, columns=120, rows=40, truecolor=True) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        for key in ("down", "s", "escape"):
            count = len(terminal.raw)
            terminal.send(key)
            terminal.wait_until(lambda count=count: len(terminal.raw) > count)
            terminal.idle()
            before, count = cells(terminal.screen), len(terminal.raw)
            os.kill(terminal.pid, signal.SIGWINCH)
            terminal.wait_until(lambda count=count: len(terminal.raw) > count + 300)
            terminal.idle()
            assert cells(terminal.screen) == before, f"after {key}:\n{terminal.text}"
        assert terminal.quit() == 0
        assert 1049 not in terminal.modes
