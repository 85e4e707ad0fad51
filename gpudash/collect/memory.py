"""Memory that the driver alone does not explain: held by nobody it lists, or the host's own."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gpudash.collect.source import Holders, HostReader
from gpudash.model.device import Device
from gpudash.model.snapshot import Host, Snapshot

_UNACCOUNTED_BYTES = 256 << 20
"""Less may be what the driver keeps besides its processes; a lone CUDA context takes more."""


def explained(snapshot: Snapshot, reader: HostReader) -> Snapshot:
    """Return the snapshot with who may hold what nobody owns, and with what the host shares."""
    minors = {d.minor_number for d in snapshot.devices if d.minor_number is not None and _lacks(d)}
    listed = {process.pid for process in snapshot.processes}
    holders = reader.holders(minors, listed)
    if not holders and not any(device.unified_memory for device in snapshot.devices):
        return snapshot
    devices = (_with_holders(device, holders) for device in snapshot.devices)
    return replace(snapshot, devices=tuple(_sharing(each, snapshot.host) for each in devices))


def _lacks(device: Device) -> bool:
    """Whether much of its memory has no owner."""
    return not device.is_mig and (device.memory_unaccounted_bytes or 0) >= _UNACCOUNTED_BYTES


def _with_holders(device: Device, holders: Mapping[int, Holders]) -> Device:
    known = None if device.minor_number is None else holders.get(device.minor_number)
    if known is None or not _lacks(device):
        return device
    return replace(device, holders=known.found, holders_complete=known.complete)


def _sharing(device: Device, host: Host) -> Device:
    """Return a GPU without memory of its own with the sizes of the host's."""
    if not device.unified_memory:
        return device
    return replace(
        device,
        memory_total_bytes=host.memory_total_bytes,
        memory_used_bytes=host.memory_used_bytes,
        memory_free_bytes=host.memory_available_bytes,
    )
