"""All that may go wrong around one look: status, the one line, the time, and what stays whole."""

import os
import re
import subprocess
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode
from tests.e2e.faults import BEYOND, BROKEN, DEVICES, FAULTS
from tests.e2e.forking import GPUDASH, run
from tests.e2e.run import complete, each_of
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment


def test_one_look(fakenvml: Path) -> None:
    lines = [(f"--once --json --timeout {each.timeout:g}", each.told) for each in FAULTS.values()]
    found = each_of(lines, fakenvml, DEVICES=DEVICES)
    for (name, fault), (status, text, errors) in zip(FAULTS.items(), found, strict=True):
        assert (status, errors.count("\n")) == (fault.status, bool(fault.line)), name
        assert re.search(fault.line, errors), name
        assert bool(text) == fault.document, name
        if fault.document:
            snapshot = decode(text.encode())
            healthy_but(snapshot, BROKEN, fault.state)
            assert not fault.error or any(
                re.search(fault.error, error.message) for error in snapshot.errors
            ), name


def healthy_but(snapshot: Snapshot, broken: int, state: str) -> None:
    """Assert that all GPUs have a row, that one is in a state and that the others are complete."""
    assert [device.index for device in snapshot.devices] == [*range(DEVICES)]
    assert snapshot.devices[broken].state == state
    if state != "ok":
        assert snapshot.devices[broken].gpu_utilization_percent is None
        assert snapshot.devices[broken].fault is not None
    assert all(complete(device) for device in snapshot.devices if device.index != broken)


class Surroundings(NamedTuple):
    """A shell line in which `{}` is gpudash, and what it must come to."""

    line: str
    status: int
    error: str = ""
    environ: Mapping[str, str] = {}
    without: Collection[str] = ()
    document: bool = False


ALL_AROUND = {
    "reader is gone": Surroundings("{} --once --json | true; exit ${{PIPESTATUS[0]}}", 141),
    "disk is full": Surroundings("{} --once >/dev/full", 74, "could not be written"),
    "stdout is closed": Surroundings("{} --once >&-", 74, "could not be written"),
    "stdin is closed": Surroundings("{} --once --json <&-", 0, document=True),
    "all are closed": Surroundings("{} --once >&- 2>&- <&-", 74),
    "a screen with stdin closed": Surroundings("{} <&-", 0),
    "TERM is not set": Surroundings("{} --once --json", 0, without=("TERM",), document=True),
    "a container lost its GPUs": Surroundings(
        "{} --once",
        231,
        "this container lost its access to the GPUs (NVML error 999); start it again",
        environ={"container": "docker", "FAKENVML_INIT_ERR": "999"},
    ),
}


@pytest.mark.parametrize("name", ALL_AROUND)
def test_one_look_in_odd_surroundings(fakenvml: Path, name: str) -> None:
    around = ALL_AROUND[name]
    env = {**environment(fakenvml, DEVICES=DEVICES), **around.environ}
    start = time.monotonic()
    argv = ["bash", "-c", around.line.format(" ".join(GPUDASH))]
    done = run(argv, {key: value for key, value in env.items() if key not in around.without})
    assert done.returncode == around.status
    assert time.monotonic() - start < BEYOND
    assert done.stderr.count("\n") == bool(around.error)
    assert around.error in done.stderr
    if around.document:
        healthy_but(decode(done.stdout.encode()), BROKEN, "ok")


@pytest.mark.parametrize("arguments", [("--once",), ()])
def test_a_terminal_that_never_answers_is_not_waited_for(
    fakenvml: Path, arguments: tuple[str, ...]
) -> None:
    argv = [*GPUDASH, *arguments]
    with Terminal(argv, env=environment(fakenvml, DEVICES=2), mute=True) as terminal:
        terminal.wait_for("A100", BEYOND)
        if arguments:
            assert terminal.wait_exit(BEYOND) == 0
            assert not re.search(rb"\x1b\[[0-9;?>]*[cn]|\x1bP", bytes(terminal.raw))
        else:
            terminal.wait_for("q quit", BEYOND)
            terminal.send("q")
            assert terminal.wait_exit(BEYOND) == 0


def test_gpus_are_shown_without_proc(fakenvml: Path) -> None:
    argv = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    if os.geteuid() or subprocess.run([*argv, "true"], capture_output=True).returncode:
        pytest.skip("may not make a mount namespace")
    env = environment(fakenvml, DEVICES=DEVICES, PROCS_PER_DEVICE=1)
    done = run([*argv, *GPUDASH, "--once", "--json"], env)
    assert (done.returncode, done.stderr) == (0, "")
    snapshot = decode(done.stdout.encode())
    healthy_but(snapshot, BROKEN, "ok")
    assert len(snapshot.processes) == DEVICES
    assert all(process.hidden_reason for process in snapshot.processes)
