import re

from gpudash.collect.local import open_simulated
from gpudash.collect.simulated import NAMES
from gpudash.model.text import clean
from tests.factories import make_snapshot
from tests.tui.stage import Terminal, busy_snapshot, on_screen, process_of

SIZES = [(1, 1), (3, 10), (10, 3), (200, 1), (1, 60), (40, 10), (80, 24), (140, 40), (200, 60)]


async def test_no_size_is_too_small_or_too_large() -> None:
    async with on_screen() as on:
        for devices, processes in [(0, 0), (8, 30), (64, 100)]:
            on.feed.give(busy_snapshot(processes, devices))
            for size in SIZES:
                await on.pilot.resize_terminal(*size)
                await on.press("j", "right_square_bracket")
                lines = on.lines
                assert len(lines) == size[1]
        await on.pilot.resize_terminal(3, 2)
        await on.press("h")
        await on.press("escape")
        await on.resize(80, 24)
        assert "quit" in on.lines[-1]


async def test_every_simulated_host_is_shown() -> None:
    async with on_screen() as on:
        for name in NAMES:
            await on.give(open_simulated(name).sample())
            assert re.search(r"(?m)^\W*0 .*(\d+C|asleep|\d+ +\d+ )", on.text), name


HOSTILE = [
    "\x1b]52;c;aGVsbG8=\x07",
    "\x1b[2J",
    "\x9b31m",
    "[/x]",
    "[@click=app.leave]x[/]",
    "\u202eevil",
    "a\nb",
    "\x00",
]


POINTER_SHAPE = "\x1b]22;default\x07"


async def test_hostile_names_reach_the_terminal_as_text_only() -> None:
    command = tuple(clean(word) for word in HOSTILE)
    hostile = process_of(0, command_line=command, username=clean("\x1b]0;x\x07[/b]"))
    async with on_screen(
        make_snapshot(2, processes=(hostile,)), captured=True, size=(160, 40)
    ) as on:
        terminal = Terminal(160, 40)
        sent = on.driver.take().replace(POINTER_SHAPE, "")
        terminal.feed(sent)
        assert any("[/x]" in line for line in terminal.lines)
        assert any("[@click=app.leave]" in line for line in terminal.lines)
        for raw in ("\x1b]52", "\x1b]0", "\x1b[2J", "\x9b", "\u202e", "\x00", "\x07"):
            assert raw not in sent
