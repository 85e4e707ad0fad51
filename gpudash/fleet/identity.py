"""Which hosts are the same by their GPUs: shown by two sources at once, or renamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Set
from typing import TypeVar

_H = TypeVar("_H", bound=Hashable)


def homes(gpus: Iterable[tuple[Hashable, _H]]) -> dict[Hashable, _H]:
    """Return the host of each GPU, without GPUs on several hosts: clones of one machine."""
    found: dict[Hashable, _H] = {}
    several: set[Hashable] = set()
    for gpu, home in gpus:
        if found.setdefault(gpu, home) != home:
            several.add(gpu)
    return {gpu: home for gpu, home in found.items() if gpu not in several}


def are_of_one(first: Set[Hashable], second: Set[Hashable]) -> bool:
    """Whether two sources show the GPUs of one host: most of either are in both.

    Half of them may be those of a container.
    """
    return 2 * len(first & second) > max(len(first), len(second))


def home_of(gpus: Collection[Hashable], known: Mapping[Hashable, _H]) -> _H | None:
    """Return the known host that has another host's GPUs, by their identities.

    None if less than half of them are known, or if they live on both here and there: some of its
    GPUs do not make a host.
    """
    found = Counter(known[gpu] for gpu in gpus if gpu in known)
    for home, count in found.most_common(1):
        if 2 * count >= len(gpus) and 2 * count > found.total():
            return home
    return None
