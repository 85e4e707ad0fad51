"""Faults of connections between GPUs: jobs without P2P, reduced links, missing GPUs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import combinations

from msgspec import Struct

from gpudash.analysis.labels import index_ranges, whose
from gpudash.analysis.links import Cells, access_matrix
from gpudash.analysis.nvlinks import nvlinks_down
from gpudash.model.device import Device
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot, gpus_unknown, whole_gpus
from gpudash.model.state import FAILED, is_suspended_on_purpose, unreadable_state

Pair = tuple[int, int]

_MAX_NAMED_ISLANDS = 4


class MissingP2P(Struct, frozen=True):
    """Processes that use GPUs of which some pairs cannot reach each other's memory."""

    pids: list[int]
    gpus: tuple[int, ...]
    pair_count: int
    sentence: str


class _Group(Struct, frozen=True):
    """Processes of one name and owner on the same GPUs."""

    name: str
    owner: str | None
    gpus: tuple[int, ...]


def remarks(snapshot: Snapshot) -> list[tuple[str, bool]]:
    """Return all sentences, and whether each is a warning; none if all is well.

    A lack of P2P between GPUs is how the host is built, and only mentioned.
    """
    found = [*reduced_links(snapshot), *not_in_topology(snapshot)]
    built = [each.sentence for each in missing_p2p(snapshot)]
    return [*((text, True) for text in found), *((text, False) for text in built)]


def missing_p2p(snapshot: Snapshot) -> list[MissingP2P]:
    """Return the processes that use GPUs without P2P between them.

    Processes of one name and owner on the same GPUs share a sentence. Values that the driver does
    not report do not count as missing.
    """
    topology, groups = snapshot.topology, _groups(snapshot)
    if topology is None or not groups:
        return []
    cells = access_matrix(topology).cells
    rows = {index: row for row, index in enumerate(topology.indices)}
    found = []
    for group, pids in groups.items():
        known = [gpu for gpu in group.gpus if gpu in rows]
        missing = _missing(known, rows, cells)
        if missing:
            sentence = _sentence(group, pids, _between(known, missing))
            found.append(MissingP2P(pids, group.gpus, len(missing), sentence))
    return found


def reduced_links(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each GPU with fewer NVLinks or PCIe lanes up than it should have."""
    gpus = whole_gpus(snapshot)
    expected = {gpu.key: count for gpu, count in nvlinks_down(gpus, snapshot.topology)}
    return [sentence for gpu in gpus for sentence in _reduced(gpu, expected.get(gpu.key))]


def no_topology(snapshot: Snapshot) -> str:
    """Return why there is no matrix: the GPUs are unreadable, or the driver reports none.

    The snapshot may have only selected GPUs; others are not mentioned.
    """
    if gpus_unknown(snapshot):
        return "No topology: the GPUs are not known"
    gpus = whole_gpus(snapshot)
    if not gpus or any(gpu.state == "ok" for gpu in gpus):
        return "No topology: the driver does not report how the GPUs are connected"
    states = {(unreadable_state(gpu) or FAILED) for gpu in gpus}
    if len(states) > 1:
        return "No topology: none of these GPUs can be read now"
    is_alone = len(gpus) == 1
    why = f"GPU {gpus[0].index}" if is_alone else "each of these GPUs"
    why += f" {states.pop().sentence}"
    if is_suspended_on_purpose(gpus[0]):
        why += ", so it is not read" if is_alone else ", so none is read"
    return f"No topology: {why}"


def not_in_topology(snapshot: Snapshot) -> list[str]:
    """Return a sentence for each GPU that the topology leaves out."""
    if snapshot.topology is None:
        return []
    known = set(snapshot.topology.indices)
    left_out = [gpu for gpu in whole_gpus(snapshot) if gpu.index not in known]
    return [f"GPU {gpu.index} is not in the matrix: it {_absent(gpu)}" for gpu in left_out]


def _absent(gpu: Device) -> str:
    state = unreadable_state(gpu)
    return "did not answer" if state is None else state.sentence


def _reduced(gpu: Device, expected_links: int | None) -> Iterable[str]:
    width, widest = gpu.pcie_link_width, gpu.max_pcie_link_width
    if expected_links is not None:
        yield f"GPU {gpu.index}: {gpu.nvlink_count} of {expected_links} NVLinks are up"
    if width and widest and width < widest:
        yield f"GPU {gpu.index}: {width} of {widest} PCIe lanes are up"


def _groups(snapshot: Snapshot) -> dict[_Group, list[int]]:
    """Return the PIDs of the processes on several GPUs."""
    instances = frozenset(device.uuid for device in snapshot.devices if device.is_mig)
    groups: dict[_Group, list[int]] = {}
    for process in snapshot.processes:
        gpus = _computes_on(process, instances)
        if len(gpus) > 1:
            group = _Group(process.name or "process", process.username, gpus)
            groups.setdefault(group, []).append(process.pid)
    return groups


def _computes_on(process: Process, instances: Collection[str | None]) -> tuple[int, ...]:
    """Return the GPUs that a process computes on as a whole; MIG instances have no P2P at all."""
    shares = (d for d in process.devices if d.type != "G" and d.uuid not in instances)
    return tuple(sorted({share.index for share in shares}))


def _missing(gpus: Sequence[int], rows: dict[int, int], cells: Cells) -> set[Pair]:
    """Return the pairs in which one cannot reach the other."""
    return {
        (one, other)
        for one, other in combinations(gpus, 2)
        if "N" in (cells[rows[one]][rows[other]], cells[rows[other]][rows[one]])
    }


def _between(gpus: Sequence[int], missing: set[Pair]) -> str:
    """Return where P2P is missing: the islands if they explain everything, else how many pairs."""
    islands = _islands(gpus, missing)
    all_pairs = len(gpus) * (len(gpus) - 1) // 2
    across = all_pairs - sum(len(island) * (len(island) - 1) // 2 for island in islands)
    if len(missing) != across:
        return f"no P2P between {len(missing)} of their {all_pairs} pairs"
    if len(islands) == len(gpus) > 2:
        return "no P2P between any of them"
    if len(islands) > _MAX_NAMED_ISLANDS:
        return f"P2P only inside {len(islands)} islands such as {index_ranges(islands[0])}"
    return f"no P2P between GPU {' and '.join(map(index_ranges, islands))}"


def _islands(gpus: Sequence[int], missing: set[Pair]) -> list[list[int]]:
    """Return the GPUs in groups without missing pairs."""
    islands: list[list[int]] = []
    for gpu in gpus:
        for island in islands:
            if not any((other, gpu) in missing for other in island):
                island.append(gpu)
                break
        else:
            islands.append([gpu])
    return islands


def _sentence(group: _Group, pids: Sequence[int], between: str) -> str:
    others = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
    who = f"{whose(group.name, group.owner, pids[0])}{others}"
    use = f"{'use' if others else 'uses'} GPU {index_ranges(group.gpus)}"
    return f"{who} {use}: {between}; traffic goes through host memory"
