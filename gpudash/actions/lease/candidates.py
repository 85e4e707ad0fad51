"""Which devices fit a wish, and for each that does not the reason in a few words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from types import MappingProxyType

from msgspec import Struct

from gpudash.actions.lease.request import Wish
from gpudash.analysis.health.levels import notable
from gpudash.analysis.labels import visible_devices
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Lease, Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import state_words
from gpudash.model.units import duration, size

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
    if device.state != "ok":
        return state_words(device).told
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
