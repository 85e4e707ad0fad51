"""The screen over a link that carries 10 KB a second, half of what it would send without care."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from tests.e2e.run import GPUDASH
from tests.e2e.slow import SlowTerminal
from tests.fakenvml.build import environment

pytestmark = pytest.mark.e2e

INTERVAL = 0.1
LINK = 10_000
CLOCK_SECONDS = 1.0
"""What the clock of the header leaves out."""
FRAME_SECONDS = 1.2
"""What may be on its way: 4 KB that were not seen yet, one frame, and the machine's pauses."""
LIMIT = CLOCK_SECONDS + INTERVAL + FRAME_SECONDS
DEAF_SECONDS = 1.0
"""What the kernel holds back where the terminal does not answer: 12 KB."""

PLACES = {
    "overview": ((), "A100"),
    "view": (("d",), "GPU utilization"),
    "dialog": (("f2",), "Colours"),
}


def slow(library: Path, **kind: bool) -> SlowTerminal:
    argv = [*GPUDASH, "--no-config", "--interval", str(INTERVAL)]
    env = environment(library, DEVICES=64)
    size = {"columns": 160, "rows": 50, "truecolor": True}
    return SlowTerminal(argv, env=env, bytes_per_second=LINK, **size, **kind)


def go(terminal: SlowTerminal, place: str, limit: float = LIMIT) -> None:
    """Go somewhere and wait until the screen, sent whole for it, has arrived."""
    keys, mark = PLACES[place]
    terminal.wait_for(lambda text: "quit" in text and terminal.age < limit, 30)
    terminal.send(*keys)
    terminal.wait_for(lambda text: mark in text and terminal.age < limit, 30)
    terminal.oldest(FRAME_SECONDS)
    terminal.wait_for(lambda text: terminal.age < limit, 30)


def answer_seconds(terminal: SlowTerminal, key: str, seen: re.Pattern[str]) -> float:
    start = time.monotonic()
    terminal.send(key)
    terminal.wait_for(seen)
    return time.monotonic() - start


@pytest.mark.parametrize("place", PLACES)
def test_picture_is_of_now_and_keys_answer(fakenvml: Path, place: str) -> None:
    with slow(fakenvml) as terminal:
        go(terminal, place)
        assert terminal.oldest(3) < LIMIT
        if "dialog" in place:
            others = re.compile(r"(?s)^(?!.*Colours)")
            assert answer_seconds(terminal, "escape", others) < 2 * FRAME_SECONDS
        else:
            assert answer_seconds(terminal, "p", re.compile("PAUSED")) < FRAME_SECONDS


def test_link_without_buffers_is_no_worse(fakenvml: Path) -> None:
    with slow(fakenvml, buffer=False) as terminal:
        go(terminal, "overview")
        assert terminal.oldest(3) < LIMIT
        assert answer_seconds(terminal, "p", re.compile("PAUSED")) < FRAME_SECONDS


def test_terminal_that_answers_nothing_is_late_by_what_the_kernel_holds(fakenvml: Path) -> None:
    limit = LIMIT + DEAF_SECONDS
    with slow(fakenvml, buffer=False, mute=True) as terminal:
        go(terminal, "overview", limit)
        assert terminal.oldest(3) < limit
        within = FRAME_SECONDS + DEAF_SECONDS
        assert answer_seconds(terminal, "p", re.compile("PAUSED")) < within
