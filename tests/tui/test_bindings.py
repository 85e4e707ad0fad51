import os
import signal
from pkgutil import iter_modules

import pytest
from textual.keys import _character_to_key

from gpudash.feed.protocol import FeedState
from gpudash.tui import views
from gpudash.tui.app import GpudashApp
from gpudash.tui.bindings import actions, clashes, keys_in_force, shown_key
from gpudash.tui.keymap import FLEET_PAGE_KEYS, HOST_KEYS, KEYS, OVERVIEW_KEYS, SCREENS, Key
from gpudash.tui.overview import Overview
from gpudash.tui.page import page_class
from tests.tui.stage import busy_snapshot, on_screen


def by_id(**remapped: list[str]) -> dict[str, list[str]]:
    return {name.replace("__", "."): keys for name, keys in remapped.items()}


def test_every_id_names_one_action() -> None:
    assert len({key.id for key in KEYS}) == len(KEYS)


def test_no_key_of_a_screen_is_given_twice() -> None:
    for keys in SCREENS:
        names = [name for key in keys for name in key.keys.split(",")]
        assert sorted(names) == sorted(set(names))


NAMES = [each.name for each in iter_modules(views.__path__) if each.name != "view"]
VIEWS = [page_class(f"views.{name}.{name.capitalize()}View") for name in NAMES]
PATHS = [key.action.split("'")[1] for key in FLEET_PAGE_KEYS if key.action.startswith("open_page")]
FLEET = [page_class(f"fleet.{path}") for path in PATHS]


@pytest.mark.parametrize(
    ("page", "keys"),
    [
        (Overview, OVERVIEW_KEYS),
        *((page, page.KEYS) for page in FLEET),
        *((page, FLEET_PAGE_KEYS) for page in FLEET),
        *((view, HOST_KEYS) for view in VIEWS),
        *((view, view.KEYS) for view in VIEWS),
    ],
)
def test_every_key_of_a_page_has_its_action(page: type, keys: tuple[Key, ...]) -> None:
    for key in keys:
        of_app, _, name = key.action.partition("(")[0].rpartition(".")
        assert hasattr(GpudashApp if of_app else page, f"action_{name}"), key.id


def test_the_keys_of_every_page_of_a_host_are_those_of_a_screen() -> None:
    assert [view for view in VIEWS if view.KEYS not in SCREENS] == []


def test_a_remapped_key_is_shown_as_it_is_typed() -> None:
    remapped = by_id(sort__reverse=["ctrl+r"], process__tag=["?"], sort__next=[])
    keys = {key.id: key for key in keys_in_force(OVERVIEW_KEYS, remapped)}
    assert (keys["sort.reverse"].keys, keys["sort.reverse"].shown) == ("ctrl+r", "^R")
    assert (keys["process.tag"].keys, keys["process.tag"].shown) == ("question_mark", "?")
    assert "sort.next" not in keys
    assert keys["sort.previous"] in OVERVIEW_KEYS


def test_a_text_names_the_key_in_force() -> None:
    remapped = by_id(sort__reverse=["f7", "ctrl+r"], sort__next=[])
    keys = keys_in_force(OVERVIEW_KEYS, remapped)
    names = ("sort.reverse", "sort.next", "sort.previous")
    assert [shown_key(keys, name) for name in names] == ["F7", "no key", "<"]


def test_digits_stay_with_their_gpus() -> None:
    assert "view.gpu" not in actions()
    assert "process.tag" in actions()


@pytest.mark.parametrize("character", ["/", "?", "-", "+", "_", "@", "\\", "a", "Z", "[", "§"])
def test_characters_are_named_as_textual_names_them(character: str) -> None:
    remapped = by_id(sort__reverse=[character])
    keys = {key.id: key.keys for key in keys_in_force(OVERVIEW_KEYS, remapped)}
    assert keys["sort.reverse"] == _character_to_key(character)


@pytest.mark.parametrize(
    ("remapped", "pressed", "screen"),
    [({"screen.help": ["j"]}, "j", "HelpScreen"), ({"view.users": ["x"]}, "x", "UsersView")],
)
async def test_a_key_that_is_given_to_an_action_is_its_own_on_every_page(
    remapped: dict[str, list[str]], pressed: str, screen: str
) -> None:
    async with on_screen(busy_snapshot(), "d", pressed, keys=remapped, size=(100, 30)) as on:
        assert type(on.app.screen).__name__ == screen
    assert clashes(remapped)


async def test_the_palette_lists_what_works_alone() -> None:
    async with on_screen(busy_snapshot(), "m", "colon", *"kill the proc", size=(100, 60)) as on:
        assert "no matches" in on.text
        await on.press("escape", "q", "colon", *"kill the proc")
        assert "Kill the process" in on.text


async def test_a_signal_releases_the_gpus_whatever_is_open() -> None:
    async with on_screen(busy_snapshot(), "h", size=(100, 30)) as on:
        os.kill(os.getpid(), signal.SIGUSR1)
        await on.pilot.pause()
        assert on.feed.state is FeedState.RELEASED
