import re
from pkgutil import iter_modules

import pytest

from gpudash.tui import views
from gpudash.tui.bindings import bindings
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.page import page_class
from gpudash.tui.views.view import View

NAMES = [name for key in OVERVIEW_KEYS for name in re.findall(r"^view\('(\w+)'\)$", key.action)]


def test_every_view_has_a_key() -> None:
    files = {module.name for module in iter_modules(views.__path__)}
    # What they have in common, and the one that a key opens on one of its parts.
    assert {*NAMES} == files - {"view", "process"}


@pytest.mark.parametrize("name", NAMES)
def test_every_view_in_the_keymap_can_be_opened_and_owns_its_keys(name: str) -> None:
    found = page_class(f"views.{name}.{name.capitalize()}View")
    assert issubclass(found, View)
    assert found.lines is not View.lines
    assert {binding.action for binding in bindings(found.KEYS)} == {
        binding.action for binding in found.BINDINGS
    }
    for key in found.KEYS:
        assert hasattr(found, f"action_{key.action.partition('(')[0]}")
