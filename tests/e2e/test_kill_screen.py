"""The kill flow in a real pty, on the stand-in library, against real processes."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.far_ssh import install
from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment


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
