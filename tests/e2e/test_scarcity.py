"""A system that gives no more files, processes or threads: one line at the start, no end later."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from gpudash.wire import decode
from tests.e2e.run import GPUDASH, complete
from tests.e2e.terminal import Terminal
from tests.e2e.test_screen import collectors, watching
from tests.e2e.test_stream import streaming
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e

NOBODY = 65534
REFUSED = "gpudash: the system refuses: {}; ulimit -a shows the limits"


def limited(limit: str, argv: Sequence[str]) -> list[str]:
    """Return a command under a limit of the shell's ulimit."""
    return ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash", *argv]


@pytest.mark.parametrize("command", ["--once", "--list-gpus", "topo", "doctor"])
def test_without_files_to_open_it_ends_with_one_line(fakenvml: Path, command: str) -> None:
    run = subprocess.run(
        limited("-n 4", [*GPUDASH, command]),
        env=environment(fakenvml, DEVICES=2),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
        text=True,
    )
    assert run.returncode == 71
    assert run.stdout == ""
    assert run.stderr.startswith(REFUSED.format("Too many open files"))
    assert run.stderr.count("\n") == 1


def test_screen_without_files_to_open_leaves_the_terminal_as_it_was(fakenvml: Path) -> None:
    argv = limited("-n 5", [*GPUDASH, "--no-config"])
    with Terminal(argv, env=environment(fakenvml, DEVICES=2), columns=140) as terminal:
        assert terminal.wait_exit() == 71
        assert terminal.modes == {7, 25}
        assert terminal.text.strip().startswith(REFUSED.format("Too many open files"))
        assert "Traceback" not in terminal.text


def test_screen_waits_for_files_to_open_and_goes_on(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2, size=(140, 30)) as terminal:
        terminal.wait_until(lambda: 1000 in terminal.modes)
        terminal.wait_for(re.compile("LOAD|every"))
        terminal.settle(0.1)
        (first,) = collectors(terminal)
        before = resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        first.kill()
        terminal.wait_for("NO COLLECTOR")
        terminal.wait_for("Too many open files")
        assert "A100" in terminal.text
        resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE, before)
        terminal.wait_for(lambda text: "NO COLLECTOR" not in text and "too many" not in text)
        terminal.send("q")
        assert terminal.wait_exit(3) == 0


def test_stream_goes_on_without_files_to_open(fakenvml: Path) -> None:
    pids = os.getpid()
    with streaming(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=pids) as stream:
        # What is loaded in the second tick is there by then.
        for _ in range(12):
            assert stream.next().processes[0].name
        before = resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        for _ in range(12):
            starved = stream.next()
            assert all(complete(device) for device in starved.devices)
            assert starved.processes[0].used_gpu_memory_bytes
            assert starved.processes[0].hidden_reason in (None, "not shown by /proc")
        resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE, before)
        stream.until(lambda snapshot: snapshot.processes[0].name)
        stream.process.send_signal(signal.SIGTERM)
        _, errors = stream.process.communicate(timeout=10)
        assert errors == b""


class Nobody:
    """A user without rights, who runs gpudash under a limit."""

    def __init__(self, library: Path) -> None:
        packages = ":".join(path for path in sys.path if path)
        user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        self.argv = [*user, "/usr/bin/python3", "-m", "gpudash"]
        self.env = {**environment(library, DEVICES=2), "PYTHONPATH": packages}

    def run(self, *arguments: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
        """Run gpudash behind the words of another command, if any."""
        return subprocess.run(
            [*before, *self.argv, *arguments],
            env=self.env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            text=True,
        )

    def run_with(self, processes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run gpudash where it may start so many processes or threads."""
        others = sum(process.uids().real == NOBODY for process in psutil.process_iter())
        return self.run(*arguments, before=limited(f"-u {others + 1 + processes}", ()))


@pytest.fixture
def nobody(fakenvml: Path) -> Iterator[Nobody]:
    """Skips where that user cannot be, or cannot run a Python with the packages."""
    if os.geteuid():
        pytest.skip("only root may become another user")
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        user = Nobody(Path(shutil.copy(fakenvml, folder)))
        probe = user.run("--once")
        if probe.returncode:
            pytest.skip(f"nobody may not run a Python with the packages: {probe.stderr}")
        yield user


@pytest.mark.parametrize("command", [["--once", "--json"], ["doctor"], ["topo"]])
def test_without_a_process_to_start_it_ends_with_one_line(
    nobody: Nobody, command: list[str]
) -> None:
    run = nobody.run_with(0, *command)
    assert run.returncode == 71
    assert run.stderr.startswith(REFUSED.format("Resource temporarily unavailable"))
    assert run.stderr.count("\n") == 1


def test_without_a_thread_to_start_it_looks_on_the_one_it_has(nobody: Nobody) -> None:
    run = nobody.run_with(1, "--once", "--json")
    assert (run.returncode, run.stderr) == (0, "")
    assert [complete(device) for device in decode(run.stdout.encode()).devices] == [True, True]
