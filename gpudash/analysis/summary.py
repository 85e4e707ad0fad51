"""A host in words: how many GPUs are busy, held or free."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpudash.analysis.uses import uses
from gpudash.model.snapshot import Snapshot, are_untold
from gpudash.model.units import short_size, watts

# In the order of the sentence; what needs a person comes first.
_WORDS = (
    "LOST",
    "not answering",
    "needing a reset",
    "failed",
    "hot",
    "busy",
    "held idle",
    "in use",
    "leased",
    "free",
    "falling asleep",
    "asleep",
)

_BRIEF = {"needing a reset": "to reset", "held idle": "held"}
_LEAST = ("busy", "in use", "held idle", "leased", "falling asleep", "asleep", "hot")
"""What is left out, in this order, where there is no room: most look for what is free."""


def summary(snapshot: Snapshot) -> str:
    """Return `8 GPUs: 3 busy, 4 held idle, 1 free`."""
    opening, counts = tally(snapshot)
    return _sentence(opening, counts)


def shorter_summaries(snapshot: Snapshot, mark: str) -> list[str]:
    """Return the summary in less and less room, its order kept: the same reads the same.

    Words are shortened at first; then what matters least is left out, which `mark` tells.
    """
    opening, counts = tally(snapshot)
    counts = [(count, _BRIEF.get(word, word)) for count, word in counts]
    told = [_sentence(opening, counts)]
    for least in _LEAST:
        left = [part for part in counts if part[1] != _BRIEF.get(least, least)]
        if 0 < len(left) < len(counts):
            counts = left
            told.append(_sentence(opening, counts) + mark)
    return told


def _sentence(opening: str, counts: list[tuple[int, str]]) -> str:
    parts = ", ".join(f"{count} {word}" for count, word in counts)
    return f"{opening}: {parts}" if parts else opening


def tally(snapshot: Snapshot) -> tuple[str, list[tuple[int, str]]]:
    """Return the parts of the summary: `8 GPUs`, and how many there are of each use."""
    gpus, words = [device for device in snapshot.devices if not device.is_mig], uses(snapshot)
    counts = Counter(words[gpu.key] for gpu in gpus)
    if are_untold(snapshot):
        return "GPUs unknown", []
    opening = f"{len(gpus) or 'No'} {'GPU' if len(gpus) == 1 else 'GPUs'}"
    return opening, [(counts[word], word) for word in _WORDS if counts[word]]


def totals(snapshot: Snapshot) -> str:
    """Return memory and power over all GPUs: `412G of 640G, 4105W`; absent ones do not count."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    used = _sum(gpu.memory_used_bytes for gpu in gpus)
    total = _sum(gpu.memory_total_bytes for gpu in gpus)
    power = _sum(gpu.power_usage_mw for gpu in gpus)
    memory = None if used is None else f"{short_size(used)} of {short_size(total)}"
    return ", ".join(filter(None, (memory, None if power is None else watts(power))))


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
