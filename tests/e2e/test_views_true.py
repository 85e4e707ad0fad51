"""Every view through pauses, steps into the past, silence and other sizes, in real ptys."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.demo_clock import demo_clock
from tests.e2e.run import GPUDASH, no_library
from tests.e2e.screen import the_collector, watching
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e

VIEWS = {
    "overview": ((), "quit"),
    "device": (("d",), "x explain"),
    "links": (("m",), "P2P read"),
    "users": (("u",), "r reverse"),
    "process": (("enter",), "secrets"),
}
HOSTS = {"8 GPUs": "dgx-h100", "64 GPUs": "many"}
CLOCK = re.compile(r"(\d\d:\d\d:\d\d) every")
LARGE, SMALL, WIDE = (200, 60), (40, 10), (260, 40)
INSTANT = 1760000000
DRAWN = re.compile(r"[\u2500-\u257f\u2800-\u28ff]")
AXIS = re.compile(r"-\d+s\b")
REDRAW = "\x0c"


def demo(folder: Path, scene: str, size: tuple[int, int], **environ: str) -> Terminal:
    argv = [*GPUDASH, "--no-config", "--interval", "0.5", f"--demo={scene}"]
    library = str(no_library(folder).parent)
    env = {**os.environ, "TZ": "UTC", "LD_LIBRARY_PATH": library, **environ}
    return Terminal(argv, env=env, columns=size[0], rows=size[1])


def go(terminal: Terminal, view: str) -> None:
    keys, mark = VIEWS[view]
    terminal.wait_for(re.compile(r"COMMAND(?s:.*)quit"))
    terminal.settle()
    terminal.send(*keys)
    if mark:
        terminal.wait_for(mark)
    terminal.wait_for(charted)
    terminal.settle()


def charted(text: str) -> bool:
    """Whether no chart waits for plotext."""
    return "loading" not in text


def body(terminal: Terminal) -> list[str]:
    """The words between the first line and the last, whatever the widths of columns.

    Those that once widened stay so. What only draws is left out: bars, curves, the axis of time.
    """
    texts = [DRAWN.sub(" ", line) for line in terminal.lines[1:-1] if not AXIS.search(line)]
    lines = [" ".join(text.split()) for text in texts]
    assert not any(line.endswith("\N{HORIZONTAL ELLIPSIS}") for line in lines), "what is cut hides"
    return lines


@pytest.mark.parametrize("view", VIEWS)
def test_step_back_shows_the_view_as_it_was(tmp_path: Path, view: str) -> None:
    with demo(tmp_path, "dgx-h100", WIDE, **demo_clock(INSTANT, step=10)) as terminal:
        go(terminal, view)
        seen: dict[str, list[str]] = {}

        def watched() -> bool:
            terminal.settle(0.05)
            shown = CLOCK.search(terminal.text)
            if shown is not None:
                seen[shown[1]] = body(terminal)
            return len(seen) > 3

        terminal.wait_until(watched)
        terminal.send("p")
        terminal.wait_for("PAUSED")
        terminal.settle()
        frozen = terminal.text
        earlier = list(seen)[1:-1]
        then = CLOCK.search(frozen)
        # There may have been samples that were not watched.
        while then is not None and then[1] not in earlier:
            clock = then[1]
            terminal.send("[")
            terminal.wait_for(lambda text, clock=clock: clock not in text)
            then = CLOCK.search(terminal.text)
        assert then is not None
        terminal.wait_until(lambda: body(terminal) == seen[then[1]])
        while "AGO" in terminal.text:  # sampling goes on: how many steps depends on the machine
            terminal.send("]")
            terminal.settle()
        terminal.wait_for(lambda text: "AGO" not in text and text != frozen)


@pytest.mark.parametrize("view", VIEWS)
def test_pause_freezes_a_view_while_sampling_goes_on(tmp_path: Path, view: str) -> None:
    with demo(tmp_path, "dgx-h100", (120, 40), **demo_clock(INSTANT, step=10)) as terminal:
        go(terminal, view)
        terminal.send("p")
        terminal.wait_for("PAUSED")
        terminal.settle()
        frozen, clock = terminal.text, CLOCK.search(terminal.text)
        assert clock is not None
        terminal.settle(1.2)
        assert terminal.text == frozen
        terminal.send("p")
        terminal.wait_for(lambda text: "PAUSED" not in text and clock[1] not in text)


@pytest.mark.parametrize("view", VIEWS)
def test_silent_collector_marks_every_view_and_its_return_takes_that_back(
    fakenvml: Path, holders: Any, view: str
) -> None:
    (holder,) = holders(1)
    with watching(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=holder.pid) as terminal:
        terminal.wait_for(str(holder.pid))
        go(terminal, view)
        collector = the_collector(terminal)
        collector.suspend()
        terminal.wait_for(re.compile(r"\A.* STALE \d+s "))
        aged = terminal.text.split("\n")[0]
        terminal.send("f2")
        terminal.wait_for("Colours")
        terminal.wait_for(lambda text: "STALE" in text and text.split("\n")[0] != aged)
        terminal.send("escape")
        collector.resume()
        terminal.wait_for(lambda text: "STALE" not in text and "Colours" not in text)


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("host", HOSTS)
def test_another_size_is_the_picture_of_a_fresh_start(tmp_path: Path, host: str, view: str) -> None:
    clock = demo_clock(INSTANT)
    with (
        demo(tmp_path, HOSTS[host], LARGE, **clock) as terminal,
        demo(tmp_path, HOSTS[host], SMALL, **clock) as fresh,
    ):
        # The first picture is of a brief snapshot, which has no links.
        terminal.wait_for(re.compile(r"gen\d x\d"))
        go(terminal, view)
        large = terminal.text
        fresh.wait_for(re.compile(r"(?s)PID.*quit"))
        fresh.settle()
        fresh.send(*VIEWS[view][0])
        fresh.settle(1.0)
        fresh.wait_for(charted)
        terminal.resize(*SMALL)
        terminal.wait_until(lambda: (fresh.pump(0), terminal.text == fresh.text)[1])
        terminal.resize(*LARGE)
        terminal.wait_for(lambda text: text == large)


@pytest.mark.parametrize("view", [view for view in VIEWS if view != "process"])
@pytest.mark.parametrize(("gpus", "processes"), [(8, 0), (64, 500)])
def test_no_and_many_processes_survive_another_size(
    fakenvml: Path, view: str, gpus: int, processes: int
) -> None:
    gone = ",".join(str(4_190_000 - number) for number in range(processes))
    each = -(-processes // gpus)
    told: dict[str, Any] = {"DEVICES": gpus, "PROCS_PER_DEVICE": each} | (
        {"PIDS": gone} if gone else {}
    )
    with watching(fakenvml, "--no-config", size=LARGE, **told) as terminal:
        terminal.wait_for(re.compile(r"(?s)A100.*quit"))
        terminal.settle()
        terminal.send(*VIEWS[view][0], "p")
        terminal.wait_for("PAUSED")
        terminal.wait_for(charted)
        terminal.settle(0.5)
        # A column stays as wide as a value of it once was, until there is another size.
        terminal.resize(*SMALL)
        terminal.settle(0.5)
        terminal.resize(*LARGE)
        large = terminal.settle(0.5)
        terminal.resize(*SMALL)
        small = terminal.settle(0.5)
        terminal.send(REDRAW)
        terminal.settle(0.3)
        assert terminal.text == small
        assert "Traceback" not in terminal.raw.decode(errors="replace")
        terminal.resize(*LARGE)
        terminal.wait_for(lambda text: text == large)
        terminal.send("q", "q")
        assert terminal.wait_exit() == 0
