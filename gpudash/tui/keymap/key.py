"""What a key is, and how one is declared."""

from __future__ import annotations

from typing import NamedTuple

DIGITS = ",".join("0123456789")


class Key(NamedTuple):
    """An action with the keys that start it, the first of which is shown."""

    id: str
    """What settings call it, to give it other keys."""
    keys: str
    shown: str
    action: str
    label: str
    """One word for the footer, empty for a key that only the help screen names."""
    help: str
    group: str
    signals: bool = False
    """Whether it may end a process: a read-only screen does without."""


def key(
    id: str,
    keys: str,
    shown: str,
    action: str,
    help: str,
    *,
    label: str = "",
    signals: bool = False,
) -> Key:
    """Declare a key; the help screen's group is the first half of the id."""
    group = id.partition(".")[0].capitalize().replace("Gpus", "GPUs")
    return Key(id, keys, shown, action, label, help, group, signals)


def under(group: str, *keys: Key) -> tuple[Key, ...]:
    """Put keys under another heading of the help screen."""
    return tuple(each._replace(group=group) for each in keys)
