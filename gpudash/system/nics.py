"""The network cards for RDMA, and their distance from other PCI devices in the kernel's tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from gpudash.system.files import read_start

_NUMBERS = r"(\d+)"
_PORTS_OF_ONE_SWITCH = 2
"""Below their common part, devices of one switch have its port and themselves."""


class NicPlace(NamedTuple):
    """A card by its kernel name, such as `mlx5_0`; None if its position is unknown."""

    name: str
    links: tuple[str | None, ...]
    """Its link to each address, and then to each card: X, PIX, PXB, PHB, NODE, SYS."""


def nics(addresses: Sequence[str | None], root: str = "/sys") -> tuple[NicPlace, ...]:
    """Return the cards, sorted by name; `addresses` are PCI addresses in the kernel's form."""
    folder = f"{root}/class/infiniband"
    try:
        names = sorted(os.listdir(folder), key=_natural)
    except OSError:
        return ()
    places = [_place(f"{root}/bus/pci/devices/{each}") if each else None for each in addresses]
    cards = [_place(f"{folder}/{name}/device") for name in names]
    return tuple(
        NicPlace(name, tuple(_links(card, [*places, *cards], len(places) + number)))
        for number, (name, card) in enumerate(zip(names, cards, strict=True))
    )


class _Place(NamedTuple):
    """The bridges above a PCI device from its root on, itself, and its NUMA node."""

    path: tuple[str, ...]
    numa_node: bytes | None


def _place(link: str) -> _Place | None:
    """Return a device's position, None if it is not below a PCI root."""
    path = os.path.realpath(link)
    parts = path.split("/")
    root = next((index for index, part in enumerate(parts) if part.startswith("pci")), None)
    if root is None or not os.path.isdir(path):
        return None
    return _Place(tuple(parts[root:]), read_start(f"{path}/numa_node", 16))


def _links(
    card: _Place | None, others: Sequence[_Place | None], itself: int
) -> Iterator[str | None]:
    for number, other in enumerate(others):
        if number == itself:
            yield "X"
        else:
            yield None if card is None or other is None else _link(card, other)


def _link(one: _Place, other: _Place) -> str:
    pairs = zip(one.path, other.path, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    if not shared:
        return "NODE" if one.numa_node == other.numa_node else "SYS"
    if shared == 1:
        return "PHB"
    below = max(len(one.path), len(other.path)) - shared
    return "PIX" if below <= _PORTS_OF_ONE_SWITCH else "PXB"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a sort key that puts `mlx5_10` after `mlx5_2`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(_NUMBERS, name)]
