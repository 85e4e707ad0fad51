import pytest
from textual.keys import _character_to_key

from gpudash.tui.app import GpudashApp
from gpudash.tui.bindings import actions, clashes, keys_in_force, shown_key
from gpudash.tui.fleet.page import PAGES, page_class
from gpudash.tui.host import view_class
from gpudash.tui.keymap import FLEET_PAGE_KEYS, HOST_KEYS, KEYS, OVERVIEW_KEYS, SCREENS, Key
from gpudash.tui.overview import Overview


def by_id(**remapped: list[str]) -> dict[str, list[str]]:
    return {name.replace("__", "."): keys for name, keys in remapped.items()}


def test_every_id_names_one_action() -> None:
    assert len({key.id for key in KEYS}) == len(KEYS)


def test_no_key_of_a_screen_is_given_twice() -> None:
    for keys in SCREENS:
        names = [name for key in keys for name in key.keys.split(",")]
        assert sorted(names) == sorted(set(names))


@pytest.mark.parametrize(
    ("page", "keys"),
    [
        (Overview, OVERVIEW_KEYS),
        *((page_class(name), page_class(name).KEYS) for name in PAGES),
        *((page_class(name), FLEET_PAGE_KEYS) for name in PAGES),
        *((view_class(name), HOST_KEYS) for name in ("device", "findings", "links", "users")),
        *((view_class(name), view_class(name).KEYS) for name in ("device", "process")),
    ],
)
def test_every_key_of_a_page_has_its_action(page: type, keys: tuple[Key, ...]) -> None:
    for key in keys:
        of_app, _, name = key.action.partition("(")[0].rpartition(".")
        assert hasattr(GpudashApp if of_app else page, f"action_{name}"), key.id


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


def test_a_read_only_screen_has_no_key_that_signals() -> None:
    keys = keys_in_force(KEYS, {}, read_only=True)
    assert [key for key in KEYS if key not in keys]
    assert not [key for key in keys if "kill" in key.action or "kill" in key.help]


def test_a_taken_key_is_reported_in_one_line() -> None:
    assert clashes(by_id(sort__reverse=["p"])) == ["sort.reverse takes the key p from time.pause"]
    assert clashes(by_id(sort__reverse=["p"], time__pause=["f7"])) == []
    assert clashes(by_id(sort__reverse=["f7"])) == []


def test_digits_stay_with_their_gpus() -> None:
    assert "gpus.toggle" not in actions()
    assert "process.tag" in actions()


@pytest.mark.parametrize("character", ["/", "?", "-", "+", "_", "@", "\\", "a", "Z", "[", "§"])
def test_characters_are_named_as_textual_names_them(character: str) -> None:
    remapped = by_id(sort__reverse=[character])
    keys = {key.id: key.keys for key in keys_in_force(OVERVIEW_KEYS, remapped)}
    assert keys["sort.reverse"] == _character_to_key(character)
