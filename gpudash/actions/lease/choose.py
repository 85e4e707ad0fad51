"""The best of the devices that fit, and what is missing where there are too few."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, islice
from math import comb
from statistics import median
from types import MappingProxyType

from msgspec import Struct

from gpudash.analysis.health.levels import notable
from gpudash.analysis.labels import index_ranges, visible_devices
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Lease, Process
from gpudash.model.snapshot import Snapshot, Topology
from gpudash.model.state import unreadable_state
from gpudash.model.units import duration, size

DEFAULT_MAX_UTILIZATION = 10.0


class Wish(Struct, frozen=True, kw_only=True):
    """How many GPUs, and what each of them must be like."""

    count: int = 1
    min_free_bytes: int = 0
    """Memory that is not used by anybody."""
    max_utilization_percent: float = DEFAULT_MAX_UTILIZATION
    """Utilization as the middle one of the last samples."""
    model: str | None = None
    """A part of the product's name."""
    linked: bool = False
    """Whether NVLink must connect each of them with each other."""
    share: bool = False
    """Whether a GPU will do on which others compute."""


_PROHIBITED = "prohibited"
NONE: Mapping[str, str] = MappingProxyType({})


class Candidate(Struct, frozen=True, kw_only=True):
    """A device that fits, by the last samples."""

    device: Device
    utilization_percent: float | None
    """The middle one of the samples, None where the device tells none (MIG)."""
    free_bytes: int


class Refusal(Struct, frozen=True, kw_only=True):
    """A device that does not fit, and why."""

    device: Device
    reason: str


def sort_out(
    samples: Sequence[Snapshot],
    wish: Wish,
    environ: Mapping[str, str],
    own: Collection[str] = (),
    excluded: Mapping[str, str] = NONE,
) -> tuple[list[Candidate], list[Refusal]]:
    """Return what fits and what does not, by samples of which the last is the state now.

    Leases on the UUIDs in `own` count for nothing; `excluded` gives a reason for each UUID.
    """
    now = samples[-1]
    at = now.taken_at.timestamp()
    restricted = _restricted(environ, now.devices)
    leases = {lease.uuid: lease for lease in now.leases if lease.uuid not in own}
    candidates: list[Candidate] = []
    refusals: list[Refusal] = []
    for device in now.devices:
        if not _is_unit(device, now.devices):
            continue
        utilization = _sustained(device, samples)
        reason = (
            _hidden(device, restricted)
            or _unfit(device, wish)
            or excluded.get(device.uuid or "")
            or _leased(leases.get(device.uuid or ""), at)
            or _held(device, now.processes, wish, at)
            or _unlisted(device, now, wish)
            or _full(device, wish)
            or _busy(utilization, wish)
        )
        if reason is None:
            found = Candidate(
                device=device,
                utilization_percent=utilization,
                free_bytes=device.memory_free_bytes or 0,
            )
            candidates.append(found)
        else:
            refusals.append(Refusal(device=device, reason=reason))
    return candidates, refusals


def possible(now: Snapshot, wish: Wish, environ: Mapping[str, str]) -> list[Device]:
    """Return the devices that could ever fit, whoever leaves them."""
    restricted = _restricted(environ, now.devices)
    return [
        device
        for device in now.devices
        if _is_unit(device, now.devices)
        # CUDA uses one MIG instance at most.
        and not (device.is_mig and wish.count > 1)
        and _hidden(device, restricted) is None
        and (device.state != "ok" or _unfit(device, wish) is None)
        and _is_large_enough(device, wish)
    ]


def _is_large_enough(device: Device, wish: Wish) -> bool:
    total = device.memory_total_bytes
    return total is None or total - (device.memory_reserved_bytes or 0) >= wish.min_free_bytes


def _restricted(environ: Mapping[str, str], devices: Sequence[Device]) -> set[str] | None:
    """Return the devices that CUDA_VISIBLE_DEVICES leaves over, None where it is not set."""
    if environ.get("CUDA_VISIBLE_DEVICES") is None:
        return None
    return {device.key for device in visible_devices(environ, devices).devices}


def _is_unit(device: Device, devices: Sequence[Device]) -> bool:
    """Whether programs use it as a whole: a GPU without instances, or an instance."""
    return not any(other.parent_uuid == device.uuid for other in devices if other.is_mig)


def _hidden(device: Device, visible: set[str] | None) -> str | None:
    if visible is None or device.key in visible:
        return None
    return "hidden by CUDA_VISIBLE_DEVICES"


def _unfit(device: Device, wish: Wish) -> str | None:
    unreadable = unreadable_state(device)
    if unreadable is not None:
        return unreadable.sentence
    if device.uuid is None:
        return "tells no UUID"
    if wish.model and wish.model.lower() not in (device.name or "").lower():
        return f"{device.name or 'of unknown model'}"
    if device.compute_mode == _PROHIBITED:
        return "closed to compute programs"
    return "MIG without instances" if device.mig_mode and not device.is_mig else None


def _leased(lease: Lease | None, at: float) -> str | None:
    if lease is None:
        return None
    if lease.pid is None:
        return "leased from another PID namespace"
    return f"leased by {_who(lease.username, lease.pid, lease.create_time, at)}"


def _who(username: str | None, pid: int, create_time: float | None, at: float) -> str:
    since = "" if create_time is None else f", for {duration(max(at - create_time, 0))}"
    return f"{username or 'somebody'} (PID {pid}{since})"


def _full(device: Device, wish: Wish) -> str | None:
    free, used = device.memory_free_bytes, device.memory_used_bytes
    if free is None or used is None:
        return "its free memory is not known"
    if free < wish.min_free_bytes:
        return f"{size(free)} free"
    if wish.share or not notable(device, used):
        return None
    return f"{size(used)} in use by nobody listed"


def _busy(utilization: float | None, wish: Wish) -> str | None:
    if utilization is None or utilization <= wish.max_utilization_percent:
        return None
    return f"{utilization:.0f} % busy"


def _held(device: Device, processes: Sequence[Process], wish: Wish, at: float) -> str | None:
    """Return who computes on it; a display server with a few MiB does not count."""
    if wish.share:
        return None
    for process in processes:
        for share in process.devices:
            if share.uuid == device.uuid and (
                share.type != "G" or notable(device, share.used_gpu_memory_bytes)
            ):
                who = _who(process.username, process.pid, process.create_time, at)
                return f"held by {who}"
    return None


def _unlisted(device: Device, now: Snapshot, wish: Wish) -> str | None:
    """Return that nobody knows who computes on it: the driver does not list its processes."""
    if wish.share:
        return None
    blind = unlisted_uuids(now.errors)
    is_blind = device.uuid in blind or device.parent_uuid in blind
    return "its processes could not be listed" if is_blind else None


def _sustained(device: Device, samples: Sequence[Snapshot]) -> float | None:
    """Return the middle utilization of the samples that tell one."""
    known = [
        each.gpu_utilization_percent
        for snapshot in samples
        for each in snapshot.devices
        if each.key == device.key and each.gpu_utilization_percent is not None
    ]
    return median(known) if known else None


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
