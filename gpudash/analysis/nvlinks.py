"""GPUs with fewer NVLinks up than they should have."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from gpudash.model.device import Device
from gpudash.model.snapshot import Topology


def nvlinks_down(
    gpus: Sequence[Device],
    topology: Topology | None,
    max_seen: Callable[[Device], int] = lambda gpu: 0,
) -> Iterator[tuple[Device, int]]:
    """Yield GPUs with fewer NVLinks up than expected, and the expected number.

    Expected are `max_seen`, or as many as on another GPU of its kind; with NVSwitches, all that it
    has, which also shows links that were down before the host was first seen.
    """
    highest: dict[str | None, int] = defaultdict(int)
    for gpu in gpus:
        highest[gpu.name] = max(highest[gpu.name], max_seen(gpu), gpu.nvlink_count or 0)
    for gpu in gpus:
        expected = highest[gpu.name]
        if _is_switched(gpu, topology):
            expected = max(expected, gpu.nvlink_total_count or 0)
        if gpu.nvlink_count is None or gpu.nvlink_count >= expected:
            continue
        if gpu.nvlink_count or max_seen(gpu) or not _is_unbridged(topology):
            yield gpu, expected


def _is_switched(gpu: Device, topology: Topology | None) -> bool:
    """Whether its NVLinks lead to NVSwitches: it has joined a fabric, or all reach several GPUs."""
    count = gpu.nvlink_count
    if not count:
        return False
    if gpu.fabric_state is not None or topology is None:
        return gpu.fabric_state is not None
    rows = zip(topology.indices, topology.links, strict=False)
    row = next((row for index, row in rows if index == gpu.index), ())
    return sum(_links_to(cell) >= count for cell in row) > 1


def _links_to(cell: str | None) -> int:
    """Return the number of NVLinks in a cell of an untrusted topology."""
    found = re.fullmatch(r"NV([0-9]{1,3})", cell or "")
    return int(found[1]) if found else 0


def _is_unbridged(topology: Topology | None) -> bool:
    """Whether a GPU without NVLinks may just lack a bridge: others are linked in pairs at most."""
    links = topology.links if topology else ()
    return all(sum(cell is not None and cell[:2] == "NV" for cell in row) < 2 for row in links)
