"""Which of its standard streams a screen needs, and what it says where it cannot be."""

import os
import re
import sys
from pathlib import Path

import pytest

from tests.e2e.terminal import Terminal

_STYLE = re.compile(rb"\x1b\[([\d;]*)m")
GPUDASH = f"{sys.executable} -m gpudash --demo"


def shell(line: str) -> list[str]:
    return ["bash", "-c", line]


def test_a_screen_leaves_standard_error_to_a_file(tmp_path: Path) -> None:
    errors = tmp_path / "errors"
    with Terminal(shell(f"{GPUDASH} 2>{errors}"), env=os.environ) as terminal:
        terminal.wait_for("1 free")
        terminal.send("h", then="show all keys")
        terminal.send("q", then="1 free")
        assert terminal.quit() == 0
        assert terminal.modes == {7, 25}
    assert errors.read_bytes() == b""


@pytest.mark.parametrize(
    ("line", "term", "message"),
    [
        (f"{GPUDASH} </dev/null", "xterm-256color", "not a terminal: use gpudash --once"),
        (GPUDASH, "dumb", "TERM=dumb cannot show a screen: use gpudash --once"),
        (f"TERM= {GPUDASH}", "dumb", "TERM is not set: use gpudash --once"),
    ],
)
def test_where_no_screen_can_be_one_line_says_why(
    tmp_path: Path, line: str, term: str, message: str
) -> None:
    out = tmp_path / "out"
    out.touch()
    with Terminal(shell(f"set -o pipefail; {line}"), env=os.environ, term=term) as terminal:
        assert terminal.wait_exit() == 2
        assert terminal.text.strip() == f"gpudash: {message}"
        assert b"\x1b" not in terminal.raw
    assert out.read_bytes() == b""


def test_a_plain_terminal_gets_neither_colours_nor_unicode() -> None:
    env = {**os.environ, "LANG": "C.UTF-8"}
    with Terminal(shell(f"{GPUDASH} --no-config"), env=env, term="xterm-mono") as terminal:
        terminal.wait_for("1 free")
        terminal.send("h", then="show all keys")
        sent = bytes(terminal.raw)
    codes = {int(code) for found in _STYLE.findall(sent) for code in found.split(b";") if code}
    assert [code for code in codes if code >= 30] == []
    assert sent.isascii()
