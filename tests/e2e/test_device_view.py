"""The view of a device in a real pty: by keys, by mouse, and through any size."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.screen import watching
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment
from tests.holders import pid_list

pytestmark = pytest.mark.e2e


def demo(name: str, library: Path, size: tuple[int, int] = (120, 40)) -> Terminal:
    argv = [*GPUDASH, "--no-config", "--interval", "0.2", f"--demo={name}"]
    return Terminal(argv, env=environment(library), columns=size[0], rows=size[1])


def test_keys_chart_any_metric_of_any_gpu(fakenvml: Path) -> None:
    with demo("dgx-h100", fakenvml) as terminal:
        terminal.wait_for("train.py")
        terminal.send("d")
        terminal.wait_for("x explain")
        terminal.send("l")
        terminal.wait_for("─ Chart ")
        terminal.send(*"power usage")
        terminal.wait_for("power usage")
        terminal.send("enter")
        terminal.wait_for(re.compile(r"Power usage +[\d.]+ W +min \d+W"))
        terminal.send("a")
        terminal.wait_for(re.compile(r"(?m)^ GPU +0 \d+W +1 \d+W .*7 \d+W"))
        terminal.send("right", "r")
        terminal.wait_for("last 5m")
        terminal.send("z")
        terminal.wait_for(lambda text: "Encoder utilization" not in text)
        terminal.send("z", "q")
        terminal.wait_for("COMMAND")
        terminal.send("q")
        assert terminal.wait_exit() == 0


def test_a_gpu_that_does_not_answer_shows_who_held_it_and_when(fakenvml: Path) -> None:
    argv = [*GPUDASH, "--no-config", "--interval", "0.2"]
    hang = "nvmlDeviceGetPowerUsage:0:inf:3"
    variables = environment(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=os.getpid(), HANG=hang)
    with Terminal(argv, env=variables, columns=120, rows=40) as terminal:
        terminal.wait_for(re.compile(r"NO ANSWER  [\d.]+G/80\.0G \d+s ago; driver not ans"))
        terminal.send("d")
        terminal.wait_for("[1]")
        terminal.send("left")
        terminal.wait_for(re.compile(r"\d+s ago: [\d.]+G/80\.0G in use, by"))
        terminal.wait_for(f"(PID {os.getpid()}, ")


def test_mouse_chooses_gpu_and_metric(fakenvml: Path) -> None:
    with demo("dgx-h100", fakenvml) as terminal:
        terminal.wait_for("train.py")
        terminal.send("d")
        terminal.wait_for("x explain")
        terminal.click_on(" 6 ")
        terminal.wait_for("[6]")
        terminal.click_on("SM clock")
        terminal.wait_for(re.compile(r"SM clock +\d+ MHz +min"))
        below = terminal.lines[-2]
        terminal.wheel(10, 30, 3)
        terminal.wait_for(lambda text: text.split("\n")[-2] != below)
        assert "[6]" in terminal.lines[1]


@pytest.mark.parametrize(("gpus", "processes"), [(8, 0), (64, 2)])
def test_any_size_and_back(fakenvml: Path, holders: Any, gpus: int, processes: int) -> None:
    held = holders(processes)
    told: dict[str, Any] = {"DEVICES": gpus, "PROCS_PER_DEVICE": min(processes, 1)}
    with watching(
        fakenvml, size=(200, 60), **told, **({"PIDS": pid_list(held)} if held else {})
    ) as terminal:
        terminal.wait_for("A100")
        terminal.send("d", "a")
        terminal.wait_for("Utilization source")
        for columns, rows in ((40, 10), (10, 3), (1, 1), (80, 24), (200, 60)):
            terminal.resize(columns, rows)
            terminal.settle(0.05)
        terminal.wait_for("Utilization source")
        terminal.send("q", "q")
        assert terminal.wait_exit() == 0


def test_many_processes_leave_room_for_the_metrics(fakenvml: Path) -> None:
    with demo("many", fakenvml, (80, 24)) as terminal:
        terminal.wait_for("COMMAND")
        terminal.send("d")
        terminal.wait_for("Utilization")
        terminal.send("end")
        terminal.wait_for(re.compile(r"Not on this device|COMMAND|\d+ more"))
