"""What each device is being used for, in a word or two."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.analysis.health.engine import findings_by_device
from gpudash.analysis.health.levels import notable
from gpudash.analysis.health.status import is_held, is_hot
from gpudash.model.device import Device
from gpudash.model.snapshot import Finding, Snapshot
from gpudash.model.state import state_words


def uses(snapshot: Snapshot) -> dict[str, str]:
    """Return the use of each device by its key.

    Hot: it slows itself down. Held idle: processes keep it and do nothing there. Free: no compute
    process, hardly any memory, and not leased; leased: free but for that. In use: it does nothing
    at this instant, but someone who works there, or who is not listed, has memory; or the
    utilization is not known.
    """
    concerned = findings_by_device(snapshot)
    held = {
        device.key for device in snapshot.devices if is_held(device, concerned.get(device.key, ()))
    }
    held |= {device.parent_uuid or "" for device in snapshot.devices if device.key in held}
    users = {share.uuid for p in snapshot.processes for share in p.devices if share.type != "G"}
    # Whom a listing failed for is not known to be nobody.
    users |= {fault.uuid for fault in snapshot.errors if fault.source == "processes"}
    leased: set[str | None] = {lease.uuid for lease in snapshot.leases}
    for taken in (users, leased):
        taken |= {d.parent_uuid for d in snapshot.devices if d.is_mig and d.uuid in taken}
    found = {
        device.key: _use(device, concerned.get(device.key, ()), device.key in held, users)
        for device in snapshot.devices
    }
    for device in snapshot.devices:
        if device.uuid in leased and found[device.key] == "free":
            found[device.key] = "leased"
    return found


def _use(device: Device, findings: Sequence[Finding], is_held: bool, users: set[str | None]) -> str:
    if device.state != "ok":
        return state_words(device).use
    if is_hot(device, findings):
        return "hot"
    if device.gpu_utilization_percent:
        return "busy"
    if is_held and device.gpu_utilization_percent == 0:
        return "held idle"
    used = device.memory_used_bytes
    # That of a GPU in MIG mode, and of an instance, is told by nobody.
    is_idle = device.gpu_utilization_percent == 0 or device.is_mig or bool(device.mig_mode)
    is_used = is_held or device.uuid in users or used is None or notable(device, used)
    is_used = is_used or not is_idle
    return "in use" if is_used else "free"
