"""The settings file: its location, loading with its mistakes, and saving with its comments."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import fields

from gpudash.config.settings import (
    Choices,
    Declared,
    Settings,
    SomeOf,
    declared,
    example_of,
    nearest,
    plain,
    shown,
)
from gpudash.model.errors import SettingsError
from gpudash.model.text import clean

_READ_ONLY = "read_only"
_MAX_BYTES = 1 << 18
_MAX_BROKEN_LINES = 10
_MAX_ATTEMPTS = 5
"""How often to retry after another process wrote the file in between."""

_HEAD = "Settings of gpudash with their defaults. Remove the # before a setting to change it."
_WIDTH = 96
_AT_END = "(at end of document)"
"""Reported by the TOML parser in place of a line and a column."""

Path = tuple[str, ...]
"""A key with its tables: ("keys", "kill")."""


class FileChangedError(Exception):
    """Another process wrote the file since it was read; it was left as it is."""


def load(path: str, choices: Choices) -> tuple[Settings, list[str]]:
    """Return the settings of a file and its mistakes; everything valid counts.

    Without a file, they are the defaults. Each mistake is one line that names the file, the setting
    and the valid values. Never raises.
    """
    try:
        text = read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        return Settings(), [_line(path, f"cannot be read: {reason}; the defaults are used")]
    if text is None:
        return Settings(), []
    document, mistakes = _parsed(text)
    values, wrong = _checked(document, choices)
    if _may_forbid_signals(text, document, values):
        values[_READ_ONLY] = True
        wrong.append(f"whether {_READ_ONLY} is set is unclear: taken as true")
    return Settings(**values), [_line(path, mistake) for mistake in mistakes + wrong]


def is_read_only(path: str) -> bool:
    """Return whether a file forbids signals to processes; False without a file.

    Raises SettingsError if that is unclear, as it may.
    """
    try:
        text = read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(_line(path, f"cannot be read: {reason}")) from None
    if text is None:
        return False
    document, mistakes = _parsed(text)
    values, wrong = _checked({_READ_ONLY: document.get(_READ_ONLY, False)}, Choices())
    if _may_forbid_signals(text, document, values):
        within = f"{_READ_ONLY} is inside a table: move it above all [tables]"
        raise SettingsError(_line(path, [*wrong, *mistakes, within][0]))
    return bool(values[_READ_ONLY])


def _may_forbid_signals(text: str, document: dict[str, Any], values: dict[str, Any]) -> bool:
    """Whether a file mentions `read_only` in a way that is not understood."""
    if _READ_ONLY in document:
        return _READ_ONLY not in values
    return any(_READ_ONLY in line.partition("#")[0] for line in text.split("\n"))


def _checked(document: dict[str, Any], choices: Choices) -> tuple[dict[str, Any], list[str]]:
    """Return the valid values of a document, and the errors in the others."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, value in document.items():
        setting = declared().get(name)
        if setting is None:
            hint = f"{nearest(name, declared())}choose from {', '.join(declared())}"
            mistakes.append(f"{shown(name)} is not a setting: {hint}")
            continue
        checked = setting.kind.check(value, choices)
        for within, problem in checked.mistakes:
            mistakes.append(f"{name}.{within}: {problem}" if within else f"{name}: {problem}")
        if checked.value is not None:
            values[name] = checked.value
    return values, mistakes


