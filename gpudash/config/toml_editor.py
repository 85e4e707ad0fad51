"""Changes to the text of a TOML file that keep everything else as written."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

_AT_END = "(at end of document)"
"""What TOML's parser reports instead of a line and a column there."""

Path = tuple[str, ...]
"""A key with the tables that it is in: ("keys", "kill")."""

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


class Statement(NamedTuple):
    """A `key = value`, or the header of a table, and its position in the text."""

    path: Path
    table: Path
    """The table that its key is written in."""
    start: int
    end: int
    """Behind its last line."""
    value: slice | None
    """The position of its value, without a comment; None for a header."""


def parse(text: str) -> dict[str, Any]:
    """Return the values of a document.

    Raises ValueError, one with the line of the mistake, for a text that is not TOML.
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
        message = str(error).replace(_AT_END, f"(at its end, line {line})")
        raise ValueError(message) from None


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
    """Return the keys that a header or a `key=0` names, taken apart by TOML's own parser."""
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
    """Return the index of the = of a statement; a quoted key may hold one as well."""
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


def changed(text: str, changes: Mapping[Path, Any]) -> str:
    """Return the document with keys set to new values, or taken out where the value is None.

    Lines of others, their comments and their order stay. Raises ValueError if the document is no
    TOML, or so unusual that the changes would not come out as asked for.
    """
    wanted = parse(text)
    for path, value in changes.items():
        _put(wanted, path, value)
        text = _edited(text, path, value, wanted)
    if _without_empty(parse(text)) != _without_empty(wanted):
        raise ValueError("it is written in a way that gpudash cannot change")
    return text


def rendered(value: Any) -> str:
    """Return a boolean, number, text, list or table as TOML in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(rendered, value))}]"
    if isinstance(value, Mapping):
        pairs = (f"{_key(name)} = {rendered(item)}" for name, item in value.items())
        return f"{{ {', '.join(pairs)} }}" if value else "{}"
    return repr(value)


def _without_empty(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without empty tables: one may go, or stay, with its last key."""
    return {name: value for name, value in tree.items() if value != {}}


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise ValueError(f"{name} is not a table")
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value


def _edited(text: str, path: Path, value: Any, wanted: Mapping[str, Any]) -> str:
    """Return the text with one change made where its key is, or should be."""
    for statement in statements(text):
        if statement.value is None:
            continue
        if statement.path == path:
            if value is None:
                return text[: statement.start] + text[statement.end :]
            return _with_value(text, statement.value, value)
        if statement.path == path[:-1]:
            # An inline table, keys = { kill = ["x"] }, is written again as a whole.
            return _with_value(text, statement.value, wanted[path[0]])
    return text if value is None else _inserted(text, path, value, statements(text))


def _with_value(text: str, span: slice, value: Any) -> str:
    return text[: span.start] + rendered(value) + text[span.stop :]


def _inserted(text: str, path: Path, value: Any, stated: list[Statement]) -> str:
    """Return the text with a new line behind the last one of its table."""
    newline = "\r\n" if "\r\n" in text else "\n"
    table, name = path[:-1], path[-1]
    line = f"{_key(name)} = {rendered(value)}{newline}"
    beside = [s for s in stated if _is_beside(s, table)]
    example = 0 if table else _behind_example(text, name, stated)
    if example:
        return _with_line(text, example, line, newline)
    if beside:
        # A table that is written as keys.kill = [...] can have no header of its own any more.
        prefix = "" if beside[-1].table == table else f"{_dotted(table)}."
        return _with_line(text, beside[-1].end, prefix + line, newline)
    if table:
        return _with_line(text, len(text), f"{newline}[{_dotted(table)}]{newline}{line}", newline)
    if not stated:
        return _with_line(text, len(text), line, newline)
    return _with_line(text, _above_comment(text, stated[0].start), line + newline, newline)


def _is_beside(statement: Statement, table: Path) -> bool:
    """Whether a new key of the table may follow: its header, or another key of it."""
    if not table:
        return statement.table == () and statement.value is not None
    return table in (statement.table, statement.path[:-1])


def _behind_example(text: str, name: str, stated: list[Statement]) -> int:
    """Return the end of the line `# name = ...` above all tables; 0 if there is none."""
    above = min((s.start for s in stated if s.value is None), default=len(text))
    start = f"\n{text}".find(f"\n# {name} = ", 0, above + 1)
    end = text.find("\n", max(start, 0)) + 1 or len(text)
    return end if start >= 0 and end <= above else 0


def _with_line(text: str, index: int, line: str, newline: str) -> str:
    before = text[:index]
    if before and not before.endswith("\n"):
        before += newline
    return before + line + text[index:]


def _above_comment(text: str, index: int) -> int:
    """Return where the comment begins that stands right above the line at `index`."""
    while index > 0:
        above = text.rfind("\n", 0, index - 1) + 1
        if not text[above:index].lstrip().startswith("#"):
            break
        index = above
    return index


def _dotted(path: Path) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if name and _BARE.issuperset(name) else rendered(name)
