import ast
import gc
import importlib
import random
import re
from pathlib import Path

import pytest
from textual._styles_cache import StylesCache

from gpudash.feed.protocol import FeedState
from gpudash.tui import terminal
from gpudash.tui.app import GpudashApp
from gpudash.tui.terminal import PRIVATE
from tests.factories import make_snapshot
from tests.tui.stage import (
    CaptureDriver,
    HandFeed,
    Terminal,
    busy_snapshot,
    process_of,
    screen_lines,
)


@pytest.mark.parametrize("owner", sorted(PRIVATE))
def test_private_names_exist_in_this_textual(owner: str) -> None:
    module, _, name = owner.partition(":")
    cls = getattr(importlib.import_module(module), name)
    sources = [vars(base) for base in cls.__mro__]
    code = {
        word
        for members in sources
        for function in members.values()
        if hasattr(function, "__code__")
        for word in function.__code__.co_names
    }
    slots = {slot for base in cls.__mro__ for slot in getattr(base, "__slots__", ())}
    for private in PRIVATE[owner]:
        assert hasattr(cls, private) or private in code | slots, f"{owner} lost {private}"


SOURCES = Path(terminal.__file__).parent


def walked(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text())))


def defined(nodes: list[ast.AST]) -> set[str]:
    """The names of functions, and of attributes that are set."""
    functions = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and is_name(n.target)}
    return functions | fields | {n.attr for n in attributes(nodes) if isinstance(n.ctx, ast.Store)}


def is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


def attributes(nodes: list[ast.AST]) -> list[ast.Attribute]:
    private = re.compile("_[^_]")
    return [n for n in nodes if isinstance(n, ast.Attribute) and private.match(n.attr)]


FILES = sorted(SOURCES.parent.rglob("*.py"))
INSIDE = {name for path in FILES if path.parent == SOURCES for name in defined(walked(path))}
OUTSIDE = {name for path in FILES if path.parent != SOURCES for name in defined(walked(path))}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_private_names_of_textual_are_used_in_the_terminal_package_and_listed(path: Path) -> None:
    nodes = walked(path)
    used = {node.attr for node in attributes(nodes)} - {"_exit", "_replace"}
    if path.parent == SOURCES:
        listed = {name for names in PRIVATE.values() for name in names}
        assert used - INSIDE - OUTSIDE <= listed
    else:
        # What the terminal package sets or overrides may be Textual's, and is not ours here.
        assert used <= OUTSIDE
        imported = [n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)]
        assert [name for name in imported if re.match(r"textual\b.*\._", name)] == []


async def test_views_that_were_left_are_not_kept() -> None:
    def kept() -> int:
        gc.collect()
        return sum(isinstance(each, StylesCache) for each in gc.get_objects())

    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot())
        counts = []
        for _ in range(4):
            for key in ("d", "u", "h"):
                await pilot.press(key)
                await settle(pilot)
                await pilot.press("q")
                await settle(pilot)
            counts.append(kept())
        assert counts[-1] <= counts[0]


KEYS = ["j", "k", "pagedown", "end", "home", "full_stop", "comma", "r", "p", "h", "escape", "K"]


async def settle(pilot: object) -> None:
    for _ in range(4):
        await pilot.pause()  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(4))
async def test_terminal_shows_what_textual_would_draw(seed: int) -> None:
    rng = random.Random(seed)
    feed = HandFeed()
    app = GpudashApp(feed, driver_class=CaptureDriver)
    width, height = 100, 30
    async with app.run_test(headless=False, size=(width, height)) as pilot:
        terminal = Terminal(width, height)
        for _ in range(25):
            step = rng.random()
            if step < 0.5:
                names = [
                    process_of(
                        number,
                        cpu_percent=rng.uniform(0, 400),
                        username=rng.choice(["alice", "漢字", "bé"]),
                    )
                    for number in range(rng.choice([0, 3, 30]))
                ]
                feed.give(make_snapshot(rng.choice([1, 4, 8]), processes=tuple(names)))
            elif step < 0.6:
                feed.change(rng.choice([FeedState.STALE, FeedState.LIVE]), rng.randint(5, 60))
            else:
                await pilot.press(rng.choice(KEYS))
            await settle(pilot)
            driver = app._driver
            assert isinstance(driver, CaptureDriver)
            terminal.feed(driver.take())
            # pyte leaves the cell behind a wide character empty, Textual has no such cell.
            assert [line.rstrip() for line in terminal.lines] == [
                line.rstrip() for line in screen_lines(app)
            ]


async def test_nothing_is_sent_when_nothing_changed() -> None:
    feed = HandFeed()
    app = GpudashApp(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        feed.give(busy_snapshot())
        await settle(pilot)
        driver = app._driver
        assert isinstance(driver, CaptureDriver)
        driver.take()
        feed.give(busy_snapshot())
        await settle(pilot)
        assert driver.take() == ""


async def test_one_changed_number_is_a_few_bytes() -> None:
    feed = HandFeed()
    app = GpudashApp(feed, driver_class=CaptureDriver)
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        feed.give(busy_snapshot(3))
        await settle(pilot)
        driver = app._driver
        assert isinstance(driver, CaptureDriver)
        driver.take()
        changed = (process_of(0, cpu_percent=12.0), process_of(1), process_of(2))
        feed.give(make_snapshot(8, processes=changed))
        await settle(pilot)
        assert 0 < len(driver.take().encode()) < 120
