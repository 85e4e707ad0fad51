"""The best of the devices that fit, and what is missing where there are too few."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, islice
from math import comb

from msgspec import Struct

from gpudash.actions.lease.candidates import NONE, Candidate, Refusal, possible, sort_out
from gpudash.actions.lease.request import Wish
from gpudash.analysis.labels import index_ranges
from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot, Topology

_GIB = 1 << 30
_STEP_PERCENT = 5
_MOST_SETS = 5000

# How near two GPUs are: bytes of one reach the other over NVLinks, switches, bridges, sockets.
_NEARNESS = {"PSB": 60, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10}
_NVLINK, _MOST_LINKS = 100, 18


class Choice(Struct, frozen=True, kw_only=True):
    """The devices chosen in the order of their indices; none at all when there are too few."""

    devices: tuple[Device, ...]
    lack: str
    """What is missing, in one line; empty where nothing is."""


def choose(
    samples: Sequence[Snapshot],
    wish: Wish,
    environ: Mapping[str, str],
    *,
    own: Collection[str] = (),
    excluded: Mapping[str, str] = NONE,
) -> Choice:
    """Return the devices to take, by samples of which the last is the state now.

    A lease counts for nothing on the UUIDs that are our `own`; the `excluded`, each with its
    reason, are not considered.
    """
    candidates, refusals = sort_out(samples, wish, environ, own, excluded)
    if wish.count > 1:
        # CUDA uses one MIG instance at most.
        candidates = [each for each in candidates if not each.device.is_mig]
    topology = samples[-1].topology
    found = _best(candidates, wish, topology)
    if found is None:
        return Choice(devices=(), lack=_lack(candidates, refusals, wish))
    return Choice(devices=tuple(each.device for each in found), lack="")


def most_possible(now: Snapshot, wish: Wish, environ: Mapping[str, str]) -> int:
    """Return how many devices could ever be had together, whoever leaves them."""
    devices = possible(now, wish, environ)
    candidates = [Candidate(device=each, utilization_percent=0, free_bytes=0) for each in devices]
    if wish.linked and len(devices) >= wish.count:
        return wish.count if _best(candidates, wish, now.topology) else 0
    return len(devices)


def _best(
    candidates: list[Candidate], wish: Wish, topology: Topology | None
) -> tuple[Candidate, ...] | None:
    """Return the set that is used least, fits tightest and is connected best."""
    ordered = sorted(candidates, key=lambda each: (_use(each), _room(each), each.device.index))
    sets = [
        each
        for each in _sets(ordered, wish, topology)
        if not wish.linked or _is_linked(each, topology)
    ]
    best = min(sets, key=lambda each: _rank(each, topology), default=None)
    return best and tuple(sorted(best, key=lambda each: each.device.index))


def _sets(
    ordered: list[Candidate], wish: Wish, topology: Topology | None
) -> list[tuple[Candidate, ...]]:
    """Return every set of that many, or where those are too many one grown from each device."""
    if comb(len(ordered), wish.count) <= _MOST_SETS:
        return list(combinations(ordered, wish.count))
    grown = (_grown(seed, ordered, wish, topology) for seed in ordered)
    return [each for each in grown if len(each) == wish.count]


def _grown(
    seed: Candidate, ordered: list[Candidate], wish: Wish, topology: Topology | None
) -> tuple[Candidate, ...]:
    """Return a device with the best neighbours, one after the other; fewer where none is left."""
    chosen = [seed]
    rest = [each for each in ordered if each is not seed]
    while rest and len(chosen) < wish.count:
        if wish.linked:
            rest = [each for each in rest if _is_linked((chosen[-1], each), topology)]
        best = min(
            rest,
            key=lambda each: (_use(each), _room(each), -_nearness(chosen, each, topology)),
            default=None,
        )
        if best is None:
            break
        chosen.append(best)
        rest = [each for each in rest if each is not best]
    return tuple(chosen)


def _rank(chosen: tuple[Candidate, ...], topology: Topology | None) -> tuple[object, ...]:
    pairs = [_link(a.device, b.device, topology) for a, b in combinations(chosen, 2)]
    return (
        sum(map(_use, chosen)),
        sum(map(_room, chosen)),
        -min(pairs, default=0),
        -sum(pairs),
        len({_numa(each.device, topology) for each in chosen}),
        sorted(each.device.index for each in chosen),
    )


def _use(candidate: Candidate) -> int:
    """Return the utilization in steps: a percent more or less is no reason to prefer another."""
    return round((candidate.utilization_percent or 0) / _STEP_PERCENT)


def _room(candidate: Candidate) -> int:
    """Return the free memory in GiB: the tightest fit leaves the large ones for those in need."""
    return candidate.free_bytes // _GIB


def _nearness(chosen: list[Candidate], other: Candidate, topology: Topology | None) -> int:
    return sum(_link(each.device, other.device, topology) for each in chosen)


def _is_linked(chosen: tuple[Candidate, ...], topology: Topology | None) -> bool:
    pairs = combinations(chosen, 2)
    return all(_link(a.device, b.device, topology) > _NVLINK for a, b in pairs)


def _link(a: Device, b: Device, topology: Topology | None) -> int:
    """Return how near two devices are, 0 where the driver does not tell."""
    row, column = _place(a, topology), _place(b, topology)
    if topology is None or row is None or column is None:
        return 0
    cell = topology.links[row][column] or ""
    count = cell.removeprefix("NV")
    if cell.startswith("NV") and count.isdecimal():
        return _NVLINK + min(int(count), _MOST_LINKS)
    return _NEARNESS.get(cell, 0)


def _numa(device: Device, topology: Topology | None) -> str | None:
    place = _place(device, topology)
    return None if topology is None or place is None else topology.numa_affinity[place]


def _place(device: Device, topology: Topology | None) -> int | None:
    uuid = device.parent_uuid or device.uuid
    if topology is None or uuid not in topology.uuids:
        return None
    return topology.uuids.index(uuid)


def _lack(candidates: list[Candidate], refusals: list[Refusal], wish: Wish) -> str:
    fit = len(candidates)
    wanted = f"{wish.count} GPU{'s' * (wish.count != 1)} wanted, "
    if fit >= wish.count:
        there = f"{fit} free, but no {wish.count} of them linked by NVLink"
    else:
        there = f"{fit} free"
    why = "; ".join(f"GPU {where} {reason}" for reason, where in _by_reason(refusals))
    return f"{wanted}{there}" + (f": {why}" if why else "")


def _by_reason(refusals: list[Refusal]) -> list[tuple[str, str]]:
    """Return each reason with the GPUs that it holds for."""
    found: dict[str, list[Device]] = {}
    for refusal in refusals:
        found.setdefault(refusal.reason, []).append(refusal.device)
    return [
        (reason, index_ranges(sorted({device.index for device in devices})))
        for reason, devices in islice(found.items(), 64)
    ]
