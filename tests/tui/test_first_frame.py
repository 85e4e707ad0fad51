import pytest
from rich.color import ColorSystem

from gpudash.tui.app import GpudashApp
from gpudash.tui.cells import color_system
from gpudash.tui.first_frame import draw
from gpudash.tui.overview import Overview
from tests.feed.hand import HandFeed
from tests.tui.stage import CaptureDriver, OnScreen, Terminal, busy_snapshot


@pytest.mark.parametrize("size", [(80, 24), (140, 40), (30, 8)])
async def test_app_finds_nothing_to_change_in_it(size: tuple[int, int]) -> None:
    feed = HandFeed()
    feed.latest = busy_snapshot()
    frame, sent = draw(feed, *size, no_color=False)
    terminal = Terminal(*size)
    terminal.feed(sent)
    app = GpudashApp(Overview(feed), driver_class=CaptureDriver)
    app.adopt_terminal(frame, [])
    async with app.run_test(headless=False, size=size) as pilot:
        on = OnScreen(app, pilot, feed, size)
        sent = await on.sent()
        assert len(sent) < 50, sent
        assert [line.rstrip() for line in terminal.lines] == [line.rstrip() for line in on.lines]


def test_without_colour_it_sends_none() -> None:
    feed = HandFeed()
    feed.latest = busy_snapshot()
    _frame, sent = draw(feed, 80, 24, no_color=True)
    assert "38;" not in sent
    assert "48;" not in sent
    assert "job0.py" in sent


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"COLORTERM": "truecolor", "TERM": "xterm"}, ColorSystem.TRUECOLOR),
        ({"TERM": "xterm-256color"}, ColorSystem.EIGHT_BIT),
        ({"TERM": "linux"}, ColorSystem.STANDARD),
    ],
)
def test_colours_follow_the_environment(environ: dict[str, str], expected: ColorSystem) -> None:
    assert color_system(environ) is expected
