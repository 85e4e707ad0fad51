"""What is said of a device that cannot be read, by its state."""

from __future__ import annotations

from typing import NamedTuple

from gpudash.model.device import Device


class StateWords(NamedTuple):
    """One state in the words of a column, of a count and of a sentence."""

    word: str
    """`RESET`: loud where something is wrong."""
    use: str
    """`needing a reset`, behind a number of devices."""
    told: str
    """`needs a reset`, behind the name of one device."""


_WORDS = {
    "lost": StateWords("LOST", "LOST", "fell off the bus"),
    "reset-required": StateWords("RESET", "needing a reset", "needs a reset"),
    "not-answering": StateWords("NO ANSWER", "not answering", "does not answer"),
    "failed": StateWords("FAILED", "failed", "cannot be read"),
    "asleep": StateWords("asleep", "asleep", "is asleep"),
    "resting": StateWords("resting", "falling asleep", "is left alone to fall asleep"),
}


def state_words(device: Device) -> StateWords:
    """Return what is said of a device that cannot be read; an unknown state is a failure."""
    return _WORDS.get(device.state, _WORDS["failed"])


def is_left_alone(device: Device) -> bool:
    """Whether nothing is wrong with a device that is not read: it sleeps, or is about to."""
    return device.state in ("asleep", "resting")
