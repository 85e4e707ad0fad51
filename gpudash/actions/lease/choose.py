"""The best of the devices that fit a request, and the shortage if there are too few."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, islice
from math import comb

from msgspec import Struct
from msgspec.structs import replace

from gpudash.actions.lease.request import (
    NONE,
    ONE_INSTANCE,
    Candidate,
    GpuRequest,
    Rejection,
    capacity,
    filter_candidates,
    leased,
    possible_devices,
)
from gpudash.analysis.labels import gpu_ranges, mig_labels
from gpudash.feed.sampler import Sampler
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.snapshot import Snapshot, Topology
from gpudash.model.units import counted, grouped, size

_GIB = 1 << 30
_STEP_PERCENT = 5
_MAX_SETS = 5000

# How close two GPUs are: over NVLinks, switches, bridges or sockets.
_NEARNESS = {"PSB": 60, "PIX": 50, "PXB": 40, "PHB": 30, "NODE": 20, "SYS": 10}
_NVLINK, _MAX_LINKS = 100, 18


class Pick(Struct, frozen=True, kw_only=True):
    """The chosen devices in the order of their indices; empty if there are too few."""

    devices: tuple[Device, ...]
    shortage: str
    """The shortage in one line; empty if there is none."""
    fit: int
    """How many devices could be taken, including the chosen ones."""


def choose(
    samples: Sequence[Snapshot],
    request: GpuRequest,
    environ: Mapping[str, str],
    *,
    own: Collection[str] = (),
    excluded: Mapping[str, str] = NONE,
) -> Pick:
    """Return the devices to take; the last sample is the present state.

    Leases on the UUIDs in `own` are ignored; `excluded` devices, each with its reason, are not
    considered.
    """
    candidates, rejections = filter_candidates(samples, request, environ, own, excluded)
    now = samples[-1]
    found = _best(candidates, request, now.topology)
    fit = len(candidates)
    if found is None:
        return Pick(devices=(), shortage=_shortage(now, fit, rejections, request), fit=fit)
    return Pick(devices=tuple(each.device for each in found), shortage="", fit=fit)


def require_possible(
    now: Snapshot, request: GpuRequest, environ: Mapping[str, str] = os.environ
) -> None:
    """Raise GpudashError if the request cannot be satisfied even with all GPUs free."""
    devices = possible_devices(now, request, environ)
    every = [Candidate(device=each, utilization_percent=0, free_bytes=0) for each in devices]
    is_enough = len(devices) >= request.count
    if is_enough and (not request.linked or _best(every, request, now.topology)):
        return
    of_any_size = possible_devices(now, replace(request, min_free_bytes=0), environ)
    sizes = [known for each in of_any_size if (known := capacity(each)) is not None]
    if is_enough:
        there = f"this host has {len(devices)}, {_unlinked(request)}"
    elif len(of_any_size) >= request.count and sizes:
        _, rejections = filter_candidates((now,), request, environ)
        free = sum(each.free_bytes is not None for each in rejections)
        there = _too_small(free, len(devices), request, max(sizes))
    else:
        count = len(devices)
        there = f"this host has {count or 'none'}"
        if request.model is not None or request.min_free_bytes:
            there += " that matches" if count == 1 else " that match"
        singly = possible_devices(now, replace(request, count=1), environ)
        instances = [each for each in singly if each not in devices]
        if instances:
            there += f"; GPU {gpu_ranges(instances, mig_labels(now.devices))} {ONE_INSTANCE}"
    error = GpudashError(f"{counted(request.count, 'GPU')} wanted, {there}")
    error.exit_status = ExitStatus.TOO_FEW_GPUS
    raise error


def require_soon(sampler: Sampler, request: GpuRequest) -> None:
    """Fill a sampler; raises GpudashError at its first sample if the request is impossible."""
    sampler.next_sample()
    require_possible(sampler.samples[-1], request)
    sampler.fill()


def _too_small(free: int, fit: int, request: GpuRequest, largest_bytes: int) -> str:
    """Return how many are free, and that too few of them have the requested memory."""
    with_memory = f"{fit or 'none'} with {size(request.min_free_bytes)}"
    return f"{free} free, {with_memory}; the largest has {size(largest_bytes)}"


def _best(
    candidates: list[Candidate], request: GpuRequest, topology: Topology | None
) -> tuple[Candidate, ...] | None:
    """Return the set with the least use, the tightest fit and the best links."""
    ordered = sorted(candidates, key=lambda each: (_use(each), _room(each), each.device.index))
    sets = [
        each
        for each in _sets(ordered, request, topology)
        if not request.linked or _is_linked(each, topology)
    ]
    best = min(sets, key=lambda each: _rank(each, topology), default=None)
    return best and tuple(sorted(best, key=lambda each: each.device.index))


def _sets(
    ordered: list[Candidate], request: GpuRequest, topology: Topology | None
) -> list[tuple[Candidate, ...]]:
    """Return every set of the requested size; if these are too many, one grown from each device."""
    if comb(len(ordered), request.count) <= _MAX_SETS:
        return list(combinations(ordered, request.count))
    grown = (_grown(seed, ordered, request, topology) for seed in ordered)
    return [each for each in grown if len(each) == request.count]


def _grown(
    seed: Candidate, ordered: list[Candidate], request: GpuRequest, topology: Topology | None
) -> tuple[Candidate, ...]:
    """Return a device with its best neighbours, added one by one; fewer if none are left."""
    chosen = [seed]
    rest = [each for each in ordered if each is not seed]
    while rest and len(chosen) < request.count:
        if request.linked:
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
    """Return the utilization in steps: a percent more or less does not matter."""
    return round((candidate.utilization_percent or 0) / _STEP_PERCENT)


def _room(candidate: Candidate) -> int:
    """Return the free memory in GiB: the tightest fit leaves the large ones to others."""
    return (candidate.free_bytes or 0) // _GIB


def _nearness(chosen: list[Candidate], other: Candidate, topology: Topology | None) -> int:
    return sum(_link(each.device, other.device, topology) for each in chosen)


def _is_linked(chosen: tuple[Candidate, ...], topology: Topology | None) -> bool:
    pairs = combinations(chosen, 2)
    return all(_link(a.device, b.device, topology) > _NVLINK for a, b in pairs)


def _link(a: Device, b: Device, topology: Topology | None) -> int:
    """Return how close two devices are, 0 if unknown."""
    row, column = _row(a, topology), _row(b, topology)
    if topology is None or row is None or column is None:
        return 0
    cell = topology.links[row][column] or ""
    count = cell.removeprefix("NV")
    if cell.startswith("NV") and count.isdecimal():
        return _NVLINK + min(int(count), _MAX_LINKS)
    return _NEARNESS.get(cell, 0)


def _numa(device: Device, topology: Topology | None) -> str | None:
    row = _row(device, topology)
    return None if topology is None or row is None else topology.numa_affinity[row]


def _row(device: Device, topology: Topology | None) -> int | None:
    uuid = device.parent_uuid or device.uuid
    if topology is None or uuid not in topology.uuids:
        return None
    return topology.uuids.index(uuid)


def leased_shortage(
    now: Snapshot,
    devices: Sequence[Device],
    request: GpuRequest,
    own: Collection[str],
    excluded: Mapping[str, str],
) -> str:
    """Return the shortage due to leases alone, regardless of use; empty if there is none."""
    leases = {lease.uuid: lease for lease in now.leases if lease.uuid not in own}
    rejections: list[Rejection] = []
    for device in devices:
        uuid = device.uuid or ""
        if reason := leased(leases.get(uuid), now) or excluded.get(uuid):
            rejections.append(Rejection(device=device, reason=reason))
    fit = len(devices) - len(rejections)
    return "" if fit >= request.count else _shortage(now, fit, rejections, request, "not leased")


def _shortage(
    now: Snapshot, fit: int, rejections: list[Rejection], request: GpuRequest, word: str = "free"
) -> str:
    small = [each.free_bytes for each in rejections if each.free_bytes is not None]
    there = f"{fit} {word}"
    if small:
        there = _too_small(fit + len(small), fit, request, max(small))
    elif fit >= request.count:
        there = f"{there}, {_unlinked(request)}"
    labels = mig_labels(now.devices)
    others = grouped((each.reason, each.device) for each in rejections if each.free_bytes is None)
    why = "; ".join(
        f"GPU {gpu_ranges(devices, labels)} {reason}"
        for reason, devices in islice(others.items(), 64)
    )
    return f"{counted(request.count, 'GPU')} wanted, {there}" + (f": {why}" if why else "")


def _unlinked(request: GpuRequest) -> str:
    return f"but no {request.count} of them linked by NVLink"
