"""Keys as Textual binds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudash.tui.keymap.key import Key

if TYPE_CHECKING:
    from textual.binding import Binding


def bindings(keys: Iterable[Key]) -> list[Binding]:
    """Return Textual's bindings for keys; `{key}` in an action is the key that was pressed."""
    from textual.binding import Binding

    found: list[Binding] = []
    for key in keys:
        if "{key}" in key.action:
            each = [(name, key.action.format(key=name)) for name in key.keys.split(",")]
            found += [Binding(name, action, key.help, show=False) for name, action in each]
        else:
            found.append(Binding(key.keys, key.action, key.help, show=False, id=key.id))
    return found
