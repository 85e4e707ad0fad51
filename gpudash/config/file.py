"""Changes to the text of a TOML file that leave everything else in it as it was written."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from gpudash.config.settings import (
    Choices,
    Declared,
    Settings,
    SomeOf,
    declared,
    nearest,
    plain,
    shown,
)
from gpudash.model.errors import SettingsError
from gpudash.model.text import clean

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


_NAME = "config.toml"
_LIMIT = 1 << 18


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the file: $GPUDASH_CONFIG, or gpudash/config.toml in the folder for settings."""
    chosen = environ.get("GPUDASH_CONFIG")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    folder = environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(folder):
        return os.path.join(folder, "gpudash", _NAME)
    if sys.platform == "linux":
        # What platformdirs would answer, without the time that its import takes.
        return os.path.join(os.path.expanduser("~"), ".config", "gpudash", _NAME)
    from platformdirs import user_config_dir

    return os.path.join(user_config_dir("gpudash", appauthor=False), _NAME)


def read(path: str) -> str | None:
    """Return the text of the file, None if there is none.

    Raises OSError if it may not be read, ValueError if it is no text or no file of settings.
    """
    try:
        # A pipe would block for ever otherwise.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError("no regular file")
    with open(descriptor, "rb") as file:
        raw = file.read(_LIMIT + 1)
    if len(raw) > _LIMIT:
        raise ValueError(f"larger than {_LIMIT >> 10} KiB")
    return raw.decode()


class FileChangedError(Exception):
    """Somebody else wrote the file since it was read; it was left as it is."""


def replace(path: str, text: str, *, was: str | None) -> None:
    """Replace the file by a new one, all at once and for its owner's eyes only.

    A symbolic link stays and the file that it points to is replaced, unless the link, the file or
    its folder is somebody else's. Raises OSError, SettingsError for what belongs to others, and
    FileChangedError if the file no longer says what it said when it was read, None for no file.
    """
    if os.path.islink(path):
        _require_own(os.lstat(path), path)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    _make(folder)
    # From here on the folder is held open, so that nobody can put another in its place.
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        _require_own(os.fstat(within), folder)
        with suppress(FileNotFoundError):
            _require_own(os.stat(name, dir_fd=within, follow_symlinks=False), target)
        _write(name, text.encode(), within, None if was is None else was.encode())
    finally:
        os.close(within)


def _make(folder: str) -> None:
    """Create a folder that is missing, but none in the home of another: `sudo` may keep $HOME."""
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
        return file.read(_LIMIT + 1)


def _remove(name: str, within: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=within)


_MOST_BROKEN_LINES = 10
_READ_ONLY = "read_only"


def load(path: str, choices: Choices) -> tuple[Settings, list[str]]:
    """Return the settings of a file and its mistakes; everything that is valid counts.

    Without a file they are the defaults. Each mistake is one line that names the file, the
    setting and what is valid. Nothing raises.
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
        wrong.append(f"whether {_READ_ONLY} is set cannot be told: it is taken to be")
    return Settings(**values), [_line(path, mistake) for mistake in mistakes + wrong]


def is_read_only(path: str) -> bool:
    """Return whether a file forbids to signal processes; False without a file.

    Raises SettingsError where that cannot be told, for then it may.
    """
    try:
        text = read(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(_line(path, f"cannot be read: {reason}")) from None
    document, mistakes = _parsed(text or "")
    values, wrong = _checked({_READ_ONLY: document.get(_READ_ONLY, False)}, Choices())
    if _may_forbid_signals(text or "", document, values):
        within = f"{_READ_ONLY} stands in a table: put it above all [tables]"
        raise SettingsError(_line(path, [*wrong, *mistakes, within][0]))
    return bool(values[_READ_ONLY])


def _may_forbid_signals(text: str, document: dict[str, Any], values: dict[str, Any]) -> bool:
    """Whether a file names the setting that forbids signals in a way that makes no sense."""
    if _READ_ONLY in document:
        return _READ_ONLY not in values
    return any(_READ_ONLY in line.partition("#")[0] for line in text.split("\n"))


def _checked(document: dict[str, Any], choices: Choices) -> tuple[dict[str, Any], list[str]]:
    """Return the valid values of a document, and what is wrong with the others."""
    values: dict[str, Any] = {}
    mistakes: list[str] = []
    for name, value in document.items():
        setting = declared().get(name)
        if setting is None:
            hint = f"{nearest(name, declared())}choose from {', '.join(declared())}"
            mistakes.append(f"{shown(name)} is no setting: {hint}")
            continue
        checked = setting.kind.check(value, choices)
        for within, problem in checked.mistakes:
            mistakes.append(f"{name}.{within}: {problem}" if within else f"{name}: {problem}")
        if checked.value is not None:
            values[name] = checked.value
    return values, mistakes


def _parsed(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return what the document says without the lines that are no TOML, and these mistakes."""
    lines = text.split("\n")
    mistakes: list[str] = []
    while len(mistakes) < _MOST_BROKEN_LINES:
        try:
            return parse("\n".join(lines)), mistakes
        except ValueError as error:
            file = _line_number(error)
            if file is None or not lines[file - 1].strip():
                mistakes.append(f"is no TOML: {error}; the defaults are used")
                break
            mistakes.append(f"line {file} is no TOML and left out: {error}")
            lines[file - 1] = ""
    return {}, mistakes


