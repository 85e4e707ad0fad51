"""What holds on every page, of one host and of many: each claim is asserted of each of them."""

import re
from collections.abc import AsyncIterator, Callable
from itertools import count, cycle
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from textual.events import Key, Paste

from gpudash.feed.protocol import FeedState
from gpudash.model.fleet import FleetJob, FleetSnapshot, FleetUser
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.text import clean, width
from gpudash.tui.draw import chart
from gpudash.tui.fleet.map import MapPage
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.overview import Overview
from gpudash.tui.preferences import Preferences
from gpudash.tui.theme import Theme
from tests.factories import gpu_uuid, make_device, make_process_device
from tests.feed.hand import HandFeed, HandFleetFeed
from tests.fleet.many import device, fleet, host
from tests.tui.past import sample
from tests.tui.stage import OnScreen, ended, on_screen, process_of

chart.load()

SMALL, USUAL, TALL, WIDE, LARGE = (40, 10), (80, 24), (80, 70), (140, 24), (140, 40)
OTHERS = (200, 1), (1, 60)
HOSTILE = "[/x]\x1b\u202e"
SEEN = r"[/x]\x1b\u202e"
"""What is shown of it: text, however it reads."""
CJK = "界"


def findings(name: str, number: int, **about: Any) -> tuple[Finding, ...]:
    return tuple(
        Finding(rule=f"r{n}", level="warn", sentence=clean(f"{name} {n} is bad {number}"), **about)
        for n in range(3)
    )


def one_host(number: int, name: str = HOSTILE, *, gpus: int = 4, processes: int = 3) -> Snapshot:
    """A sample of a host of which every page shows another value each time."""
    devices = tuple(
        make_device(
            index=n,
            name=clean(f"{name}{n}"),
            gpu_utilization_percent=(20 * n + number) % 101,
            pcie_tx_bytes_per_second=(n + number) << 30,
        )
        for n in range(gpus)
    )
    everywhere = tuple(make_process_device(index=n) for n in range(4))
    listed = tuple(
        process_of(
            n,
            cpu_percent=10.0 * n + number,
            username=clean(f"{name}{n % 9}"),
            command_line=(clean(name),),
            **({} if n else {"devices": everywhere}),
        )
        for n in range(processes)
    )
    wrong = findings(name, number, uuids=(gpu_uuid(0),), indices=(0,))
    return sample(10 * number, [0] * gpus, devices=devices, processes=listed, findings=wrong)


def many_hosts(number: int, name: str = HOSTILE, *, hosts: int = 8) -> FleetSnapshot:
    """A sample of many hosts of which every page shows another value each time."""
    text, names = clean(name), tuple(clean(f"{name}{n}") for n in range(hosts))
    devices = tuple(
        device(n, word, users=(text,), job="0", gpu_utilization_percent=float(10 * number + n))
        for n, word in enumerate(("busy", "held-idle", "free", "lost"))
    )
    counts = range(5 if hosts else 0)
    return fleet(
        tuple(host(n, name=each, group=text, devices=devices) for n, each in enumerate(names)),
        seconds=10 * number,
        users=tuple(FleetUser(name=clean(f"{name}{n}"), busy=number + n) for n in counts),
        jobs=tuple(
            FleetJob(id=clean(str(n)), name=text, user=text, hosts=names[:2], busy=number + n)
            for n in counts
        ),
        findings=findings(name, number, hosts=names[:1]),
    )


class Page(NamedTuple):
    """A page, and the keys that lead to it from the first one."""

    keys: tuple[str, ...]
    title: str
    """A pattern that its picture has."""
    unknown: str = "asking hosts"
    """What it says before the first snapshot."""


NO_GPUS = "The GPUs are not known"


class Stage(NamedTuple):
    """Pages over one feed, the first one first."""

    sample: Callable[..., Any]
    full: dict[str, int]
    """Of a sample that has more than a screen shows."""
    first: Callable[[], Overview | MapPage]
    pages: tuple[Page, ...]

    async def visit(self, on: OnScreen) -> AsyncIterator[Page]:
        for page in self.pages:
            print("on the page with", page.title)
            await go_to(on, page)
            yield page


