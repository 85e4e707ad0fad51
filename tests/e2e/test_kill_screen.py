import re
from pathlib import Path

from tests.e2e.far_ssh import install
from tests.e2e.forking import GPUDASH
from tests.e2e.run import tell
from tests.e2e.screen import press_until, watching
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import Holder


def test_a_kill_reports_what_the_driver_gave_back(
    fakenvml: Path, job: Holder, tmp_path: Path
) -> None:
    control = tmp_path / "control"
    tell(control, PIDS=job.pid, LOAD="idle")
    told = {"DEVICES": 2, "PROCS_PER_DEVICE": 1, "CONTROL": control, "PIDS": job.pid}
    with watching(fakenvml, size=(100, 30), **told) as terminal:
        terminal.wait_for(str(job.pid))
        terminal.settle(0.05)
        terminal.send("K", then="Kill PID ")
        press_until(terminal, "y", lambda: not job.alive)
        tell(control, PROCS_PER_DEVICE=0, LOAD="idle")
        terminal.wait_for(re.compile(rf"killed {job.pid} .*: [\d.]+ [GM]iB freed on GPU 0-1"))
        terminal.send("down", then=lambda text: "freed" not in text)


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
