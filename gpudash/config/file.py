"""Changes to the text of a TOML file that leave everything else in it as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gpudash.config.statements import Path, Statement, parse, statements

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


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
            raise ValueError(f"{name} is no table")
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value


def _edited(text: str, path: Path, value: Any, wanted: Mapping[str, Any]) -> str:
    """Return the text with one change made where its key stands, or should."""
    for statement in statements(text):
        if statement.value is None:
            continue
        if statement.path == path:
            if value is None:
                return text[: statement.start] + text[statement.end :]
            return _with_value(text, statement.value, value)
        if statement.path == path[:-1]:
            # An inline table, keys = { kill = ["x"] }, is written anew as a whole.
            return _with_value(text, statement.value, wanted[path[0]])
    return text if value is None else _inserted(text, path, value, statements(text))


def _with_value(text: str, place: slice, value: Any) -> str:
    return text[: place.start] + rendered(value) + text[place.stop :]


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


def _with_line(text: str, place: int, line: str, newline: str) -> str:
    before = text[:place]
    if before and not before.endswith("\n"):
        before += newline
    return before + line + text[place:]


def _above_comment(text: str, place: int) -> int:
    """Return where the comment begins that stands right above the line at `place`."""
    while place > 0:
        above = text.rfind("\n", 0, place - 1) + 1
        if not text[above:place].lstrip().startswith("#"):
            break
        place = above
    return place


def _dotted(path: Path) -> str:
    return ".".join(map(_key, path))


def _key(name: str) -> str:
    return name if name and _BARE.issuperset(name) else rendered(name)
