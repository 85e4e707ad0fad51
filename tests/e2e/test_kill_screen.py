"""The kill flow in a real pty, on the stand-in library, against real processes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.actions.kill.family import DEAF_LAUNCHER, LAUNCHER, Family
from tests.e2e.killing import DEAF
from tests.e2e.run import GPUDASH, tell
from tests.e2e.screen import GUARD_SECONDS, answer_until, press_until
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder, pid_list
from tests.waiting import name_of, until

pytestmark = pytest.mark.e2e

Holders = Callable[..., list[Holder]]

OFFER_SECONDS = 1.5
"""More than a question that opens unasked ignores keys for."""

HOSTILE = "\x1b]0;owned\x07\x1b[31;5m\u202e[/x][@click=app.bell]\n"


SHORT = """
import sys
from gpudash import cli
from gpudash.actions.kill import run
run.TIMEOUTS = run.TIMEOUTS._replace(end=1.0, release=1, release_samples=2)
cli.main(sys.argv[1:])
"""
IMPATIENT = (sys.executable, "-c", SHORT)
"""The screen, which waits for a moment only."""


def watching(
    library: Path,
    *arguments: str,
    size: tuple[int, int] = (100, 30),
    program: Sequence[str] = GPUDASH,
    **told: Any,
) -> Terminal:
    argv = [*program, "--interval", "0.2", *arguments]
    env = environment(library, DEVICES=2, PROCS_PER_DEVICE=1, **told)
    return Terminal(argv, env=env, columns=size[0], rows=size[1])


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
        ask(terminal, "K", "Kill this process?")
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
        terminal.wait_for("Kill this process?")
        terminal.rest(GUARD_SECONDS)
        assert "Kill this process?" in terminal.text
        assert job.alive


def test_an_ignored_sigterm_is_followed_by_the_offer_of_sigkill(
    fakenvml: Path, holders: Holders
) -> None:
    (deaf,) = holders(1, DEAF)
    until(lambda: name_of(deaf.pid) == "sleep")
    with watching(fakenvml, program=IMPATIENT, PIDS=deaf.pid) as terminal:
        terminal.wait_for("sleep 600")
        ask(terminal, "T", "Terminate this process?")
        press_until(terminal, "y", lambda: "Terminate this" not in terminal.text)
        terminal.wait_for(re.compile(r"ignored SIGTERM for 1 s:?\s+send SIGKILL\?"))
        assert deaf.alive
        press_until(terminal, "y", lambda: not deaf.alive, OFFER_SECONDS)
        terminal.wait_for(f"killed {deaf.pid}")


def test_a_tree_whose_head_ignores_sigterm_is_offered_whole(fakenvml: Path) -> None:
    with Family(("sh", "-c", DEAF_LAUNCHER)) as family:
        family.started(3, sleepers=2)
        with watching(fakenvml, program=IMPATIENT, PIDS=family.pid) as terminal:
            terminal.wait_for(str(family.pid))
            ask(terminal, "T", "Terminate this process?")
            terminal.wait_for("[ ] with the children")
            answer_until(
                terminal,
                lambda: terminal.click_on("with the children"),
                lambda: "[x] with the children" in terminal.text,
            )
            press_until(terminal, "y", lambda: "Terminate this" not in terminal.text)
            (deaf,) = family.until(lambda left: len(left) == 2) - {family.pid}
            terminal.wait_for(re.compile(r"send SIGKILL\?.*\[x\] with the children", re.DOTALL))
            assert f"+ {deaf}" in terminal.text
            press_until(terminal, "y", lambda: not family.alive(), OFFER_SECONDS)
            terminal.wait_for(f"killed {family.pid}")


def test_a_tree_goes_by_a_click_on_its_box_and_on_the_button(fakenvml: Path) -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.started(2, sleepers=1)
        (worker,) = alive - {family.pid}
        with watching(fakenvml, PIDS=family.pid) as terminal:
            terminal.wait_for(str(family.pid))
            ask(terminal, "K", "Kill this process?")
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
                lambda: "Kill this process?" not in terminal.text,
            )
            terminal.wait_for("1 below it ended too")
            until(lambda: not family.alive())


def test_two_tagged_are_one_question_and_the_third_is_spared(
    fakenvml: Path, holders: Holders
) -> None:
    held = holders(3)
    told = {"DEVICES": 1, "PROCS_PER_DEVICE": 3, "PIDS": pid_list(held)}
    argv = [*GPUDASH, "--interval", "0.2"]
    with Terminal(argv, env=environment(fakenvml, **told), columns=100, rows=30) as terminal:
        terminal.wait_until(lambda: all(str(each.pid) in terminal.text for each in held))
        terminal.settle(0.05)
        terminal.send("home", "space", "space")
        dialog = ask(terminal, "K", "Kill these 2 processes?")
        asked = set(re.findall(r"(\d+) +\w+, started \w+ ago, [\d.]+ [GM]iB on GPU 0:", dialog))
        chosen = [each for each in held if str(each.pid) in asked]
        assert len(chosen) == 2
        press_until(terminal, "y", lambda: not any(each.alive for each in chosen))
        terminal.wait_for("2 of 2 processes ended after SIGKILL")
        assert sum(each.alive for each in held) == 1


def test_a_process_of_another_user_is_not_permitted(fakenvml: Path, holders: Holders) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    (job,) = holders(1)
    argv = [sys.executable, "-c", AS_NOBODY, "--interval", "0.2"]
    with Terminal(
        argv, env=environment(fakenvml, DEVICES=1, PROCS_PER_DEVICE=1, PIDS=job.pid), columns=120
    ) as terminal:
        terminal.wait_for(str(job.pid))
        dialog = ask(terminal, "K", "Kill this process?")
        assert "it is root's" in dialog
        press_until(terminal, "y", lambda: "Kill this" not in terminal.text)
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


def test_an_exit_while_the_dialog_is_open_leaves_only_close(
    fakenvml: Path, holders: Holders
) -> None:
    (job,) = holders(1)
    with watching(fakenvml, PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        ask(terminal, "K", "Kill this process?")
        job.end()
        terminal.wait_for("It has ended: there is nothing to signal")
        answer_until(
            terminal,
            lambda: terminal.click_on("Close  q"),
            lambda: "ended by itself; nothing was sent" in terminal.text,
        )


@pytest.mark.parametrize("key", ["K", "f9"])
def test_a_simulated_host_shows_the_reason_and_only_close(key: str) -> None:
    argv = [*GPUDASH, "--demo=pcie-1080ti"]
    with Terminal(argv, env=dict(os.environ), columns=80, rows=24) as terminal:
        terminal.wait_for("train_resnet")
        dialog = ask(terminal, key, "This process cannot be signalled")
        assert "the host is simulated: there is no process to signal" in dialog
        assert "on GPU 0-7" in dialog
        assert "Cancel" not in dialog
        press_until(terminal, "q", lambda: "cannot be signalled" not in terminal.text)


def test_a_hostile_command_line_is_text_in_dialog_and_outcome(
    fakenvml: Path, holders: Holders
) -> None:
    argv = (sys.executable, "-c", "import signal; signal.pause()", HOSTILE, "x" * 100_000)
    (job,) = holders(1, argv)
    with watching(fakenvml, PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        ask(terminal, "K", "Kill this process?")
        terminal.wait_for(r"\x1b]0;owned\x07")
        terminal.send("pagedown", "t", "right", "left")
        terminal.settle(0.1)
        press_until(terminal, "y", lambda: not job.alive)
        terminal.wait_for(f"killed {job.pid}")
        for forbidden in (b"\x1b]0;owned", b"\x1b[31;5m", "\u202e".encode()):
            assert forbidden not in terminal.raw


def test_the_dialog_survives_every_size(fakenvml: Path, holders: Holders) -> None:
    (job,) = holders(1)
    with watching(fakenvml, size=(200, 60), PIDS=job.pid) as terminal:
        terminal.wait_for(str(job.pid))
        ask(terminal, "K", "Kill this process?")
        for columns, rows in ((80, 24), (40, 10), (10, 3), (1, 1)):
            terminal.resize(columns, rows)
            terminal.settle(0.05)
        terminal.resize(200, 60)
        terminal.wait_for("Kill this process?")
        terminal.wait_for(str(job.pid))
        press_until(terminal, "n", lambda: "Kill this process?" not in terminal.text)
        terminal.send("q")
        assert terminal.wait_exit() == 0
        assert job.alive
