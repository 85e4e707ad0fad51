"""The terminal that the other tests stand on."""

from __future__ import annotations

import os
import sys

import pytest

from tests.e2e.emulation import Emulator
from tests.e2e.terminal import Terminal
from tests.waiting import all_end

PROGRAM = r"""
import os, signal, subprocess, sys, tty

def write(text):
    os.write(1, text.encode())

def size(*_):
    write("\x1b[5;1H%dx%d" % os.get_terminal_size(0))

tty.setcbreak(0)
signal.signal(signal.SIGWINCH, size)
subprocess.Popen(["sleep", "600"], start_new_session=True)
write("\x1b[?1049h\x1b[?25l\x1b[?2026$p\x1b[>25u\x1b[3;4Hhello 日本\x1b[3;1H\x1b[6n")
size()
while (keys := os.read(0, 100)) != b"q":
    write("\x1b[7;1H%r\x1b[K" % keys)
write("\x1b[?1049l\x1b[?25h")
sys.exit(3)
"""


def test_drives_a_program_in_a_pty() -> None:
    argv = [sys.executable, "-c", PROGRAM]
    with Terminal(argv, env=os.environ, columns=60, rows=20) as terminal:
        terminal.wait_for("   hello 日本")
        terminal.wait_for("60x20")
        terminal.wait_for(r"\x1b[?2026;2$y")
        terminal.wait_for(r"\x1b[3;1R")
        assert terminal.modes == {7, 1049}
        terminal.resize(100, 30)
        terminal.wait_for("100x30")
        terminal.click_on("hello")
        terminal.wait_for(r"\x1b[<0;6;3M\x1b[<0;6;3m")
        terminal.send("up")
        terminal.wait_for(r"\x1b[A")
        terminal.send("q")
        assert terminal.wait_exit() == 3
        assert terminal.modes == {7, 25}
        assert terminal.text.strip() == ""
        (orphan,) = terminal.processes()
    assert all_end([orphan])


def test_missing_text_is_an_error_that_shows_the_screen() -> None:
    with (
        Terminal([sys.executable, "-c", "print('all there is')"], env=os.environ) as terminal,
        pytest.raises(AssertionError, match="all there is"),
    ):
        terminal.wait_for("something else")


def test_sequences_cut_anywhere_are_understood() -> None:
    output = "\x1b[?2026$p\x1b[>25ux\x1b[38;2;1;2;3mé\x1b]0;title\x07\x1b[5by\x1b[c".encode()
    whole = Emulator(20, 2)
    answers = whole.feed(output)
    for cut in range(len(output)):
        parts = Emulator(20, 2)
        assert parts.feed(output[:cut]) + parts.feed(output[cut:]) == answers
        assert parts.text == whole.text == "xéééééé" + "y\n"
