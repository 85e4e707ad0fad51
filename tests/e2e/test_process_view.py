"""The view of one process in a real pty, over a real collector and a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.waiting import until

pytestmark = pytest.mark.e2e

SECRET = "hunter2-hunter2"
HOSTILE = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\u202e\n[/x]"
ENVIRONMENT = {
    "A_TOKEN": SECRET,
    "CUDA_VISIBLE_DEVICES": "1,0",
    "HOSTILE": HOSTILE,
    "ZZZ_LAST": "the-end",
}


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A process with a child, a secret and a hostile variable."""
    script = "import subprocess; subprocess.Popen(['sleep', '601']).wait()"
    argv = (sys.executable, "-c", script, "\x1b]0;evil\x07", "[/x]")
    with subprocess.Popen(argv, env=ENVIRONMENT, start_new_session=True) as process:
        folder = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(folder.read_text)
        yield process
        os.killpg(process.pid, 9)


def watching(
    library: Path, job: subprocess.Popen[bytes], size: tuple[int, int] = (80, 24)
) -> Terminal:
    told = {"DEVICES": 2, "PROCS_PER_DEVICE": 1, "PIDS": str(job.pid)}
    return Terminal(
        [*GPUDASH, "--interval", "0.2", "--no-config"],
        env=environment(library, **told),
        columns=size[0],
        rows=size[1],
    )


def listed(terminal: Terminal, job: subprocess.Popen[bytes]) -> None:
    """Wait until the process is in the overview and keys and mouse are listened to."""
    terminal.wait_for(str(job.pid))
    terminal.wait_until(lambda: 1000 in terminal.modes)


def test_opens_jumps_reveals_and_closes_by_keys(
    fakenvml: Path, job: subprocess.Popen[bytes]
) -> None:
    with watching(fakenvml, job) as terminal:
        listed(terminal, job)
        terminal.send("enter")
        terminal.wait_for("GPU MEMORY")
        terminal.send("t")
        terminal.wait_for("sleep 601")
        terminal.send("e")
        terminal.wait_for("A_TOKEN")
        assert "••••••" in terminal.text
        assert SECRET not in terminal.text
        terminal.send("x")
        terminal.wait_for(SECRET)
        terminal.send("x")
        terminal.wait_for("••••••")
        terminal.send("end")
        terminal.wait_for("the-end")
        terminal.send("home")
        terminal.wait_for("resident")
        # At the top already, where the environment was asked for: to the list.
        terminal.send("escape")
        terminal.wait_for("quit")


def test_enter_pressed_before_keys_are_listened_to_is_obeyed(
    fakenvml: Path, job: subprocess.Popen[bytes]
) -> None:
    with watching(fakenvml, job) as terminal:
        terminal.wait_for(str(job.pid))
        terminal.send("enter")
        terminal.wait_for("resident")


def test_is_worked_by_mouse(fakenvml: Path, job: subprocess.Popen[bytes]) -> None:
    with watching(fakenvml, job) as terminal:
        listed(terminal, job)
        terminal.click_on(" open")
        terminal.wait_for("resident")
        terminal.wait_for(" env")
        terminal.click_on(" env")
        terminal.wait_for("••••••")
        terminal.click_on("secrets")
        terminal.wait_for(SECRET)
        terminal.wheel(10, 10, -20)
        terminal.wait_for("resident")
        terminal.click_on(" back")
        terminal.wait_for("quit")


def test_hostile_arguments_and_variables_never_reach_the_terminal_raw(
    fakenvml: Path, job: subprocess.Popen[bytes]
) -> None:
    with watching(fakenvml, job, (160, 50)) as terminal:
        listed(terminal, job)
        terminal.send("e", "x")
        terminal.wait_for("HOSTILE")
        terminal.wait_for("[/x]")
        terminal.settle(0.05)
        for raw in (b"\x1b]52", b"\x1b]0;evil", "\u202e".encode()):
            assert raw not in terminal.raw


def test_survives_every_size(fakenvml: Path, job: subprocess.Popen[bytes]) -> None:
    with watching(fakenvml, job, (200, 60)) as terminal:
        listed(terminal, job)
        terminal.send("enter")
        terminal.wait_for("ENVIRONMENT")
        terminal.resize(40, 10)
        terminal.wait_for(lambda text: "ENVIRONMENT" not in text and "state" in text)
        terminal.resize(200, 60)
        terminal.wait_for("ENVIRONMENT")
        terminal.send("q")
        terminal.wait_for("quit")


def test_stays_when_the_process_ends(fakenvml: Path, job: subprocess.Popen[bytes]) -> None:
    with watching(fakenvml, job) as terminal:
        listed(terminal, job)
        terminal.send("enter")
        terminal.wait_for("resident")
        job.kill()
        job.wait()
        terminal.wait_for("EXITED")
        terminal.send("K")
        terminal.settle(0.3)
        assert "EXITED" in terminal.text
        terminal.send("q")
        terminal.wait_for("quit")
