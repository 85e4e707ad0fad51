"""The live screen while the driver hangs, goes, comes back and is let go of."""

import os
import re
import signal
from pathlib import Path

import psutil
import pytest

from tests.e2e.forking import GPUDASH
from tests.e2e.run import tell
from tests.e2e.screen import STALE, collectors, watching
from tests.e2e.stream import streaming, uses
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS

SILENT = re.compile(r"(?m)^ *1 .*NO ANSWER .*driver not answering (\d+) ")
HANG = "nvmlDeviceGetUtilizationRates:1:600"


def test_gpu_that_hangs_says_so_and_the_others_go_on(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    with watching(fakenvml, DEVICES=3, CONTROL=control) as terminal:
        terminal.wait_for("A100")
        tell(control, HANG=HANG)
        terminal.wait_for(SILENT)
        terminal.wait_for("1 NO ANSWER")
        assert not STALE.search(terminal.text)
        before = [line for line in terminal.lines if re.match(r" *[02] ", line)]
        terminal.wait_for(lambda text: all(line not in text for line in before))
        first = SILENT.search(terminal.text)
        assert first is not None
        terminal.wait_for(lambda text: (m := SILENT.search(text)) and m[1] != first[1])
        terminal.send("h", then="quit")
        terminal.send("escape")
        tell(control)
        terminal.wait_for(lambda text: "NO ANSWER" not in text and "A100" in text)
        tell(control, HANG=HANG)
        terminal.wait_for(SILENT)
        assert terminal.quit() == 0
        terminal.wait_until(lambda: not terminal.processes())


def test_driver_that_hangs_when_opened_is_reported_and_then_shown(
    fakenvml: Path, tmp_path: Path
) -> None:
    control = tmp_path / "control"
    tell(control, HANG="nvmlInitWithFlags:*:600")
    with watching(fakenvml, DEVICES=3, CONTROL=control) as terminal:
        terminal.wait_for(re.compile(r"reading GPUs, no answer for \d+s"))
        for words in ("driver not answering", "GPUs unknown", "Which processes run is not known"):
            terminal.wait_for(words)
        tell(control)
        terminal.wait_for("A100")
        terminal.wait_for(lambda text: "not answering" not in text)


def test_driver_goes_and_comes_back(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("container", "docker")
    control = tmp_path / "control"
    with watching(fakenvml, DEVICES=2, CONTROL=control, size=(140, 30)) as terminal:
        terminal.wait_for("A100")
        for code, told in (
            (9, "not loaded"),
            (999, "this container lost its access to the GPUs (NVML error 999); start it"),
        ):
            tell(control, INIT_ERR=code, FAIL="*:*:1")
            terminal.wait_for(told)
            terminal.wait_for("NO COLLECTOR")
            tell(control)
            terminal.wait_for(
                lambda text, told=told: "NO COLLECTOR" not in text and told not in text
            )
            assert "A100" in terminal.text


def release(terminal: Terminal, way: str) -> None:
    if way == "key":
        is_detached = "DETACHED" in terminal.text
        terminal.send("X")
        if not is_detached:
            terminal.wait_for("Detach from the driver?")
            terminal.send("y")
    else:
        os.kill(terminal.pid, signal.SIGUSR1)


def test_gpus_are_let_go_of_and_taken_back_while_a_call_hangs_too(
    fakenvml: Path, tmp_path: Path
) -> None:
    device, control = tmp_path / "nvidia0", tmp_path / "control"
    device.touch()
    with watching(fakenvml, DEVICES=2, HOLD=device, CONTROL=control) as terminal:
        terminal.wait_for("A100")
        for way in ("key", "signal"):
            assert uses(device, *terminal.processes())
            release(terminal, way)
            terminal.wait_for("detached from the driver: X reattaches")
            terminal.wait_for("DETACHED")
            terminal.wait_until(lambda: not uses(device, *terminal.processes()))
            terminal.wait_until(lambda: collectors(terminal) == [])
            assert "A100" in terminal.text
            tell(control)
            release(terminal, way)
            terminal.wait_for(
                lambda text: not re.search("DETACHED|detached|NO ANSWER|not answering", text)
            )
            terminal.wait_until(lambda: uses(device, *terminal.processes()))
            tell(control, HANG=HANG)
            terminal.wait_for(SILENT)


def test_stream_that_cannot_let_go_says_so_and_ends(fakenvml: Path, tmp_path: Path) -> None:
    device = tmp_path / "nvidia0"
    device.touch()
    with streaming(fakenvml, DEVICES=2, HOLD=device, HANG=HANG) as stream:
        stream.until(lambda snapshot: snapshot.devices[1].state == "not-answering")
        process = psutil.Process(stream.process.pid)
        assert uses(device, process)
        process.send_signal(signal.SIGUSR1)
        _, errors = stream.process.communicate(timeout=LIMIT_SECONDS)
        assert stream.process.returncode == 10
        assert errors == b"gpudash: a call hangs in the driver, which keeps the GPUs\n"


def test_second_sample_comes_soon_for_the_sake_of_rates(fakenvml: Path) -> None:
    with streaming(fakenvml, "--interval", "3600", DEVICES=1) as stream:
        first = stream.next()
        second = stream.next()
        assert 0 < (second.taken_at - first.taken_at).total_seconds() < 600
        assert second.host.cpu_percent is not None


def in_shell(library: Path, line: str) -> Terminal:
    """Return a terminal with a shell that runs gpudash as people do."""
    shell = ["bash", "--norc", "--noprofile", "-i"]
    terminal = Terminal(shell, env=environment(library, DEVICES=2))
    terminal.send(line.format(" ".join(GPUDASH)) + "\r")
    return terminal


def test_vanished_terminal_ends_it_though_hang_ups_are_ignored(fakenvml: Path) -> None:
    with in_shell(fakenvml, "trap '' HUP; exec {}") as terminal:
        terminal.wait_for("q quit")
        terminal.hang_up()
        terminal.wait_until(lambda: not terminal.processes())
