"""A request for GPUs, and which of them fit by use, memory, leases and processes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median
from types import MappingProxyType

from msgspec import Struct

from gpudash.analysis.activity import BUSY_PERCENT, has_host_pages, holds_memory, load_percent
from gpudash.analysis.columns.leases import lease_holder
from gpudash.analysis.health.findings import unusable_devices
from gpudash.analysis.health.levels import is_start_artifact
from gpudash.analysis.labels import visible_devices
from gpudash.analysis.status import PROHIBITED, is_holder
from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import Device
from gpudash.model.process import EXITED, Lease, Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import is_suspended_on_purpose
from gpudash.model.units import duration, size

DEFAULT_MAX_UTILIZATION = BUSY_PERCENT - 1
NONE: Mapping[str, str] = MappingProxyType({})

ONE_INSTANCE = "left out: CUDA uses one MIG instance at most"
"""Why an instance cannot be one of several devices."""


class GpuRequest(Struct, frozen=True, kw_only=True):
    """How many GPUs are requested, and the conditions for each."""

    count: int = 1
    min_free_bytes: int = 0
    """Memory not used by any process."""
    max_utilization_percent: float = DEFAULT_MAX_UTILIZATION
    """Median of the last samples."""
    model: str | None = None
    """A part of the product name."""
    linked: bool = False
    """Whether NVLink must connect every pair."""
    share: bool = False
    """Whether a GPU on which others compute is acceptable."""


class Candidate(Struct, frozen=True, kw_only=True):
    """A device that fits, by the last samples."""

    device: Device
    utilization_percent: float | None
    """Median of the samples, None where the device reports none (MIG)."""
    free_bytes: int | None
    """None if unknown, as for a sleeping GPU."""


class Rejection(Struct, frozen=True, kw_only=True):
    """A device that does not fit, and why."""

    device: Device
    reason: str
    free_bytes: int | None = None
    """For a device that has too little memory and is otherwise free."""


def filter_candidates(
    samples: Sequence[Snapshot],
    request: GpuRequest,
    environ: Mapping[str, str],
    own: Collection[str] = (),
    excluded: Mapping[str, str] = NONE,
) -> tuple[list[Candidate], list[Rejection]]:
    """Return the devices that fit and those that do not; the last sample is the present state.

    Leases on the UUIDs in `own` are ignored; `excluded` has the reason for each UUID.
    """
    now = samples[-1]
    at = now.taken_at.timestamp()
    restricted = _restricted(environ, now.devices)
    unusable = unusable_devices(now)
    leases = {lease.uuid: lease for lease in now.leases if lease.uuid not in own}
    candidates: list[Candidate] = []
    rejections: list[Rejection] = []
    for device in now.devices:
        if not _is_unit(device, now.devices):
            continue
        utilization = _sustained(device, samples)
        free = _free_bytes(device, now)
        reason = (
            _hidden(device, restricted)
            or unusable.get(device.key)
            or _unfit(device, request)
            or _uncombinable(device, request)
            or excluded.get(device.uuid or "")
            or leased(leases.get(device.uuid or ""), now)
            or _held(device, now.processes, request, at)
            or _unlisted(device, now, request)
            or _taken(device, request)
            or _busy(device, utilization, request)
            or _unsized(device, free, request)
        )
        if reason is None and (free is None or free >= request.min_free_bytes):
            candidates.append(
                Candidate(device=device, utilization_percent=utilization, free_bytes=free)
            )
        else:
            small = None if reason else free
            rejections.append(Rejection(device=device, reason=reason or "", free_bytes=small))
    return candidates, rejections


def possible_devices(
    now: Snapshot, request: GpuRequest, environ: Mapping[str, str]
) -> list[Device]:
    """Return the devices that would fit if they were free and healthy."""
    restricted = _restricted(environ, now.devices)
    return [
        device
        for device in now.devices
        if _is_unit(device, now.devices)
        and _uncombinable(device, request) is None
        and _hidden(device, restricted) is None
        and (device.state != "ok" or _unfit(device, request) is None)
        and device.compute_mode != PROHIBITED
        and (capacity(device) or request.min_free_bytes) >= request.min_free_bytes
    ]


def capacity(device: Device) -> int | None:
    """Return the bytes of a device's memory available to programs, None if unknown."""
    total = device.memory_total_bytes
    return None if total is None else total - (device.memory_reserved_bytes or 0)


