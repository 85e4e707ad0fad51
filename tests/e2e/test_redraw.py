"""Another size, even of the same extent, has the whole screen sent again: no cell changes."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.e2e.emulation import cells
from tests.e2e.run import GPUDASH
from tests.e2e.terminal import Terminal
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e

WITHOUT_PARSER = (
    "import sys, gpudash.tui.keyboard as k; k.XTermParser = None;"
    "from gpudash.__main__ import main; sys.exit(main())"
)
"""Where Textual's parser is missing, a thread reads the keys."""


@pytest.mark.parametrize("program", [GPUDASH, (sys.executable, "-c", WITHOUT_PARSER)])
def test_a_redraw_changes_no_cell(fakenvml: Path, program: Sequence[str]) -> None:
    env = environment(fakenvml, DEVICES=8, PROCS_PER_DEVICE=2)
    argv = [*program, "--no-config", "--interval", "600"]
    with Terminal(argv, env=env, columns=120, rows=40, truecolor=True) as terminal:
        terminal.wait_for("q quit")
        terminal.idle(1.5)
        for key in ("down", "s", "escape"):
            count = len(terminal.raw)
            terminal.send(key)
            terminal.wait_until(lambda count=count: len(terminal.raw) > count)
            terminal.idle()
            before, count = cells(terminal.screen), len(terminal.raw)
            os.kill(terminal.pid, signal.SIGWINCH)
            terminal.wait_until(lambda count=count: len(terminal.raw) > count + 300)
            terminal.idle()
            assert cells(terminal.screen) == before, f"after {key}:\n{terminal.text}"
        terminal.send("q")
        assert terminal.wait_exit() == 0
        assert 1049 not in terminal.modes
