"""The actions that can be called by their name, from the one table of keys."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.keymap import Key

_LEFT_OUT = frozenset({"screen.palette"})


class Entry(NamedTuple):
    """An action and how it is listed."""

    action: str
    choice: Choice
    of_view: bool
    """Whether the view above the overview carries it out."""


def entries(overview: Iterable[Key], view: Iterable[Key] = ()) -> dict[str, Entry]:
    """Return what can be called, by id: the view's own actions first."""
    found = {key.id: key for key in view}
    own = frozenset(found)
    for key in overview:
        found.setdefault(key.id, key)
    return {
        name: Entry(key.action, _choice(key), name in own)
        for name, key in found.items()
        if name not in _LEFT_OUT and "{key}" not in key.action
    }


def _choice(key: Key) -> Choice:
    """Return how an action is listed; its name in the settings finds it, too."""
    text = key.help.partition(" (")[0]
    words = f"{key.id} {key.group} {key.label} {key.words}"
    return Choice(key.id, text[:1].upper() + text[1:], key.shown, words=words)
