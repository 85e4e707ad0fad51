import re

from gpudash.collect.local import open_simulated
from gpudash.collect.simulated import NAMES
from gpudash.model.text import clean
from tests.factories import make_snapshot
from tests.tui.stage import Terminal, on_screen, process_of


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
