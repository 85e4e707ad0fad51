"""Finding and configuring in a real pty, by keys and by mouse."""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.screen import collectors, the_collector
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e


def demo(
    *arguments: str, name: str = "dgx-h100", size: tuple[int, int] = (100, 30), **env: str
) -> Terminal:
    argv = [sys.executable, "-m", "gpudash", f"--demo={name}", *arguments]
    return Terminal(argv, env={**os.environ, **env}, columns=size[0], rows=size[1])


def row(terminal: Terminal, pattern: str) -> int:
    """The number of the first line that fits."""
    for number, line in enumerate(terminal.lines):
        if re.search(pattern, line):
            return number
    raise AssertionError(f"{pattern!r} is not on the screen:\n{terminal.text}")


def test_filter_is_typed_kept_and_cleared() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("/", *"user:alice gpu:")
        terminal.wait_for(r"is incomplete")
        terminal.send(*"0-1")
        terminal.wait_for("2 of 8")
        terminal.send("enter")
        terminal.wait_for(lambda text: "/user:alice gpu:0-1" in text and "quit" in text)
        assert "vllm" not in terminal.text
        terminal.send("escape")
        terminal.wait_for("vllm")


def test_filter_survives_every_size() -> None:
    with demo(size=(200, 60)) as terminal:
        terminal.wait_for("vllm")
        terminal.send("/", *"alice", "enter")
        terminal.wait_for("4 of 8")
        for columns, rows in [(40, 10), (1, 1), (80, 24), (200, 60)]:
            terminal.resize(columns, rows)
            terminal.settle()
        terminal.wait_for(lambda text: "/alice" in text and "4 of 8" in text)


def test_palette_help_and_tags_by_keys() -> None:
    with demo(size=(80, 24)) as terminal:
        terminal.wait_for("quit")
        terminal.send("space", "space")
        terminal.wait_for("2 tagged")
        terminal.send(":", *"freeze")
        terminal.wait_for("Freeze the screen")
        terminal.send("enter")
        terminal.wait_for("PAUSED")
        terminal.send("h")
        terminal.wait_for("quit (also")
        terminal.send("pagedown", "pagedown", "pagedown")
        terminal.wait_for("idle>10m")
        terminal.send("q")
        terminal.wait_for(lambda text: "idle>10m" not in text)


def test_mouse_sorts_selects_opens_and_presses_the_footer() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.settle()
        heading = row(terminal, "PID")
        terminal.click(terminal.lines[heading].index("PID") + 1, heading)
        terminal.wait_for("▼PID")
        terminal.click_on("filter")
        terminal.wait_for("Enter keep")
        terminal.send("escape")
        terminal.wait_for("quit")
        terminal.settle()
        y = row(terminal, "vllm")
        terminal.click(5, y)
        terminal.click(5, y)
        terminal.wait_for("q back")
        terminal.send("q")
        terminal.wait_for("q quit")
        terminal.click_on("sort")
        terminal.wait_for("Sort by")
        terminal.wheel(50, 15, 2)
        terminal.settle()
        terminal.click_on("resident memory")
        terminal.wait_for(lambda text: "Sort by" not in text)


def test_digits_hide_gpus() -> None:
    with demo(size=(140, 40)) as terminal:
        terminal.wait_for("vllm")
        terminal.send(*"0123")
        terminal.wait_for("GPU 4-7 of 8")
        terminal.wait_for(lambda text: "alice" not in text)
        terminal.send("escape")
        terminal.wait_for("alice")


def test_copy_reaches_the_terminal_as_osc_52() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.settle()
        pid = terminal.lines[row(terminal, "alice")].split()[0]
        terminal.send("y")
        terminal.wait_for("copied the PID")
        assert f"\x1b]52;c;{base64.b64encode(pid.encode()).decode()}\x07".encode() in terminal.raw


def test_interval_changes_without_a_gap() -> None:
    with demo("-l", "2") as terminal:
        terminal.wait_for("every 2s")
        collector = the_collector(terminal)
        terminal.send("-")
        terminal.wait_for("every 1s")
        terminal.send("-")
        terminal.wait_for("every 0.5s")
        assert collectors(terminal) == [collector]
        assert "NO COLLECTOR" not in terminal.raw.decode()
        assert "STALE" not in terminal.raw.decode()


