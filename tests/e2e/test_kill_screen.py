"""The kill flow in a real pty, on the stand-in library, against real processes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.actions.kill.family import LAUNCHER, Family
from tests.e2e.far_ssh import install
from tests.e2e.run import GPUDASH, tell
from tests.e2e.screen import GUARD_SECONDS, answer_until, press_until
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder
from tests.waiting import until

pytestmark = pytest.mark.e2e

Holders = Callable[..., list[Holder]]

HOSTILE = "\x1b]0;owned\x07\x1b[31;5m\u202e[/x][@click=app.bell]\n"


def watching(
    library: Path,
    *arguments: str,
    **told: Any,
) -> Terminal:
    argv = [*GPUDASH, "--interval", "0.2", *arguments]
    env = environment(library, DEVICES=2, PROCS_PER_DEVICE=1, **told)
    return Terminal(argv, env=env, columns=100, rows=30)


def ask(terminal: Terminal, key: str, title: str) -> str:
    """Open the dialog once there is something to select."""
    terminal.wait_for("C ")
    terminal.settle(0.05)
    terminal.send(key)
    return terminal.wait_for(title)


def test_a_kill_reports_what_the_driver_gave_back(
    fakenvml: Path, holders: Holders, tmp_path: Path
) -> None:
    (job,) = holders(1)
    control = tmp_path / "control"
    tell(control, PIDS=job.pid, LOAD="idle")
    with watching(fakenvml, CONTROL=control, PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        ask(terminal, "K", "Kill PID ")
        press_until(terminal, "y", lambda: not job.alive)
        tell(control, PROCS_PER_DEVICE=0, LOAD="idle")
        terminal.wait_for(re.compile(rf"killed {job.pid} .*: [\d.]+ [GM]iB freed on GPU 0-1"))
        terminal.send("down")
        terminal.wait_for(lambda text: "freed" not in text)


def test_keys_that_are_typed_ahead_do_not_answer(fakenvml: Path, holders: Holders) -> None:
    (job,) = holders(1)
    with watching(fakenvml, PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        terminal.settle(0.05)
        terminal.send("K", *["y"] * 20)
        terminal.wait_for("Kill PID ")
        terminal.rest(GUARD_SECONDS)
        assert "Kill PID " in terminal.text
        assert job.alive


def test_a_tree_goes_by_a_click_on_its_box_and_on_the_button(fakenvml: Path) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.started(2, sleepers=1)
        (worker,) = alive - {family.pid}
        with watching(fakenvml, PIDS=family.pid) as terminal:
            terminal.wait_for(str(family.pid))
            ask(terminal, "K", "Kill PID ")
            terminal.wait_for("[ ] with the children")
            terminal.settle()
            answer_until(
                terminal,
                lambda: terminal.click_on("with the children"),
                lambda: f"+ {worker}" in terminal.text,
            )
            answer_until(
                terminal,
                lambda: terminal.click_on("Kill  y"),
                lambda: "Kill PID " not in terminal.text,
            )
            terminal.wait_for("1 child ended too")
            until(lambda: not family.alive())


def test_a_process_of_another_user_is_not_permitted(fakenvml: Path, holders: Holders) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (job,) = holders(1)
    argv = [sys.executable, "-c", AS_NOBODY, "--interval", "0.2"]
    with Terminal(
        argv, env=environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid), columns=120
    ) as terminal:
        terminal.wait_for(str(job.pid))
        dialog = ask(terminal, "K", "Kill PID ")
        assert "it belongs to root" in dialog
        press_until(terminal, "y", lambda: "Kill PID " not in terminal.text)
        terminal.wait_for(f"not permitted: PID {job.pid} is owned by root; try sudo gpudash")
        assert job.alive


AS_NOBODY = """
# What is loaded late must be there before: another user may not read the modules.
import os, shlex, sys
from gpudash import cli
from gpudash.feed.live import LiveFeed
import gpudash.tui.first_frame, gpudash.tui.app, gpudash.tui.kill
start = LiveFeed.start
def start_and_fall(self):
    start(self)
    os.setuid(65534)
LiveFeed.start = start_and_fall
cli.main(sys.argv[1:])
"""


def test_why_a_kill_on_another_host_failed_stays_until_it_is_read(
    fakenvml: Path, tmp_path: Path
) -> None:
    env = environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=1)
    argv = [*GPUDASH, "--host", "gpu1"]
    with Terminal(argv, env={**env, **install(tmp_path)}, columns=100, rows=30) as terminal:
        terminal.wait_for("1 busy")
        terminal.settle(0.1)
        terminal.send("K")
        text = terminal.wait_for("Press Enter to return")
        assert "gpudash: PID 1 is init" in text
        terminal.send("enter")
        terminal.wait_for("not all ended on gpu1, or it was declined there")


def test_a_hostile_command_line_is_text_in_dialog_and_outcome(
    fakenvml: Path, holders: Holders
) -> None:
    argv = (sys.executable, "-c", "import signal; signal.pause()", HOSTILE, "x" * 100_000)
    (job,) = holders(1, argv)
    with watching(fakenvml, PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        ask(terminal, "K", "Kill PID ")
        terminal.wait_for(r"\x1b]0;owned\x07")
        terminal.send("pagedown", "t", "right", "left")
        terminal.settle(0.1)
        press_until(terminal, "y", lambda: not job.alive)
        terminal.wait_for(f"killed {job.pid}")
        for forbidden in (b"\x1b]0;owned", b"\x1b[31;5m", "\u202e".encode()):
            assert forbidden not in terminal.raw