OF_ONE = Stage(
    one_host,
    {"gpus": 24, "processes": 60},
    lambda: Overview(HandFeed()),
    (
        Page((), "/ filter +s sort", "reading GPUs"),
        Page(("d",), r"GPU +\[0\]", NO_GPUS),
        Page(("enter",), "1000 +python of ", "no process is selected"),
        Page(("w",), "3 warn", NO_GPUS),
        Page(("m",), "P2P read", "No topology: the GPUs are not known"),
        Page(("u",), "IDLE-MEM", "Which processes run is not known"),
    ),
)
OF_MANY = Stage(
    many_hosts,
    {"hosts": 60},
    lambda: MapPage(FleetModel(HandFleetFeed())),
    (
        Page((), "utilization +a cell is"),
        Page(("2",), "HOST .*STATUS"),
        Page(("3",), "HOST .*GPU.*STATUS"),
        Page(("4",), "USER .*HELD IDLE"),
        Page(("5",), "JOB +USER"),
        Page(("6",), " 0 is bad"),
        Page(("7",), "GROUP .*HOSTS"),
        Page(("5", "enter"), "median of its GPUs"),
        Page(("2", "home", "enter"), "no processes: no ssh"),
    ),
)
every_page = pytest.mark.parametrize("stage", [OF_ONE, OF_MANY], ids=["one host", "many hosts"])


@pytest.fixture(autouse=True)
def truecolor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")


async def go_to(on: OnScreen, page: Page) -> None:
    while on.app.screen is not on.app.first:
        await on.press("escape")
    # There it clears the filter, or shows the present again.
    await on.press("escape", *page.keys)


def body(on: OnScreen) -> list[str]:
    """What a page has of its own, but for the axis of time."""
    return [line for line in on.lines[2:-1] if not re.search(r"-\d+s |┬", line)]


def inks(on: OnScreen) -> set[str]:
    """The colours of the text between the first line and the last, as the terminal has them."""
    return {
        ink for line in on.terminal.cells[1:-1] for text, ink, _, _ in line if text.strip(" ─│┼")
    }


def ground(theme: Theme) -> str:
    """The colour behind most of a page."""
    color = theme.base.bgcolor
    return color.triplet.hex[1:]


def loud(theme: Theme) -> set[str]:
    """The colours of what is to be seen."""
    styles = theme.base, theme.strong, theme.warn, theme.critical
    return {style.color.triplet.hex[1:] for style in styles if style.color and style.color.triplet}


@every_page
async def test_nothing_is_claimed_before_the_first_snapshot(stage: Stage) -> None:
    async with on_screen(page=stage.first(), size=USUAL) as on:
        async for page in stage.visit(on):
            text = on.text
            assert page.unknown in text
            assert not re.search("Nothing is wrong|No (running|process|GPU)|GPU-MEM", text)


@every_page
async def test_paused_it_stands_still_and_each_step_back_is_as_it_was(stage: Stage) -> None:
    async with on_screen(stage.sample(0), size=WIDE) as on:
        numbers = count(1)
        async for _page in stage.visit(on):
            seen = []
            for _ in range(3):
                await on.give(stage.sample(next(numbers)))
                seen.append(body(on))
            is_named = "p pause" in on.lines[-1]
            await on.press("p")
            frozen, now = on.lines, body(on)
            assert "PAUSED" in frozen[0]
            assert "p live" in frozen[-1] or not is_named
            await on.give(stage.sample(next(numbers)))
            await on.resize(*SMALL)
            assert "PAUSED" in on.lines[0]
            await on.resize(*WIDE)
            assert on.lines == frozen
            for earlier in reversed(seen[:-1]):
                await on.press("[")
                assert "AGO" in on.lines[0]
                assert body(on) == earlier
            await on.press("]", "]")
            assert body(on) == now
            await on.press("p")
            assert not re.search("PAUSED|AGO|p live", on.text)
            assert body(on) not in (now, *seen)


@every_page
async def test_each_key_in_its_footer_does_something_when_it_is_clicked(stage: Stage) -> None:
    async with on_screen(stage.sample(0, CJK + HOSTILE), size=WIDE) as on:
        async for page in stage.visit(on):
            keys = re.findall(r"\S+ \S+", on.lines[-1].partition("│")[0])
            assert keys[0] in ("q back", "q quit")
            assert {width(line) for line in on.lines} == {WIDE[0]}
            # The others are pressed in the tests above.
            for key in (each for each in keys[1:] if not re.match("[1-6hpw] ", each)):
                here, screen = on.lines, on.app.screen
                print("clicked", key)
                if key == "+ zoom":
                    # It charts the shortest time at first.
                    await on.press("minus")
                    here = on.lines
                await on.click(offset=(here[-1].index(key), WIDE[1] - 1))
                assert (on.lines, on.app.screen) != (here, screen)
                await on.press("escape")
                if on.app.screen is not screen:
                    await go_to(on, page)


