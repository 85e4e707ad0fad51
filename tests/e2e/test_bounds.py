"""Long command lines of many processes blind no screen, output or recording."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpudash.feed.recording.reader import Recording
from gpudash.model.text import wire_size
from tests.e2e.forking import GPUDASH, start
from tests.e2e.killing import command
from tests.e2e.run import Result, gpudash
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS

TABLE = [["--once"]]
NAMING = [*TABLE, ["--once", "--json=gpustat"], ["--query-compute-apps=pid,name", "--format=csv"]]
COUNTING = [["--format", "csv"], ["--format", "prometheus"]]
FEW, MANY = 128, 512
"""The fewest whose arguments would exceed what a reader takes, if all were in a document."""
ARGUMENTS = [b"\xff\x1b" * 2000 for _ in range(8)]
"""32 kB of bytes that take five times as much in JSON."""
DEADLINE = LIMIT_SECONDS


@contextmanager
def crowd(count: int) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Start processes with long command lines, which end with the pipe that they read."""
    read, write = os.pipe()
    started: list[subprocess.Popen[bytes]] = []
    try:
        for _ in range(count):
            argv = [b"sh", b"-c", b"read line", b"sh", *ARGUMENTS]
            started.append(subprocess.Popen(argv, stdin=read))
        yield {process.pid: process for process in started}
    finally:
        os.close(read)
        os.close(write)
        for process in started:
            process.kill()
            process.wait()


def settings(pids: Collection[int]) -> dict[str, object]:
    """What makes all of them use the only GPU of the stand-in."""
    return {"DEVICES": 1, "PROCS_PER_DEVICE": len(pids), "PIDS": ",".join(map(str, sorted(pids)))}


def record(path: Path, env: dict[str, str]) -> None:
    process = start([*GPUDASH, "record", str(path)], env, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + DEADLINE
    try:
        while not (path.exists() and path.stat().st_size):
            assert process.poll() is None
            assert time.monotonic() < deadline
            signal.sigtimedwait([], 0.02)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(DEADLINE)


@pytest.mark.parametrize(
    ("count", "naming", "counting"),
    [(FEW, TABLE, []), pytest.param(MANY, NAMING, COUNTING, marks=pytest.mark.sweep)],
)
def test_processes_with_long_arguments_are_named_and_worked_with_everywhere(
    fakenvml: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    naming: list[list[str]],
    counting: list[list[str]],
) -> None:
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path))
    with crowd(count) as started:
        pids = set(started)
        env = environment(fakenvml, **settings(pids))

        def run(*words: str) -> Result:
            return gpudash(*words, library=fakenvml, **settings(pids))

        snapshot = run("--once", "--json").snapshot
        assert {process.pid for process in snapshot.processes} == pids
        for process in snapshot.processes:
            assert 0 < sum(map(wire_size, process.command_line or ())) <= 4096
        for words in naming:
            assert pids <= set(map(int, re.findall(rb"\b\d+\b", run(*words).stdout))), words
        for words in counting:
            assert b"GPU-" in run(*words).stdout
        path = tmp_path / "long.gpudash"
        record(path, env)
        first = Recording(str(path)).first
        assert {process.pid for process in first.snapshot().processes} == pids
        with Terminal([*GPUDASH, "--no-config"], env=env, columns=160, rows=50) as terminal:
            terminal.wait_until(lambda: any(str(pid) in terminal.text for pid in pids), DEADLINE)
        shared = run("pick", "--share", "--max-util", "100", "--for", "0.1s")
        assert (shared.status, shared.text[:4]) == (0, "GPU-")
        (tmp_path / shared.text.strip()).touch()
        refused = run("run", "--for", "0.1s", "--", "true")
        assert (refused.status, refused.stdout) == (75, b"")
        assert re.search(rf"PID ({'|'.join(map(str, pids))})\b", refused.stderr)
        assert len(refused.stderr) < 1000
        pid, victim = max(started.items())
        argv = command(pid, yes=True, no_config=True)
        with start(argv, env, stdout=subprocess.PIPE) as kill:
            assert victim.wait(DEADLINE) == -signal.SIGTERM
            out, _ = kill.communicate(timeout=DEADLINE)
        assert kill.returncode == 0
        assert len(out) < 10_000
