"""Calls into the driver that never come back: the prompt does, and so do the other GPUs."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from tests.e2e.forking import GPUDASH
from tests.fakenvml.build import environment
from tests.waiting import all_end, children_of, until

TIMEOUT = "2"
SOON = "4"
"""A timeout within which a test does something to the child, on however busy a machine."""
LATEST = 2 + 60.0
"""Seconds after which a look with that timeout must have answered."""


def at_work(parent: int) -> list[psutil.Process]:
    """Return the children once the first one has a thread that is in the driver."""
    children = children_of(parent)
    with suppress(psutil.NoSuchProcess):
        if children and children[0].num_threads() > 1:
            return children
    return []


@contextmanager
def hanging(
    library: Path, timeout: str, stderr: int = subprocess.DEVNULL
) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A look at a driver that does not even open, and the child that it waits for."""
    process = subprocess.Popen(
        [*GPUDASH, "--once", "--timeout", timeout],
        env=environment(library, HANG="nvmlInitWithFlags:*:inf"),
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
    )
    try:
        yield process, until(lambda: at_work(process.pid))
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def test_a_child_that_hangs_is_left_behind_and_ends(fakenvml: Path) -> None:
    with hanging(fakenvml, SOON) as (process, children):
        assert process.wait(LATEST) == 10
        assert all_end(children)


def test_who_only_waits_has_not_imported_psutil(fakenvml: Path) -> None:
    with hanging(fakenvml, "600") as (process, _):
        assert "psutil" not in Path(f"/proc/{process.pid}/maps").read_text()


def test_a_child_that_hangs_does_not_outlive_its_parent(fakenvml: Path) -> None:
    with hanging(fakenvml, "600") as (process, children):
        process.terminate()
        assert process.wait(LATEST) == -signal.SIGTERM
        assert all_end(children)


@pytest.mark.parametrize("command", ["record", "wait"])
def test_a_collector_that_hangs_does_not_outlive_who_is_killed(
    fakenvml: Path, tmp_path: Path, command: str
) -> None:
    words = [str(tmp_path / "host.jsonl")] if command == "record" else ["--min-free", "999GiB"]
    process = subprocess.Popen(
        [*GPUDASH, command, *words],
        env=environment(fakenvml, DEVICES=1, HANG="nvmlInitWithFlags:*:inf"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    collectors = until(lambda: at_work(process.pid))
    process.kill()
    process.wait()
    assert all_end(collectors)


def test_a_stopped_child_does_not_hold_the_prompt(fakenvml: Path) -> None:
    with hanging(fakenvml, SOON, subprocess.PIPE) as (process, children):
        children[0].send_signal(signal.SIGSTOP)
        _, error = process.communicate(timeout=LATEST + 5)
        assert process.returncode == 10
        assert error == f"gpudash: no answer in {SOON} s; --timeout waits longer\n"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGSEGV, "the driver's library crashed with SIGSEGV\n"),
        (signal.SIGKILL, "ended by SIGKILL; sudo dmesg shows whether memory was short\n"),
        (signal.SIGTERM, "ended by SIGTERM\n"),
        (signal.SIGRTMIN + 3, f"ended by signal {signal.SIGRTMIN + 3}\n"),
    ],
)
def test_how_a_child_ended_is_reported(fakenvml: Path, number: int, words: str) -> None:
    with hanging(fakenvml, "600", subprocess.PIPE) as (process, children):
        children[0].send_signal(number)
        _, error = process.communicate(timeout=LATEST)
        assert process.returncode == 128 + number
        assert error.endswith(words)
        assert error.count("\n") == 1
