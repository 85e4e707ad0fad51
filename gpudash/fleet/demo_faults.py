"""The faults of the simulated fleet, and their times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import inf
from typing import NamedTuple

from gpudash.model.text import SafeText

BLOCK, RACK = 8, 16
"""Hosts that share a job, and hosts in a rack."""
HOUR = 3600.0


class HostFault(NamedTuple):
    """A fault of GPUs or hosts."""

    kind: str
    hosts: tuple[int, ...]
    at: float
    """Seconds from the start of the fleet, negative for before."""
    gpus: tuple[int, ...] = ()
    load: str = ""
    """The load of its GPUs from then on, as one job; empty for their usual load."""
    user: str = ""
    until: float = inf
    """When it ends, in seconds from the start as well."""


MESSAGES = {
    "down": SafeText("No route to host"),
    "frozen": SafeText("its exporter repeats the same values: even the power never changes"),
    "draining": SafeText("XID 79 on GPU 5, ticket 4711"),
}


def kept_busy(
    faults: Iterable[HostFault], seconds: float
) -> Iterator[tuple[tuple[int, int], float]]:
    """Yield host and GPU of each GPU kept busy `seconds` from the start, and for how long."""
    for each in faults:
        if each.kind == "kept-alive" and each.at <= seconds < each.until:
            for place in product(each.hosts, each.gpus):
                yield place, seconds - each.at


def faults(hosts: int, gpus: int) -> tuple[HostFault, ...]:
    """Return some of each kind, on hosts of their own but for two; a small fleet has what fits."""
    whole, last = tuple(range(gpus)), gpus - 1
    taken: set[int] = set()

    def some(share: float, count: int = 1, size: int = 1) -> tuple[int, ...]:
        first = int(share * hosts) // size * size
        found = tuple(range(first, first + count))
        if found[-1] >= hosts or not taken.isdisjoint(found):
            return ()
        taken.update(found)
        return found

    block = some(0.02, BLOCK, BLOCK)
    half = whole[: gpus // 2 or 1]
    found = [
        HostFault("job", block, -5 * HOUR, whole, "train", "dave"),
        HostFault("straggler", block[5:6], -5 * HOUR, (min(3, last),)),
        HostFault("foreign", block[:1], -HOUR, (min(1, last),), user="frank"),
        HostFault("xid", some(0.36, 4, RACK), -25 * 60, (min(2, last),)),
        HostFault("lost", some(0.31), -7 * HOUR, (last,)),
        HostFault("lost", some(0.33), 120, (0,)),
        HostFault("down", some(0.42), -15 * 60),
        HostFault("frozen", some(0.45), -20 * 60),
        HostFault("hot", some(0.48), -HOUR, (min(4, last),), "train", "dave"),
        HostFault("kept-alive", some(0.51), -9 * HOUR, half, "kept-alive", "mallory"),
        HostFault("unused", some(0.54), -8 * HOUR, whole, "unused", "walter"),
        HostFault("skew", some(0.57, 3), -30 * 24 * HOUR),
        HostFault("fragmented", some(0.62, 40), -3 * HOUR, half, "free"),
        HostFault("draining", some(0.7), -2 * HOUR, whole, "free"),
        HostFault("down", some(0.67), -8.5 * HOUR, until=-8.1 * HOUR),
        HostFault("lost", some(0.6), -6 * HOUR, (0,), until=-5.5 * HOUR),
    ]
    counts = {"alice": gpus, "bob": gpus // 2, "carol": gpus // 4, "dave": 1, "erin": 1}
    for i, (user, count) in enumerate(counts.items()):
        gone = -(2 + 3 * i) * HOUR
        found.append(
            HostFault("held", some(0.75 + 0.04 * i), gone, whole[: count or 1], "held", user)
        )
    return tuple(each for each in found if each.hosts)
