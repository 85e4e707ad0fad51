"""Every view, dialog and prompt, reached by keys: sent again as a whole, no cell changes."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e

KEYS = {
    "cursor": ("down", "down", "up"),
    "views": ("d", "pagedown", "n", "escape", "u", "escape", "w", "escape", "m", "escape"),
    "process": ("enter", "escape"),
    "help": ("?", "pagedown", "escape"),
    "chooser": ("s", "down", "escape", "f2", "down", "escape"),
    "palette": (":", "k", "i", "escape"),
    "lists": ("g", "down", "escape", "C", "escape"),
    "filter": ("/", "a", "=", "backspace", "escape"),
    "kill": ("K", "escape"),
    "focus": ("tab", "down", "tab", "t", "p", "p"),
}
LOOKS = {
    "true colour": {"term": "xterm-256color", "truecolor": True},
    "256 colours": {"term": "xterm-256color"},
    "16 colours": {"term": "linux"},
    "old screen": {"term": "screen"},
}
WITHOUT_PARSER = (
    "import sys, gpudash.tui.keyboard as k; k.XTermParser = None;"
    "from gpudash.__main__ import main; sys.exit(main())"
)


def screen(library: Path, argv: list[str], **look: object) -> Terminal:
    env = environment(library, DEVICES=8, PROCS_PER_DEVICE=2)
    arguments = ["--no-config", "--interval", "600"]
    return Terminal([*argv, *arguments], env=env, columns=120, rows=40, **look)  # type: ignore[arg-type]


def cells(terminal: Terminal) -> list[list[tuple[object, ...]]]:
    """All cells; of a blank its background."""
    return [
        [
            (c.data, c.bg, c.fg, c.bold, c.underscore, c.reverse)
            if c.data.strip() or c.underscore or c.reverse
            else (" ", c.bg)
            for c in (terminal.screen.buffer[y][x] for x in range(terminal.screen.columns))
        ]
        for y in range(terminal.screen.lines)
    ]


def check(terminal: Terminal, keys: str) -> None:
    """Press keys; after each the whole screen is sent again, and no cell may change."""
    for key in [key for name in keys.split() for key in KEYS[name]]:
        count = len(terminal.raw)
        terminal.send(key)
        terminal.wait_until(lambda count=count: len(terminal.raw) > count)
        terminal.idle()
        before, lines, count = cells(terminal), terminal.lines, len(terminal.raw)
        os.kill(terminal.pid, signal.SIGWINCH)
        terminal.wait_until(lambda count=count: len(terminal.raw) > count + 300)
        terminal.idle()
        # Time moves a chart, its axis and what is beside it; their rows have another text then.
        moving = "┼" in terminal.text
        wrong = [
            lines[y]
            for y, (old, new) in enumerate(zip(before, cells(terminal), strict=True))
            if old != new and not (moving and lines[y] != terminal.lines[y])
        ]
        assert wrong == [], f"after {key} of {keys}:\n{terminal.text}"


@pytest.mark.parametrize(
    "keys",
    ["cursor process help chooser", "palette filter kill", "views", "lists", "focus"],
)
def test_a_redraw_changes_no_cell(fakenvml: Path, keys: str) -> None:
    with screen(fakenvml, [*GPUDASH], truecolor=True) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        check(terminal, keys)


@pytest.mark.parametrize(
    "look",
    [
        "16 colours",
        *(pytest.param(look, marks=pytest.mark.sweep) for look in LOOKS if "16" not in look),
    ],
)
def test_a_redraw_changes_no_cell_in_other_colours(fakenvml: Path, look: str) -> None:
    with screen(fakenvml, [*GPUDASH], **LOOKS[look]) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        check(terminal, "cursor chooser")


def test_without_colours(fakenvml: Path) -> None:
    with screen(fakenvml, ["env", "NO_COLOR=1", *GPUDASH]) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        check(terminal, "cursor")
        assert re.findall(rb"[34]8;[25];[\d;]*m", terminal.raw) == []
        check(terminal, "help")


def test_a_thread_reads_the_keys_where_the_parser_is_missing(fakenvml: Path) -> None:
    with screen(fakenvml, [sys.executable, "-c", WITHOUT_PARSER]) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        check(terminal, "chooser")
        terminal.send("q")
        assert terminal.wait_exit() == 0
        assert 1049 not in terminal.modes
