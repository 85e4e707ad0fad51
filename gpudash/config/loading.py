"""A file of settings -> `Settings`, and one line for every mistake in it."""

from __future__ import annotations

from typing import Any

from gpudash.config import place
from gpudash.config.declared import Settings, declared
from gpudash.config.settings import Choices, nearest, shown
from gpudash.config.statements import parse
from gpudash.model.errors import SettingsError
from gpudash.model.text import clean

_MOST_BROKEN_LINES = 10
_READ_ONLY = "read_only"


def load(path: str, choices: Choices) -> tuple[Settings, list[str]]:
    """Return the settings of a file and its mistakes; everything that is valid counts.

    Without a file they are the defaults. Each mistake is one line that names the file, the
    setting and what is valid. Nothing raises.
    """
    try:
        text = place.read(path)
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
        text = place.read(path)
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
            place = _line_number(error)
            if place is None or not lines[place - 1].strip():
                mistakes.append(f"is no TOML: {error}; the defaults are used")
                break
            mistakes.append(f"line {place} is no TOML and left out: {error}")
            lines[place - 1] = ""
    return {}, mistakes


def _line_number(error: ValueError) -> int | None:
    """Return the line that TOML's reader names: its error has it as text only before 3.14."""
    digits = str(error).rpartition("(at line ")[2].partition(",")[0]
    return int(digits) if digits.isdecimal() else None


def _line(path: str, mistake: str) -> str:
    return clean(f"{path}: {mistake}")
