"""Every view, dialog and prompt, reached by keys: sent again as a whole, no cell changes."""

import re

import pytest

from tests.e2e.emulation import cells
from tests.tui.stage import Terminal, busy_snapshot, on_screen

SIZE = (80, 24)
CURSOR = ("down", "down", "up")
CHOOSER = ("s", "down", "escape", "f2", "down", "escape")
HELP = ("h", "pagedown", "escape")
VIEWS = ("d", "pagedown", "n", "escape", "u", "escape", "w", "escape", "m", "escape")
OTHERS = ("enter", "escape", "K", "escape", "g", "down", "escape")
PROMPTS = ("slash", "a", "=", "backspace", "escape", "tab", "down", "tab", "p", "p")
LOOKS = {
    "true colour": {"COLORTERM": "truecolor", "TERM": "xterm-256color"},
    "16 colours": {"TERM": "linux"},
    "no colours": {"NO_COLOR": "1", "TERM": "xterm-256color"},
}


@pytest.mark.parametrize(
    ("look", "keys"),
    [
        ("true colour", (*CURSOR, *CHOOSER, *HELP, *VIEWS, *OTHERS, *PROMPTS)),
        ("16 colours", (*CURSOR, *CHOOSER)),
        ("no colours", (*CURSOR, *HELP)),
    ],
)
async def test_a_redraw_changes_no_cell(
    look: str, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in LOOKS[look].items():
        monkeypatch.setenv(name, value)
    async with on_screen(
        busy_snapshot(), captured=True, no_color=look == "no colours", size=SIZE
    ) as on:
        sent = await on.sent()
        for key in keys:
            await on.press(key)
            sent += await on.sent()
            before, on.terminal = cells(on.terminal.screen), Terminal(*SIZE)
            on.app.forget_frame()
            await on.sent()
            after = cells(on.terminal.screen)
            assert [y for y in range(SIZE[1]) if before[y] != after[y]] == [], key
    assert bool(re.search("[34]8;[25];", sent)) is (look == "true colour")
