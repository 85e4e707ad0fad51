from __future__ import annotations

import re

import pytest

from gpudash.tui.bindings import bindings
from gpudash.tui.host import view_class
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.views.view import View

NAMES = [name for key in OVERVIEW_KEYS for name in re.findall(r"^view\('(\w+)'\)$", key.action)]


def test_keymap_names_views() -> None:
    assert {"device", "findings", "links", "users"} <= {*NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_every_view_in_the_keymap_can_be_opened_and_owns_its_keys(name: str) -> None:
    found = view_class(name)
    assert issubclass(found, View)
    assert {binding.action for binding in bindings(found.KEYS)} == {
        binding.action for binding in found.BINDINGS
    }
    for key in found.KEYS:
        assert hasattr(found, f"action_{key.action.partition('(')[0]}")
