"""GPUs of which it is not known who is on them: that nobody is listed there does not say nobody."""

from __future__ import annotations

from gpudash.analysis.labels import index_ranges
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.snapshot import Snapshot, are_untold
from gpudash.model.state import is_left_alone


def is_unlisted(device: Device, snapshot: Snapshot) -> bool:
    """Whether the driver did not tell who is on a device: one that is out of order lists nobody."""
    if device.state != "ok" and not is_left_alone(device):
        return True
    return not unlisted_uuids(snapshot.errors).isdisjoint({device.uuid, device.parent_uuid})


def nobody(snapshot: Snapshot) -> str:
    """Return what to say where no process is listed: that none runs, as far as that is known."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
    unlisted = [device.index for device in gpus if is_unlisted(device, snapshot)]
    if are_untold(snapshot) or (gpus and len(unlisted) == len(gpus)):
        return "Which processes run is not known"
    if not unlisted:
        return "No running processes found"
    return f"No running processes found; those on GPU {index_ranges(unlisted)} are not known"


def no_gpu(snapshot: Snapshot) -> str:
    """Return what to say where no GPU is listed: that there is none, if the driver said so."""
    if are_untold(snapshot):
        return "Which GPUs there are is not known"
    return "There is no GPU"