def test_what_keys_changed_comes_back_only_if_it_was_saved(config: Path) -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("r", "H", "+")
        terminal.wait_for("every 2s")
        terminal.send("q")
        terminal.wait_exit()
    assert not config.exists()
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("s")
        terminal.wait_for("Sort by")
        terminal.send("home", "enter")
        terminal.wait_for(lambda text: "Sort by" not in text)
        terminal.send("r", "H", "+")
        terminal.wait_for("every 2s")
        terminal.send("\x1b[24~")
        terminal.wait_for("saved")
        terminal.send("q")
        terminal.wait_exit()
    text = config.read_text()
    assert 'sort = "pid"' in text
    assert "interval = 2.0" in text
    with demo() as terminal:
        terminal.wait_for(lambda text: "▲PID" in text and "every 2s" in text)
        assert "LOAD" not in terminal.text
    with demo("--no-config", "--interval", "0.5") as terminal:
        terminal.wait_for(lambda text: "▼GPU-MEM" in text and "every 0.5s" in text)
        terminal.send("r", "q")
        terminal.wait_exit()
    assert config.read_text() == text


def test_change_right_before_the_connection_drops_is_saved(config: Path) -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("H")
        terminal.wait_for(lambda text: "LOAD" not in text)
        terminal.send("\x1b[24~")
        terminal.wait_for("saved")
        terminal.hang_up()
        terminal.wait_exit()
    assert 'hidden_panels = ["host"]' in config.read_text()


def test_a_mistake_in_the_settings_is_said(config: Path) -> None:
    config.parent.mkdir()
    config.write_text('sort = "pidd"\n')
    with demo(size=(200, 30)) as terminal:
        terminal.wait_for("did you mean pid")
        assert "vllm" in terminal.text or terminal.wait_for("vllm")


def test_unknown_theme_is_one_line() -> None:
    with demo("--theme", "drak") as terminal:
        assert terminal.wait_exit() == 2
        assert "unknown theme 'drak': choose from dark" in terminal.text.replace("\n", "")


@pytest.mark.parametrize("how", ["option", "variable", "settings"])
def test_read_only_offers_no_kill(how: str, config: Path) -> None:
    config.parent.mkdir()
    config.write_text(f"read_only = {str(how == 'settings').lower()}\n")
    env = {"GPUDASH_READ_ONLY": "1"} if how == "variable" else {}
    arguments = ["--read-only"] if how == "option" else []
    with demo(*arguments, **env) as terminal:
        terminal.wait_for("quit")
        assert "kill" not in terminal.lines[-1]
        terminal.send("K", "T", "I")
        terminal.send("p")
        terminal.wait_for("PAUSED")
        assert "refused" not in terminal.text
        assert "signal" not in terminal.text.lower()


def test_ascii_draws_with_ascii() -> None:
    with demo("--ascii", size=(140, 40)) as terminal:
        terminal.wait_for("vllm")
        terminal.send("space", "h")
        terminal.wait_for("quit (also")
        terminal.settle()
        assert [char for char in terminal.text if not char.isascii()] == []


def test_text_pasted_right_behind_the_key_that_asks_for_it_is_taken() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("/\x1b[200~user:carol\x1b[201~")
        terminal.wait_for("/ user:carol")
        terminal.wait_for("2 of 8")


def test_escape_and_a_key_typed_in_one_go_are_two_keys() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("d")
        terminal.wait_for("Encoder utilization")
        terminal.send("\x1bu")
        terminal.wait_for("IDLE-MEM")
        terminal.send("\x1b\x1b[B\x1bq")
        assert terminal.wait_exit() == 0


def test_alt_with_a_letter_leaves_what_is_typed_alone() -> None:
    with demo() as terminal:
        terminal.wait_for("vllm")
        terminal.send("/", *"user:ali")
        terminal.wait_for("user:ali")
        terminal.send("\x1bq", "ce")
        terminal.wait_for("user:alice")
