"""Keys that a person gave to other actions, and those that a read-only screen does without."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudash.tui.keymap import KEYS, SCREENS, Key
from gpudash.tui.keymap.recorded import live_keys, recorded_keys

if TYPE_CHECKING:
    from textual.app import App

_RENAMED = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Where Textual's names of keys are not Unicode's."""

UNBOUND = "unbound"
"""What an action without keys is bound to: no key is called that."""

_NAMED = (
    *("enter", "escape", "tab", "space", "backspace", "delete", "insert"),
    *("up", "down", "left", "right", "home", "end", "pageup", "pagedown"),
)

_BY_CHARACTER = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "plus": "+",
    "minus": "-",
    "comma": ",",
    "full_stop": ".",
    "space": "Space",
    "enter": "Enter",
    "escape": "Esc",
}

_WORDS = {"⏎": "Enter", "↓": "Down", "↑": "Up", "→": "Right", "←": "Left"}
"""What keys are called where only ASCII is drawn."""

Remapped = Mapping[str, Sequence[str]]
"""Ids of actions with the keys that they have instead of their own."""


def actions() -> tuple[str, ...]:
    """Return the ids of the actions that can be given other keys."""
    return tuple(dict.fromkeys(key.id for key in KEYS if "{key}" not in key.action))


def key_names() -> tuple[str, ...]:
    """Return what keys are called that settings may name, beside the characters themselves."""
    characters = (_name(chr(code)) for code in range(33, 127))
    return (*_NAMED, *(f"f{n}" for n in range(1, 25)), *(n for n in characters if len(n) > 1))


def keys_in_force(
    keys: Iterable[Key],
    remapped: Remapped,
    *,
    read_only: bool = False,
    ascii: bool = False,
    recorded: bool = False,
) -> tuple[Key, ...]:
    """Return the keys that work: with others where they were given, without what may kill."""
    found = []
    for key in recorded_keys(keys) if recorded else live_keys(keys):
        if key.signals and read_only:
            continue
        given = remapped.get(key.id)
        if given is None:
            found.append(_in_words(key) if ascii else key)
        elif given:
            found.append(key._replace(keys=",".join(_names(given)), shown=_shown(given[0])))
    return tuple(found)


def remap(app: App[int], remapped: Remapped) -> None:
    """Give the bindings of an app and of its screens other keys."""
    app.set_keymap({name: ",".join(_names(keys)) or UNBOUND for name, keys in remapped.items()})


def clashes(remapped: Remapped) -> list[str]:
    """Return a line for each action that loses a key which was given to another one."""
    lines: list[str] = []
    for keys in SCREENS:
        ids = {key.id for key in keys}
        given = {
            key: action
            for action, given_keys in remapped.items()
            if action in ids
            for key in _names(given_keys)
        }
        for key in keys:
            taken = [name for name in key.keys.split(",") if given.get(name, key.id) != key.id]
            if key.id not in remapped:
                lines += [f"{given[name]} takes the key {name} from {key.id}" for name in taken]
    return list(dict.fromkeys(lines))


def _in_words(key: Key) -> Key:
    """Return a key as ASCII shows it."""
    if key.shown.isascii():
        return key
    return key._replace(shown="".join(_WORDS.get(char, char) for char in key.shown))


def _names(keys: Sequence[str]) -> list[str]:
    """Return what Textual calls keys, which may be written as the character that they type."""
    return [_name(key) if len(key) == 1 else key for key in keys]


def _name(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return _RENAMED.get(name, name)


def _shown(key: str) -> str:
    """Return a key as help and footer write it: `^X`, `F9`, `?`."""
    if key.startswith("ctrl+"):
        return f"^{key.removeprefix('ctrl+').upper()}"
    if key[:1] == "f" and key[1:].isdecimal():
        return key.upper()
    return _BY_CHARACTER.get(key, key)
