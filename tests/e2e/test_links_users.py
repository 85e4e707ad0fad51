"""The views of the links and the users in a real pty, by keys and by mouse."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e


def showing(demo: str, *, columns: int = 80, rows: int = 24) -> Terminal:
    argv = [*GPUDASH, f"--demo={demo}", "--interval", "0.3"]
    return Terminal(argv, env=os.environ, columns=columns, rows=rows)


def opened(terminal: Terminal, key: str, awaited: str) -> None:
    terminal.wait_for("MEMORY")
    terminal.settle()
    terminal.send(key)
    terminal.wait_for(awaited)


def test_links_say_which_process_has_no_p2p() -> None:
    with showing("pcie-1080ti") as terminal:
        opened(terminal, "m", "P2P read")
        sentence = "bob's python (PID 20817) uses GPU 0-7: no P2P between GPU 0-3 and 4-7;"
        terminal.wait_for(lambda text: sentence in " ".join(text.split()))
        terminal.wait_for(re.compile(r"(?m)^ 4 +SYS +SYS +SYS +SYS +X"))


def test_matrices_are_chosen_by_key_and_by_mouse() -> None:
    with showing("pcie-1080ti") as terminal:
        opened(terminal, "m", "one PCIe switch at most")
        terminal.send("tab")
        terminal.wait_for("the chipset does not support it")
        terminal.click_on("P2P Y/N")
        terminal.wait_for(re.compile(r"(?m)^ 0 +Y +Y +Y +Y +N +N +N +N\b"))
        terminal.send("shift+tab")
        terminal.wait_for(re.compile(r"(?m)^ NS +not supported"))
        terminal.click_on("back")
        terminal.wait_for("COMMAND")


def test_links_of_sixty_four_gpus_survive_every_size() -> None:
    with showing("many", columns=200, rows=60) as terminal:
        opened(terminal, "m", "P2P read")
        terminal.wait_for("CPUS")
        terminal.resize(40, 10)
        # The lines of the old size are cut before those of the new one are drawn.
        terminal.wait_for(re.compile(r"(?m)^  links   P2P read.*\n.*\n.*\n GPU +0123456789"))
        terminal.send("pagedown")
        terminal.wait_for(lambda text: "P2P read" not in text)
        terminal.send(*["right"] * 8)
        terminal.wait_for(re.compile(r"(?m)^ +3{10}4{10}5{10}6666\n GPU +\d*0123$"))
        terminal.wheel(10, 5, -9)
        terminal.wait_for("P2P read")
        terminal.resize(200, 60)
        terminal.wait_for("CPUS")


def test_link_view_without_a_topology_says_so(fakenvml: Path) -> None:
    env = environment(fakenvml, DEVICES=0)
    with Terminal([*GPUDASH, "--interval", "0.3"], env=env, columns=80, rows=24) as terminal:
        terminal.wait_for("No GPUs")
        terminal.settle()
        terminal.send("m")
        terminal.wait_for("No topology: the driver does not report")
        terminal.send("q", "u")
        terminal.wait_for("No process uses a GPU")


def test_users_are_sorted_and_chosen_by_key() -> None:
    with showing("dgx-h100") as terminal:
        opened(terminal, "u", "IDLE-MEM")
        terminal.wait_for(re.compile(r"(?m)^ alice .*0-3 "))
        terminal.send("r")
        terminal.wait_for(re.compile(r"GPU-MEM.*\n dave"))
        terminal.send("home", "enter")
        terminal.wait_for('user="dave"')


def test_users_are_sorted_and_chosen_by_mouse() -> None:
    with showing("dgx-h100") as terminal:
        opened(terminal, "u", "IDLE-MEM")
        terminal.click_on("IDLE-MEM")
        terminal.wait_for(re.compile(r"IDLE-MEM.*\n bob"))
        terminal.click_on("carol")
        terminal.wait_for('user="carol"')
        terminal.wait_for("2 of 8")


def test_users_of_five_hundred_processes_survive_every_size() -> None:
    with showing("many", columns=200, rows=60) as terminal:
        opened(terminal, "u", "JOBS")
        terminal.wait_for(re.compile(r"(?m)^ all .* 500 "))
        terminal.resize(40, 10)
        terminal.wait_for(lambda text: "JOBS" not in text and " all" in text)
        terminal.resize(200, 60)
        terminal.wait_for("JOBS")
        terminal.send("q", "q")
        assert terminal.wait_exit() == 0
