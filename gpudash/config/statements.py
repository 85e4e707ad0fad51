"""Where each statement of a TOML document stands in its text."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

_AT_END = "(at end of document)"
"""What TOML's reader says instead of a line and a column there."""

Path = tuple[str, ...]
"""A key with the tables that it is in: ("keys", "kill")."""


class Statement(NamedTuple):
    """A `key = value`, or the header of a table, and where it stands in the text."""

    path: Path
    table: Path
    """The table that its key is written in."""
    start: int
    end: int
    """Behind its last line."""
    value: slice | None
    """Where its value stands, without a comment; None in a header."""


def parse(text: str) -> dict[str, Any]:
    """Return what a document says.

    Raises ValueError, one with the place of the mistake, for a text that is no TOML.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        document: dict[str, Any] = tomllib.loads(text)
        return document
    except RecursionError:
        raise ValueError("too deeply nested") from None
    except ValueError as error:
        line = text.rstrip().count("\n") + 1
        told = str(error).replace(_AT_END, f"(at its end, line {line})")
        raise ValueError(told) from None


def statements(text: str) -> list[Statement]:
    """Return what a valid document states, from top to bottom."""
    found: list[Statement] = []
    table: Path = ()
    at = 0
    while at < len(text):
        start, at = at, _end_of_blank(text, at)
        if at > start:
            continue
        if text[_behind_space(text, start)] == "[":
            at, stop = _end(text, start)
            table = _path(text[start:stop])
            found.append(Statement(table, table, start, at, None))
            continue
        equals = _equals(text, start)
        at, stop = _end(text, equals + 1)
        path = table + _path(f"{text[start:equals]}=0")
        value = slice(_behind_space(text, equals + 1), stop)
        found.append(Statement(path, table, start, at, value))
    return found


def _path(line: str) -> Path:
    """Return the keys that a header or a `key=0` names, which TOML's own reader takes apart."""
    names: list[str] = []
    tree: Any = parse(line)
    while isinstance(tree, (dict, list)) and tree:
        if isinstance(tree, list):
            tree = tree[0]
            continue
        [(name, tree)] = tree.items()
        names.append(name)
    return tuple(names)


def _behind_space(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t":
        at += 1
    return at


def _end_of_blank(text: str, start: int) -> int:
    """Return the end of a line that states nothing, or `start` if it does."""
    at = _behind_space(text, start)
    if at < len(text) and text[at] not in "#\r\n":
        return start
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _equals(text: str, at: int) -> int:
    """Return where the = of a statement stands, which a quoted key may hold as well."""
    while text[at] != "=":
        at = _behind_string(text, at) if text[at] in "\"'" else at + 1
    return at


def _end(text: str, at: int) -> tuple[int, int]:
    """Return the end of a statement's last line, and of what it states without a comment."""
    depth, stop = 0, at
    while at < len(text):
        char = text[at]
        if char == "\n" and depth == 0:
            return at + 1, stop
        if char == "#":
            at = (text.find("\n", at) + 1 or len(text) + 1) - 1
            continue
        depth += (char in "[{") - (char in "]}")
        at = _behind_string(text, at) if char in "\"'" else at + 1
        stop = stop if char.isspace() else at
    return at, stop


def _behind_string(text: str, at: int) -> int:
    """Return where a string that begins here has ended, one of several lines included."""
    quote = text[at]
    closing = quote * 3 if text.startswith(quote * 3, at) else quote
    at += len(closing)
    while not text.startswith(closing, at):
        at += 2 if text[at] == "\\" and quote == '"' else 1
    at += len(closing)
    # Up to two more quotes before the three that close are part of the text.
    while len(closing) == 3 and text.startswith(quote, at):
        at += 1
    return at