def _parsed(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a text without the lines that are not TOML, and these mistakes."""
    lines = text.split("\n")
    mistakes: list[str] = []
    while len(mistakes) < _MAX_BROKEN_LINES:
        try:
            return parse("\n".join(lines)), mistakes
        except ValueError as error:
            number = _line_number(error)
            if number is None or not lines[number - 1].strip():
                mistakes.append(f"is not TOML: {error}; the defaults are used")
                break
            mistakes.append(f"line {number} is not TOML and left out: {error}")
            lines[number - 1] = ""
    return {}, mistakes


def parse(text: str) -> dict[str, Any]:
    """Return the values of a document.

    Raises ValueError with the line of the mistake for a text that is not TOML.
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


def _line_number(error: ValueError) -> int | None:
    """Return the line in a TOML error, which has it only as text before Python 3.14."""
    digits = str(error).rpartition("(at line ")[2].partition(",")[0]
    return int(digits) if digits.isdecimal() else None


def _line(path: str, mistake: str) -> str:
    return clean(f"{path}: {mistake}")


def save(settings: Settings, path: str, *, since: Settings, choices: Choices) -> None:
    """Write what differs from `since`, as last loaded or saved; the rest of the file stays.

    Values that were never changed are not written, so that better defaults take effect; comments,
    unknown keys, and values with mistakes stay. Raises SettingsError.
    """
    if settings == since:
        return
    try:
        for _attempt in range(_MAX_ATTEMPTS):
            with suppress(FileChangedError):
                text = read(path)
                changes = _changes(settings, since)
                _keep_mistakes(changes, parse(text or ""), choices)
                replace(path, changed(text or "", changes), was=text)
                return
        raise ValueError("another process keeps writing it")
    except OSError as error:
        raise _not_saved(path, error.strerror or str(error)) from None
    except (ValueError, SettingsError) as error:
        raise _not_saved(path, str(error)) from None


def _changes(settings: Settings, since: Settings) -> dict[Path, Any]:
    """Return the keys to set, or to remove if None."""
    changes: dict[Path, Any] = {}
    for name in declared():
        new, old = getattr(settings, name), getattr(since, name)
        if isinstance(new, Mapping):
            actions = dict.fromkeys([*old, *new])
            changes |= {(name, a): new.get(a) for a in actions if new.get(a) != old.get(a)}
        elif new != old:
            changes[(name,)] = new
    return {path: None if value is None else plain(value) for path, value in changes.items()}


def _keep_mistakes(changes: dict[Path, Any], document: Mapping[str, Any], choices: Choices) -> None:
    """Keep the unknown names of a list: they may be typos, or known to a newer version."""
    for path, value in changes.items():
        kind = declared()[path[0]].kind
        if isinstance(kind, SomeOf) and value is not None:
            changes[path] = [*value, *kind.mistaken(document.get(path[0]), choices)]


def changed(text: str, changes: Mapping[Path, Any]) -> str:
    """Return the document with keys set to new values, or removed if the value is None.

    Other lines, their comments and their order stay. Raises ValueError if the document is not TOML,
    or so unusual that the changes would go wrong.
    """
    import tomlkit

    wanted = parse(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    for path, value in changes.items():
        if len(path) == 1 and path[0] not in wanted and value is not None:
            text = _with_key(text, path[0])
    try:
        document = tomlkit.parse(text)
        for path, value in changes.items():
            for tree in (wanted, document):
                _put(tree, path, value)
        text = tomlkit.dumps(document)
    except tomlkit.exceptions.TOMLKitError as error:
        raise ValueError(error) from None
    if _without_empty(parse(text)) != _without_empty(wanted):
        raise ValueError("it is written in a way that gpudash cannot change")
    return text.replace("\n", newline)


def _with_key(text: str, name: str) -> str:
    """Return the text with a new key below its explanation, or above the first table's comment.

    tomlkit would put it between a table and the comment that belongs to it.
    """
    example = re.search(rf"(?m)^# {name} = .*\n", text)
    header = re.search(r"(?m)^(?:#.*\n)*\[", text)
    if example:
        extended = f"{text[: example.end()]}{name} = 0\n{text[example.end() :]}"
    elif header:
        extended = f"{text[: header.start()]}{name} = 0\n\n{text[header.start() :]}"
    else:
        return text
    # Text that looks like these may be part of a long string or list.
    with suppress(ValueError):
        if parse(extended) == {**parse(text), name: 0}:
            return extended
    return text


def _put(tree: Any, path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
        if not isinstance(tree, dict):
            raise ValueError(f"{name} is not a table")
    if value is None:
        tree.pop(path[-1], None)
    else:
        tree[path[-1]] = value


def _without_empty(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document without empty tables: one may be removed, or stay, with its last key."""
    return {name: value for name, value in tree.items() if value != {}}


def rendered(value: object) -> str:
    """Return a value as TOML writes it in one line."""
    import tomlkit

    return str(tomlkit.item(value).as_string()) or "{}"


def _not_saved(path: str, reason: str) -> SettingsError:
    return SettingsError(clean(f"settings not saved to {path}: {reason}"))


def template(choices: Choices) -> str:
    """Return a file with every setting explained and commented out."""
    parts = [_comment(_HEAD), *(_part(setting, choices) for setting in declared().values())]
    return "\n\n".join(parts) + "\n"


def _part(setting: Declared, choices: Choices) -> str:
    about = _comment(f"{setting.help} Valid: {setting.kind.valid(choices)}.")
    if isinstance(setting.default, dict):
        return f'{about}\n# [{setting.name}]\n# action = ["key"]'
    if isinstance(setting.default, Struct):
        lines = [_comment(setting.help), f"# [{setting.name}]"]
        for field in fields(setting.default):
            lines.append(_comment(get_args(field.type)[1].description))
            lines.append(f"# {field.name} = {example_of(field)}")
        return "\n".join(lines)
    return f"{about}\n# {setting.name} = {rendered(plain(setting.default))}"


def _comment(text: str) -> str:
    import textwrap

    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH))


def read(path: str) -> str | None:
    """Return the text of the file, None if there is none.

    Raises OSError if it is unreadable, ValueError if it is not a text file.
    """
    try:
        # A pipe would otherwise block for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("not a regular file")
    with open(descriptor, "rb") as file:
        raw = file.read(_MAX_BYTES + 1)
    if len(raw) > _MAX_BYTES:
        raise ValueError(f"larger than {_MAX_BYTES >> 10} KiB")
    return raw.decode()


def replace(path: str, text: str, *, was: str | None) -> None:
    """Replace the file by a new one, atomically and readable only by its owner.

    A symbolic link stays and the file that it points to is replaced, unless the link, the file or
    its folder belongs to another user. Raises OSError, SettingsError for what belongs to others,
    and FileChangedError if the file has changed since `was` was read, None for no file.
    """
    if os.path.islink(path):
        _require_own(os.lstat(path), path)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _make(folder)
    # The folder is held open, so that it cannot be swapped for another.
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_own(os.fstat(within), folder)
        with suppress(FileNotFoundError):
            _require_own(os.stat(name, dir_fd=within, follow_symlinks=False), target)
        _write(name, text.encode(), within, None if was is None else was.encode())
    finally:
        os.close(within)


def _make(folder: str) -> None:
    """Create a missing folder, but not in another user's home: `sudo` may keep $HOME."""
    above = folder
    while not os.path.exists(above):
        above = os.path.dirname(above)
    status = os.stat(above)
    if above != folder and status.st_uid != 0:
        _require_own(status, above)
    os.makedirs(folder, mode=0o700, exist_ok=True)


def _require_own(status: os.stat_result, path: str) -> None:
    if status.st_uid != os.geteuid():
        raise SettingsError(f"{clean(path)} belongs to another user (uid {status.st_uid})")


def _write(name: str, content: bytes, within: int, was: bytes | None) -> None:
    draft = f".{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    _remove(draft, within)
    descriptor = os.open(draft, flags, 0o600, dir_fd=within)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        if _content(name, within) != was:
            raise FileChangedError
        os.replace(draft, name, src_dir_fd=within, dst_dir_fd=within)
    except BaseException:
        _remove(draft, within)
        raise


def _content(name: str, within: int) -> bytes | None:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=within)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        return file.read(_MAX_BYTES + 1)


def _remove(name: str, within: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=within)
