import asyncio
import math
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from textual import app, pilot
from textual.css.stylesheet import Stylesheet

from tests.tui.kill_stage import Start

_SOON_SECONDS = 1 / 25
"""Longer than two pauses of Textual between pictures."""
_LIMIT_SECONDS = 10.0


async def _wait_for_idle(_min_sleep: float = 0.0, _max_sleep: float = 0.0) -> None:
    """Wait until the event loop has nothing to do, now or soon.

    Textual's own takes a process that gets no CPU for one that has nothing to do.
    """
    loop = asyncio.get_running_loop()
    end, idle_rounds = loop.time() + _LIMIT_SECONDS, 0
    while idle_rounds < 4 and loop.time() < end:
        scheduled = (each.when() for each in loop._scheduled if not each.cancelled())  # type: ignore[attr-defined]
        due = min(scheduled, default=math.inf) - loop.time()
        await asyncio.sleep(max(0.0, due) if due < _SOON_SECONDS else 0.0)
        is_busy = due < _SOON_SECONDS or loop._ready  # type: ignore[attr-defined]
        idle_rounds = 0 if is_busy else idle_rounds + 1


@pytest.fixture(autouse=True)
def deterministic_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a pause of the pilot end only when all that was begun is done."""
    pause = pilot.Pilot.pause

    async def pause_twice(self: pilot.Pilot[object], delay: float | None = None) -> None:
        """Let what the picture at the end of a pause begins, as after a layout, end, too."""
        await pause(self, delay)
        if delay is None:
            await _wait_for_idle()
            self.app.screen._on_timer_update()

    async def wait_for_screen(self: pilot.Pilot[object], timeout: float = 0.0) -> bool:
        """Wait for all in the event loop instead of sending each widget a message."""
        await _wait_for_idle()
        return True

    monkeypatch.setattr(pilot.Pilot, "pause", pause_twice)
    monkeypatch.setattr(pilot.Pilot, "_wait_for_screen", wait_for_screen)
    monkeypatch.setattr(pilot, "wait_for_idle", _wait_for_idle)
    monkeypatch.setattr(app, "wait_for_idle", _wait_for_idle)


class _Kept(dict[object, Any]):
    """Another app may have these colours again."""

    def clear(self) -> None: ...


@pytest.fixture(autouse=True, scope="session")
def shared_styles() -> Iterator[None]:
    """Let an app find the styles parsed that another with the same colours has parsed."""
    parsed: dict[object, _Kept] = {}
    parse = Stylesheet._parse_rules

    def parse_rules(self: Stylesheet, *source: Any, **options: Any) -> Any:
        colours = tuple(self._variables.items())
        self._parse_cache = parsed.setdefault(colours, _Kept())  # type: ignore[assignment]
        return parse(self, *source, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Stylesheet, "_parse_rules", parse_rules)
        yield


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def run(*argv: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(argv or ("sleep", "600"), stdout=subprocess.PIPE))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.fixture
def victim(start: Start) -> subprocess.Popen[bytes]:
    return start()
