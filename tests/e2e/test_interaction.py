"""Finding and configuring in a real pty, by keys and by mouse."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.e2e.forking import GPUDASH
from tests.e2e.screen import collectors, the_collector
from tests.e2e.terminal import Terminal


def demo(*arguments: str, size: tuple[int, int] = (100, 30), **env: str) -> Terminal:
    argv = [*GPUDASH, "--demo=dgx-h100", *arguments]
    return Terminal(argv, env={**os.environ, **env}, columns=size[0], rows=size[1])


def test_a_paste_escape_and_alt_are_told_apart_however_fast_they_are_typed() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("/\x1b[200~user:car\x1b[201~")
        terminal.wait_for("/ user:car")
        # Until the terminal's own answers have been read.
        terminal.settle()
        # Alt with a letter leaves what is typed alone.
        terminal.send("\x1bq", "ol")
        terminal.wait_for("/ user:carol")
        terminal.wait_for("2 of 8")
        terminal.send("enter", "d")
        terminal.wait_for("Encoder utilization")
        # Escape and a key are two keys.
        terminal.send("\x1bu")
        terminal.wait_for("IDLE-MEM")
        terminal.send("\x1b\x1b[B\x1bq")
        assert terminal.wait_exit() == 0


def test_mouse_sorts_selects_opens_and_presses_the_footer() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.settle()
        terminal.click_on("PID  USER")
        terminal.wait_for("▼PID")
        terminal.click_on("filter")
        terminal.wait_for("Enter apply")
        terminal.send("escape")
        terminal.wait_for("quit")
        terminal.settle()
        terminal.click_on("vllm")
        terminal.click_on("vllm")
        terminal.wait_for("q back")
        terminal.send("q")
        terminal.wait_for("q quit")
        terminal.click_on("sort")
        terminal.wait_for("Sort by")
        terminal.wheel(50, 15, 2)
        terminal.settle()
        terminal.click_on("resident memory")
        terminal.wait_for(lambda text: "Sort by" not in text)


def test_what_is_saved_comes_back_and_nothing_else_changes_the_file(config: Path) -> None:
    with demo() as terminal:
        terminal.wait_for("every 1s")
        collector = the_collector(terminal)
        terminal.send("r", "H", "+")
        terminal.wait_for(lambda text: "every 2s" in text and "LOAD" not in text)
        # Without a gap.
        assert collectors(terminal) == [collector]
        assert not re.search(b"NO COLLECTOR|STALE", terminal.raw)
        terminal.send("\x1b[24~")
        terminal.wait_for("saved")
        terminal.send("r", "+")
        terminal.wait_for("every 5s")
        terminal.hang_up()
        terminal.wait_until(lambda: not terminal.processes())
    text = config.read_text()
    assert 'hidden_panels = ["host"]' in text
    assert "interval = 2.0" in text
    config.write_text(f"read_only = true\n{text}")
    with demo() as terminal:
        terminal.wait_for(lambda text: "▲GPU-MEM" in text and "every 2s" in text)
        assert "LOAD" not in terminal.text
        assert "kill" not in terminal.lines[-1]
    options = ("--no-config", "--interval", "0.5", "--ascii")
    with demo(*options, GPUDASH_READ_ONLY="1") as terminal:
        terminal.wait_for(lambda text: "vGPU-MEM" in text and "every 0.5s" in text)
        assert "kill" not in terminal.lines[-1]
        terminal.send("K", "T", "I", "space", "h")
        terminal.wait_for("quit (also")
        terminal.settle()
        assert terminal.text.isascii()
        assert "signal" not in terminal.text.lower()
        terminal.send("escape")
        terminal.wait_for("every 0.5s")
        terminal.send("r", "q")
        assert terminal.wait_exit() == 0
    assert config.read_text() == f"read_only = true\n{text}"


def test_unknown_theme_is_one_line() -> None:
    with demo("--theme", "drak") as terminal:
        assert terminal.wait_exit() == 2
        assert "unknown theme 'drak': choose from dark" in terminal.text.replace("\n", "")
