"""The view of a real process in a real pty, by keys and by mouse, over a real collector."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.screen import watching
from tests.waiting import until

SECRET = "hunter2-hunter2"
HOSTILE = "\x1b]52;c;aGVsbG8=\x07\x1b[2J\u202e\n[/x]"
ENVIRONMENT = {"A_TOKEN": SECRET, "HOSTILE": HOSTILE, "ZZZ_LAST": "the-end"}


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
        terminal.send("home")
        terminal.wait_for("rss ")
        terminal.send("end")
        terminal.wait_for("the-end")
        terminal.wait_for("[/x]")
        terminal.wheel(10, 10, -20)
        terminal.wait_for("rss ")
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
