"""Random keys, clicks and resizes that meet each other, over dialogs, up to the end of the app."""

import asyncio
import gc
import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from textual.events import Event, Key, MouseDown, MouseScrollDown, MouseUp, Resize
from textual.geometry import Size

from gpudash.model.snapshot import Snapshot
from gpudash.tui.keymap import KEYS
from tests.factories import make_snapshot
from tests.tui.stage import ended, on_screen, process_of

_STOPPING = ("ctrl+z",)
_QUITTING = ("q", "ctrl+c", "f10")
NAMES = sorted({name for key in KEYS for name in key.keys.split(",")} - {*_STOPPING, *_QUITTING})
DIALOGS = ("colon", "f2", "g", "h", "K", "c", "o")
ANSWERS = ("escape", "enter", "up", "down", "left", "right", "tab", "space", "y", "n", "x", "7")
SIZES = ((1, 1), (10, 3), (20, 40), (40, 10), (80, 24), (120, 40), (200, 60))
PER_RUN = 100
NO_PID = 5_000_000
"""Above the greatest that Linux gives: nothing real is aimed at."""


def snapshot(rng: random.Random, second: int) -> Snapshot:
    """Some processes, none of which exists."""
    numbers = rng.sample(range(30), rng.randrange(1, 20))
    listed = tuple(process_of(number, pid=NO_PID + number) for number in numbers)
    taken_at = make_snapshot().taken_at + timedelta(seconds=second)
    return make_snapshot(4, processes=listed, taken_at=taken_at)


def key(name: str) -> Key:
    return Key(name, name if len(name) == 1 else None)


def click(x: int, y: int) -> Iterator[Event]:
    for kind in (MouseDown, MouseUp):
        yield kind(None, x, y, 0, 0, 1, False, False, False, screen_x=x, screen_y=y)


def random_input(rng: random.Random) -> Iterator[Event]:
    """What a user does at once."""
    x, y = rng.randrange(200), rng.randrange(60)
    kind = rng.random()
    if kind < 0.25:
        yield key(rng.choice(DIALOGS))
    elif kind < 0.45:
        yield key(rng.choice(ANSWERS))
    elif kind < 0.6:
        yield key(rng.choice(NAMES))
    elif kind < 0.8:
        yield from click(x, y)
    elif kind < 0.85:
        yield MouseScrollDown(None, x, y, 0, 1, 0, False, False, False, screen_x=x, screen_y=y)
    else:
        size = Size(*rng.choice(SIZES))
        yield Resize(size, size)


async def play(rng: random.Random, events: int, errors: list[dict[str, Any]]) -> int:
    """Run the app on some input, and quit in the middle of more; return its exit status."""
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _loop, context: errors.append(context))
    size = (120, 40)
    async with on_screen(snapshot(rng, 0), captured=True, guard_seconds=0.0, size=size) as on:
        app, count = on.app, 0
        # A click may find the key that quits.
        while count < events and app.return_code is None:
            # What comes at once is on its way together: each finds what the last one led to.
            for _ in range(rng.randrange(1, 8)):
                count += 1
                for event in random_input(rng):
                    app.post_message(event)
            if rng.random() < 0.2:
                on.feed.give(snapshot(rng, count))
            await on.pilot.pause()
        while app.return_code is None:
            # A key is lost where a dialog that was asked for before it opens meanwhile.
            for event in (*random_input(rng), key("ctrl+c"), *random_input(rng)):
                app.post_message(event)
            on.feed.give(snapshot(rng, count))
            # What comes faster than it is taken would be dropped, the key that quits too.
            await asyncio.sleep(0.05)
        await ended(app)
    return app.return_code


@pytest.mark.parametrize("events", [PER_RUN, pytest.param(20_000, marks=pytest.mark.sweep)])
async def test_random_input_over_dialogs_ends_nothing(
    events: int, capfd: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A key saves pictures.
    monkeypatch.chdir(tmp_path)
    errors: list[dict[str, Any]] = []
    for seed in range(events // PER_RUN):
        assert await play(random.Random(seed), PER_RUN, errors) == 0
        gc.collect()
        assert not errors, (seed, errors)
    assert capfd.readouterr() == ("", "")
