from pathlib import Path

import pytest

from gpudash.feed.protocol import FeedState
from gpudash.tui.draw import chart
from gpudash.tui.preferences import Preferences
from tests.tui.stage import busy_snapshot, on_screen

chart.load()

SIZE = (100, 30)


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")


async def test_feed_that_is_silent_while_a_view_is_paused_is_marked_on_few_cells() -> None:
    async with on_screen(busy_snapshot(), "d", "p", size=(40, 10)) as on:
        on.feed.change(FeedState.STALE, 14)
        await on.pilot.pause()
        assert "STALE 14s" in on.lines[0]


async def test_colours_are_worn_while_they_are_looked_at_and_taken_back_by_escape(
    tmp_path: Path,
) -> None:
    preferences = Preferences(str(tmp_path / "config.toml"))
    async with on_screen(busy_snapshot(), captured=True, preferences=preferences, size=SIZE) as on:
        await on.press("d")
        await on.sent()
        before = on.terminal.cells
        grounds = []
        await on.press("f2")
        for keys in ([], ["down"], ["down"], [*"term"], ["backspace"] * 4):
            await on.press(*keys)
            await on.sent()
            title = next(y for y, line in enumerate(on.terminal.lines) if "Theme" in line)
            x = on.terminal.lines[title].index("Theme")
            grounds.append((on.terminal.cells[0][0][2], on.terminal.cells[title][x][2]))
        assert all(beside == within for beside, within in grounds)
        assert len(set(grounds)) >= 4
        await on.press("escape")
        await on.sent()
        assert on.terminal.cells == before
        assert preferences.is_saved