@every_page
async def test_any_size_is_the_picture_of_a_fresh_start_whole_and_in_ascii(stage: Stage) -> None:
    full, empty = stage.sample(0, **stage.full), stage.sample(1, **dict.fromkeys(stage.full, 0))
    async with on_screen(full, page=stage.first(), ascii=True, size=SMALL) as on:
        fresh = iter([on.lines async for _page in stage.visit(on)])
    async with on_screen(full, page=stage.first(), ascii=True, size=LARGE) as on:
        async for page in stage.visit(on):
            pictures = {SMALL: next(fresh), LARGE: on.lines}
            for size in (*OTHERS, *pictures):
                await on.resize(*size)
                lines = on.lines
                assert [len(line) for line in lines] == [size[0]] * size[1]
                assert lines == pictures.get(size, lines)
                text = "\n".join(lines)
                assert text.isascii()
                assert min(size) < 24 or re.search(page.title, text)
                assert size != LARGE or SEEN in text
        await on.give(empty)
        async for _page in stage.visit(on):
            lines = on.lines
            await on.resize(1, 1)
            await on.resize(*LARGE)
            assert on.lines == lines


@every_page
async def test_silent_feed_fades_it_and_another_theme_reaches_it_and_what_lies_below(
    stage: Stage,
) -> None:
    async with on_screen(stage.sample(0), captured=True, size=USUAL) as on:
        turns, numbers = cycle(("down", "up")), count(1)
        async for _page in stage.visit(on):
            await on.sent()
            before = on.app.front.model.theme
            assert inks(on) & loud(before)
            on.feed.error = "collector: no answer"
            on.feed.change(FeedState.STALE, 14)
            await on.sent()
            assert not inks(on) & loud(before)
            assert "STALE 14s" in on.terminal.lines[0]
            assert "no answer" in on.terminal.lines[-1]
            on.feed.change(FeedState.RESTARTING, 21)
            await on.resize(*SMALL)
            assert "NO COLLECTOR 21s" in on.lines[0]
            await on.resize(*USUAL)

            # Behind a dialog it goes on.
            await on.press("f2", next(turns))
            later = stage.sample(next(numbers))
            on.feed.give(later)
            on.feed.change(FeedState.STALE, 14)
            await on.sent()
            text = on.terminal.text
            assert f"{later.taken_at.astimezone():%H:%M:%S}" in text
            assert all(words in text for words in ("Theme", "STALE 14s", "no answer"))
            on.feed.error = None
            on.feed.change(FeedState.LIVE)

            await on.press("enter")
            chosen = on.app.front.model.theme
            for _ in range(2):
                await on.sent()
                colors = {cell[2] for line in on.terminal.cells for cell in line}
                assert ground(chosen) in colors
                assert ground(before) not in colors
                assert not inks(on) & (loud(before) - loud(chosen))
                assert not re.search("STALE|no answer", on.text)
                await on.press("escape")


@every_page
async def test_palette_leads_to_help_with_all_its_keys_to_mistakes_and_a_picture(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config.toml"
    path.write_text("intervall = 2\ntheme = 'purple'\n")
    preferences = Preferences(str(path))
    async with on_screen(stage.sample(0), preferences=preferences, size=TALL) as on:
        assert "2 mistakes in the settings: ! lists them" in on.footer
        async for page in stage.visit(on):
            here = on.lines
            keys = [key.help.partition(" (")[0][:20] for key in on.app.front.listed_keys]
            if page is stage.pages[0]:
                await on.press(":")
                on.app.post_message(Paste("show all keys"))
                await on.press("enter")
            else:
                await on.press("h")
            seen, text = "", on.text
            while text not in seen:
                seen += text
                await on.press("pagedown")
                text = on.text
            assert [key for key in (*keys, "user:alice") if key not in seen] == []
            await on.press("q")
            assert on.lines[:-1] == here[:-1]
        await on.press("!")
        assert all(word in on.text for word in ("2 mistakes", "intervall", "purple"))
        await on.press("escape", "S")
        await on.until(lambda: "saved the screen" in on.text)
        (picture,) = tmp_path.glob("*.svg")
        assert SEEN in "".join(ElementTree.parse(picture).getroot().itertext())


@every_page
async def test_cursor_stays_within_it_and_escape_and_q_lead_back(stage: Stage) -> None:
    async with on_screen(stage.sample(0, **stage.full), size=USUAL) as on:
        async for page in stage.visit(on):
            for end, beyond in (("end", "j"), ("home", "k")):
                await on.press(end)
                at_end = on.lines
                await on.press(beyond)
                assert on.lines == at_end
            for key in ("escape", "q") * bool(page.keys):
                await go_to(on, page._replace(keys=page.keys[:-1]))
                below = on.app.screen
                await on.press(page.keys[-1])
                assert on.app.screen is not below
                await on.press(key)
                assert on.app.screen is below
        await go_to(on, stage.pages[0])
        on.app.post_message(Key("q", "q"))
        await ended(on.app)
    assert on.app.return_code == 0
    assert on.feed.stopped
