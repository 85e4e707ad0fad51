from __future__ import annotations

import re
from pkgutil import iter_modules

import pytest

from gpudash.model.snapshot import Finding
from gpudash.model.text import SafeText
from gpudash.tui import views
from gpudash.tui.bindings import bindings
from gpudash.tui.host import view_class
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.views.view import View
from tests.factories import make_process, make_process_device, make_snapshot
from tests.tui.stage import on_screen

NAMES = [name for key in OVERVIEW_KEYS for name in re.findall(r"^view\('(\w+)'\)$", key.action)]


def test_every_view_has_a_key() -> None:
    files = {module.name for module in iter_modules(views.__path__)}
    # What they have in common, and the one that a key opens on one of its parts.
    assert {*NAMES} == files - {"view", "process"}


async def test_every_view_has_its_title() -> None:
    idle = make_process_device(sm_utilization_percent=0)
    found = Finding(rule="r", level="warn", sentence=SafeText("is wrong"))
    process = make_process(pid=1000, devices=(idle,))
    titles = {"u": "Users", "m": "Links", "w": "Findings:", "d": "GPU ", "enter": "1000  python"}
    async with on_screen(make_snapshot(processes=(process,), findings=(found,))) as on:
        for key, title in titles.items():
            await on.press(key)
            for size in ((140, 40), (80, 24)):
                await on.resize(*size)
                assert on.lines[1].strip().startswith(title)
            await on.press("escape")


@pytest.mark.parametrize("name", NAMES)
def test_every_view_in_the_keymap_can_be_opened_and_owns_its_keys(name: str) -> None:
    found = view_class(name)
    assert issubclass(found, View)
    assert found.lines is not View.lines
    assert {binding.action for binding in bindings(found.KEYS)} == {
        binding.action for binding in found.BINDINGS
    }
    for key in found.KEYS:
        assert hasattr(found, f"action_{key.action.partition('(')[0]}")
