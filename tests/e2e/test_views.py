"""The views in a real pty, by keys and by mouse, over a real collector and a real process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.screen import watching
from tests.e2e.terminal import Terminal
from tests.waiting import until

pytestmark = pytest.mark.e2e

SECRET = "hunter2-hunter2"
HOSTILE = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\u202e\n[/x]"
ENVIRONMENT = {"A_TOKEN": SECRET, "HOSTILE": HOSTILE, "ZZZ_LAST": "the-end"}


def demo() -> Terminal:
    argv = [*GPUDASH, "--no-config", "--interval", "0.2", "--demo=dgx-h100"]
    return Terminal(argv, env=os.environ, columns=120, rows=40)


def test_views_are_worked_by_keys() -> None:
    with demo() as terminal:
        terminal.wait_for("train.py")
        terminal.send("d")
        terminal.wait_for("x explain")
        terminal.send("l")
        terminal.wait_for("─ Chart ")
        terminal.send(*"power usage")
        terminal.wait_for("power usage")
        terminal.send("enter")
        terminal.wait_for(re.compile(r"Power usage +\d+W +min \d+W"))
        terminal.send("a")
        terminal.wait_for(re.compile(r"(?m)^ GPU +0 \d+W +1 \d+W .*7 \d+W"))
        terminal.send("q")
        terminal.wait_for("COMMAND")
        terminal.send("m")
        terminal.wait_for("P2P read")
        terminal.send("shift+tab")
        terminal.wait_for(re.compile(r"(?m)^ 0 +Y +Y "))
        terminal.send("q", "u")
        terminal.wait_for(re.compile(r"(?m)^ alice .*0-3 "))
        terminal.send("r")
        terminal.wait_for(re.compile(r"GPU-MEM.*\n dave"))
        terminal.send("home", "enter")
        terminal.wait_for('user="dave"')


def test_views_are_worked_by_mouse() -> None:
    with demo() as terminal:
        terminal.wait_for("train.py")
        terminal.wait_until(lambda: 1000 in terminal.modes)
        terminal.click_on(" d GPU")
        terminal.wait_for("x explain")
        terminal.click_on(" 6 ")
        terminal.wait_for("[6]")
        terminal.click_on("SM clock")
        terminal.wait_for(re.compile(r"SM clock +\d+MHz +min"))
        below = terminal.lines[-2]
        terminal.wheel(10, 30, 3)
        terminal.wait_for(lambda text: text.split("\n")[-2] != below)
        terminal.click_on("back")
        terminal.click_on(" links")
        terminal.click_on("P2P Y/N")
        terminal.wait_for(re.compile(r"(?m)^ 0 +Y +Y "))
        terminal.click_on("back")
        terminal.click_on(" users")
        terminal.click_on("IDLE-MEM")
        terminal.wait_for(re.compile(r"IDLE-MEM.*\n bob"))
        terminal.click_on("carol")
        terminal.wait_for('user="carol"')
        terminal.wait_for("2 of 8")


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


def test_a_real_process_is_shown_with_its_family_and_environment_and_stays_when_it_ends(
    fakenvml: Path, job: subprocess.Popen[bytes]
) -> None:
    told = {"DEVICES": 2, "PROCS_PER_DEVICE": 1, "PIDS": str(job.pid)}
    with watching(fakenvml, "--no-config", size=(100, 24), **told) as terminal:
        terminal.wait_for(str(job.pid))
        # Before keys are listened to.
        terminal.send("enter")
        terminal.wait_for("rss ")
        terminal.send("t")
        terminal.wait_for("sleep 601")
        terminal.click_on(" env")
        terminal.wait_for("A_TOKEN")
        assert "••••••" in terminal.text
        assert SECRET.encode() not in terminal.raw
        terminal.click_on("secrets")
        terminal.wait_for(SECRET)
        terminal.send("end")
        terminal.wait_for("the-end")
        terminal.wait_for("[/x]")
        terminal.wheel(10, 10, -20)
        terminal.wait_for("rss")
        job.kill()
        job.wait()
        terminal.wait_for("EXITED")
        terminal.send("K")
        terminal.settle(0.3)
        assert "EXITED" in terminal.text
        terminal.click_on(" back")
        terminal.wait_for("quit")
        for raw in (b"\x1b]52", b"\x1b]0;evil", "\u202e".encode()):
            assert raw not in terminal.raw