def _free_bytes(device: Device, now: Snapshot) -> int | None:
    """Return the memory that a program finds free, None if unknown.

    Nothing runs on a sleeping device, and pages that the host keeps in a device's memory give way
    to a program.
    """
    if is_suspended_on_purpose(device):
        return capacity(device)
    if device.memory_free_bytes is None or not has_host_pages(device):
        return device.memory_free_bytes
    used = sum(
        share.used_gpu_memory_bytes or 0
        for process in now.processes
        for share in process.devices
        if share.uuid == device.uuid
    )
    return device.memory_free_bytes + max(0, (device.memory_used_bytes or 0) - used)


def _restricted(environ: Mapping[str, str], devices: Sequence[Device]) -> set[str] | None:
    """Return the keys of the devices in CUDA_VISIBLE_DEVICES, None if it is not set."""
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


def _unfit(device: Device, request: GpuRequest) -> str | None:
    if device.uuid is None:
        return "has no UUID"
    if request.model and request.model.lower() not in (device.name or "").lower():
        return f"{device.name or 'of unknown model'}"
    return "MIG without instances" if device.mig_mode and not device.is_mig else None


def _uncombinable(device: Device, request: GpuRequest) -> str | None:
    return ONE_INSTANCE if device.is_mig and request.count > 1 else None


def leased(lease: Lease | None, now: Snapshot) -> str | None:
    """Return who has leased a device, None for no lease."""
    return None if lease is None else f"leased by {lease_holder(lease, now)}"


def _who(process: Process, at: float) -> str:
    begun, is_gone = process.create_time, process.hidden_reason == EXITED
    since = "" if begun is None else f", for {duration(max(at - begun, 0))}"
    whose = process.username or ("an unknown user" if is_gone else "another user")
    return f"{whose} (PID {process.pid}{', exited' if is_gone else since})"


def _taken(device: Device, request: GpuRequest) -> str | None:
    used = device.memory_used_bytes
    if used is None or request.share or not holds_memory(device):
        return None
    return f"{size(used)} in use by no listed process"


def _unsized(device: Device, free_bytes: int | None, request: GpuRequest) -> str | None:
    """Return a reason if it is unknown whether the memory is enough."""
    if is_suspended_on_purpose(device):
        is_unsure = free_bytes is None and request.min_free_bytes > 0
        return "asleep: how much memory it has is not known" if is_unsure else None
    is_unknown = free_bytes is None or device.memory_used_bytes is None
    return "its free memory is unknown" if is_unknown else None


def _busy(device: Device, utilization: float | None, request: GpuRequest) -> str | None:
    if utilization is None or utilization <= request.max_utilization_percent:
        return None
    # Any other holder has been found before, unless it may be shared.
    if is_start_artifact(device, has_processes=request.share):
        return None
    return f"{utilization:.0f}% busy"


def _held(
    device: Device, processes: Sequence[Process], request: GpuRequest, at: float
) -> str | None:
    """Return who computes on it; a display server with a few MiB does not count."""
    if request.share:
        return None
    for process in processes:
        for share in process.devices:
            if share.uuid == device.uuid and is_holder(share, device):
                return f"held by {_who(process, at)}"
    return None


def _unlisted(device: Device, now: Snapshot, request: GpuRequest) -> str | None:
    """Return a reason if the process list is unavailable: empty does not mean idle."""
    if request.share or not is_unlisted(device, now):
        return None
    return "its processes could not be listed"


def _sustained(device: Device, samples: Sequence[Snapshot]) -> float | None:
    """Return the median utilization of the samples that have one."""
    found = (
        load_percent(each)
        for snapshot in samples
        for each in snapshot.devices
        if each.key == device.key
    )
    known = [percent for percent in found if percent is not None]
    return median(known) if known else None
