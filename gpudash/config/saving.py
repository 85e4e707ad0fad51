"""What a person changed, written back into the file of settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gpudash.config import place
from gpudash.config.declared import Settings, declared
from gpudash.config.file import changed
from gpudash.config.settings import Choices, SomeOf, plain
from gpudash.config.statements import Path, parse
from gpudash.model.errors import SettingsError
from gpudash.model.text import clean

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
            with suppress(place.FileChangedError):
                text = place.read(path)
                changes = _changes(settings, since)
                _keep_mistakes(changes, parse(text or ""), choices)
                place.replace(path, changed(text or "", changes), was=text)
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
