import re
from pathlib import Path

import pytest

from gpudash.feed.protocol import FeedState
from gpudash.model.snapshot import Snapshot
from gpudash.tui.draw import chart
from gpudash.tui.preferences import Preferences
from tests.factories import make_device, make_snapshot
from tests.tui.past import sample
from tests.tui.stage import OnScreen, Terminal, busy_snapshot, on_screen, process_of

chart.load()

SIZE = (120, 40)
VIEWS = {"device": "d", "links": "m", "users": "u", "process": "enter"}
PLACES = {"overview": (), **{view: (key,) for view, key in VIEWS.items()}}
LARGE, SMALL = (200, 60), (40, 10)


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")


def colours(terminal: Terminal) -> set[str]:
    """Of the text between the first line and the last."""
    return {
        foreground
        for line in terminal.cells[1:-1]
        for character, foreground, _background, _bold in line
        if character.strip()
    }


@pytest.mark.parametrize(
    ("view", "state"),
    [*((view, FeedState.STALE) for view in VIEWS), ("device", FeedState.RESTARTING)],
)
async def test_view_of_a_silent_feed_fades_and_says_why(view: str, state: FeedState) -> None:
    async with on_screen(busy_snapshot(), VIEWS[view], captured=True, size=SIZE) as on:
        await on.sent()
        theme = on.dashboard.theme
        plain, shrill = (
            {style.color.triplet.hex[1:] for style in styles if style.color and style.color.triplet}
            for styles in ((theme.base, theme.strong), (theme.warn, theme.critical))
        )
        assert colours(on.terminal) & plain
        on.feed.error = "collector: no answer for 14 s"
        on.feed.change(state, 14)
        await on.sent()
        assert not colours(on.terminal) & (plain | shrill)
        assert "14s" in on.terminal.lines[0]
        assert "no answer for 14 s" in on.terminal.lines[-1]
        on.feed.error = None
        on.feed.change(FeedState.LIVE)
        on.feed.give(busy_snapshot())
        await on.sent()
        assert colours(on.terminal) & plain
        assert "14s" not in on.terminal.lines[0]
        assert "no answer" not in on.terminal.lines[-1]


@pytest.mark.parametrize(
    ("view", "size"), [*((view, (40, 10)) for view in VIEWS), ("device", (80, 24))]
)
async def test_marks_stand_in_the_first_line_of_a_view(view: str, size: tuple[int, int]) -> None:
    async with on_screen(busy_snapshot(), captured=True, size=size) as on:
        on.feed.give(busy_snapshot())
        await on.press(VIEWS[view], "p")
        await on.sent()
        assert "PAUSED" in on.terminal.lines[0]
        on.feed.change(FeedState.STALE, 14)
        await on.sent()
        assert "STALE 14s" in on.terminal.lines[0]


def body(on: OnScreen) -> list[str]:
    """What stands between the first line and the last, but for the axis of time."""
    return [line for line in on.lines[1:-1] if not re.search(r"-\d+s ", line)]


def changing(number: int) -> Snapshot:
    """A sample of a host of which every view shows another value each time."""
    gpus = tuple(
        make_device(index=n, gpu_utilization_percent=20 * n + number, pcie_tx_bytes_per_second=rate)
        for n, rate in enumerate((number << 30, 0))
    )
    processes = tuple(process_of(n, cpu_percent=10.0 * n + number) for n in range(3))
    return sample(10 * number, [0, 0], devices=gpus, processes=processes)


@pytest.mark.parametrize("place", PLACES)
async def test_a_paused_view_stands_still_and_each_step_back_is_as_it_was(place: str) -> None:
    async with on_screen(changing(0), *PLACES[place], size=LARGE) as on:
        seen = []
        for second in (1, 2, 3):
            await on.give(changing(second))
            seen.append(body(on))
        await on.press("p")
        frozen = on.text
        assert "PAUSED" in frozen
        await on.give(changing(4))
        assert on.text == frozen
        frozen = body(on)
        for earlier in reversed(seen[:-1]):
            await on.press("[")
            assert body(on) == earlier
        await on.press("]", "]")
        assert body(on) == frozen
        await on.press("p")
        assert not re.search("PAUSED|AGO", on.text)
        assert body(on) not in (frozen, *seen)


@pytest.mark.parametrize(
    ("place", "gpus", "processes"),
    [
        *((place, 64, 500) for place in PLACES),
        *((place, 8, 0) for place in PLACES if place != "process"),
    ],
)
async def test_another_size_is_the_picture_of_a_fresh_start(
    place: str, gpus: int, processes: int
) -> None:
    listed = tuple(process_of(number % 60, pid=1000 + number) for number in range(processes))
    host = make_snapshot(gpus, processes=listed)
    async with on_screen(host, *PLACES[place], size=SMALL) as on:
        small = on.text
    async with on_screen(host, *PLACES[place], size=LARGE) as on:
        large = on.text
        for size, picture in ((SMALL, small), (LARGE, large)):
            await on.resize(*size)
            assert on.text == picture


@pytest.mark.parametrize("view", ["device", "process"])
async def test_other_colours_reach_a_view_and_what_lies_below(view: str) -> None:
    pictures = []
    for start in ("dark", "light"):
        preferences = Preferences(theme=start)
        async with on_screen(
            busy_snapshot(), captured=True, preferences=preferences, size=SIZE
        ) as on:
            await on.press(VIEWS[view])
            await on.sent()
            if start == "dark":
                await on.press("f2", "down", "enter")
                await on.sent()
            above = on.terminal.cells
            await on.press("escape")
            await on.sent()
            pictures.append((above, on.terminal.cells))
    assert pictures[0][0] == pictures[1][0]
    assert pictures[0][1] == pictures[1][1]


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
            title = next(y for y, line in enumerate(on.terminal.lines) if "Colours" in line)
            x = on.terminal.lines[title].index("Colours")
            grounds.append((on.terminal.cells[0][0][2], on.terminal.cells[title][x][2]))
        assert all(beside == within for beside, within in grounds)
        assert len(set(grounds)) >= 4
        await on.press("escape")
        await on.sent()
        assert on.terminal.cells == before
        assert preferences.is_saved


async def test_many_changes_of_colours_leave_none_behind() -> None:
    async with on_screen(busy_snapshot(), captured=True, size=SIZE) as on:
        await on.sent()
        before = on.terminal.cells
        for key in ("down", "down", "up", "up"):
            await on.press("f2", key, "enter")
            await on.sent()
            assert key == "up" or on.terminal.cells != before
        assert on.terminal.cells == before


@pytest.mark.parametrize(
    ("key", "unknown"),
    [
        ("d", "The GPUs are not known"),
        ("w", "The GPUs are not known"),
        ("u", "Which processes run is not known"),
        ("m", "No topology: the GPUs are not known"),
    ],
)
async def test_nothing_is_said_to_be_missing_before_anything_was_seen(
    key: str, unknown: str
) -> None:
    async with on_screen(None, key, size=(100, 20)) as on:
        assert unknown in on.text