def _line_number(error: ValueError) -> int | None:
    """Return the line that TOML's reader names: its error has it as text only before 3.14."""
    digits = str(error).rpartition("(at line ")[2].partition(",")[0]
    return int(digits) if digits.isdecimal() else None


def _line(path: str, mistake: str) -> str:
    return clean(f"{path}: {mistake}")


_ATTEMPTS = 5
"""How often a file is read anew that somebody else wrote in between."""


def save(settings: Settings, path: str, *, since: Settings, choices: Choices) -> None:
    """Write what differs from `since`, which was loaded or saved last; the rest of the file stays.

    Values that were never changed do not enter the file, so that better defaults reach everybody;
    comments, unknown keys, and values with mistakes stay. Raises SettingsError.
    """
    if settings == since:
        return
    try:
        for _attempt in range(_ATTEMPTS):
            with suppress(FileChangedError):
                text = read(path)
                changes = _changes(settings, since)
                _keep_mistakes(changes, parse(text or ""), choices)
                replace(path, changed(text or "", changes), was=text)
                return
        raise ValueError("somebody else writes it all the time")
    except OSError as error:
        raise _not_saved(path, error.strerror or str(error)) from None
    except (ValueError, SettingsError) as error:
        raise _not_saved(path, str(error)) from None


def _changes(settings: Settings, since: Settings) -> dict[Path, Any]:
    """Return the keys that are to be set, or taken out where they are None."""
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
    """Let a list have its mistakes still: its owner is to mend them, or a newer version knows."""
    for path, value in changes.items():
        kind = declared()[path[0]].kind
        if isinstance(kind, SomeOf) and value is not None:
            changes[path] = [*value, *kind.mistaken(document.get(path[0]), choices)]


def _not_saved(path: str, reason: str) -> SettingsError:
    return SettingsError(clean(f"settings not saved to {path}: {reason}"))


_HEAD = """\
Settings of gpudash. Take away the # before a setting to change it; without its line it keeps
its default, which is what stands here."""
_WIDTH = 96


def template(choices: Choices) -> str:
    """Return a file in which everything is explained and commented out: it changes nothing."""
    parts = [_comment(_HEAD), *(_part(setting, choices) for setting in declared().values())]
    return "\n\n".join(parts) + "\n"


def _part(setting: Declared, choices: Choices) -> str:
    about = _comment(f"{setting.help} Valid: {setting.kind.valid(choices)}.")
    if isinstance(setting.default, dict):
        return f'{about}\n# [{setting.name}]\n# action = ["key"]'
    return f"{about}\n# {setting.name} = {rendered(plain(setting.default))}"


def _comment(text: str) -> str:
    import textwrap

    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH))
