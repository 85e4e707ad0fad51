"""CUDA_VISIBLE_DEVICES as a process sees it, translated to the devices of a snapshot.

CUDA numbers the devices in the order of that list, and cuts the list at the first entry that is
none. NVML ignores all of it, so this is how `cuda:0` of a program finds its row on the screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.text import clean

_VARIABLE = "CUDA_VISIBLE_DEVICES"
_ORDER = "CUDA_DEVICE_ORDER"
_CONTAINER = "NVIDIA_VISIBLE_DEVICES"
_NO_SUBSET = frozenset({"", "all", "none", "void"})


class VisibleDevices(Struct, frozen=True, kw_only=True):
    """What CUDA shows to a process: the place in `devices` is the number behind `cuda:`."""

    value: str | None
    """The variable as it is set, None if it is not."""
    devices: tuple[Device, ...]
    is_guess: bool
    """Whether an index may mean another GPU than the one given here."""
    remarks: tuple[str, ...]
    """Why entries were dropped and why it is a guess, a sentence each."""


def visible_devices(environment: Mapping[str, str], devices: Sequence[Device]) -> VisibleDevices:
    """Return the devices that CUDA shows to a process with that environment."""
    value = environment.get(_VARIABLE)
    remarks: list[str] = []
    if value is None:
        found = [device for device in devices if not device.is_mig]
    else:
        found = _chosen(value, devices, remarks)
    doubts = _doubts(environment, devices) if value is None or _has_index(value) else []
    return VisibleDevices(
        value=None if value is None else clean(value),
        devices=tuple(found),
        is_guess=bool(doubts) and bool(found),
        remarks=(*remarks, *doubts) if found else tuple(remarks),
    )


def _chosen(value: str, devices: Sequence[Device], remarks: list[str]) -> list[Device]:
    """Return the devices up to the first entry that CUDA does not take."""
    found: list[Device] = []
    if not value.strip():
        remarks.append("it is empty: CUDA sees no device")
        return found
    for entry in value.split(","):
        word = entry.strip()
        device = _device(word, devices)
        if device is None or device in found:
            reason = "no device" if device is None else "named twice"
            remarks.append(f"CUDA stops at {clean(word, 80)!r}: {reason}")
            break
        if found and (device.is_mig or found[0].is_mig):
            remarks.append("CUDA uses one MIG instance at most and ignores the rest")
            break
        found.append(device)
    return found


def _device(word: str, devices: Sequence[Device]) -> Device | None:
    if word.isascii() and word.isdecimal():
        number = int(word[:9])
        return next((d for d in devices if not d.is_mig and d.index == number), None)
    wanted = word.lower()
    if "/" in wanted:
        return next((d for d in devices if _old_mig_name(d) == wanted), None)
    if not wanted.startswith(("gpu-", "mig-")):
        return None
    fitting = [d for d in devices if (d.uuid or "").lower().startswith(wanted)]
    return fitting[0] if len(fitting) == 1 else None


def _old_mig_name(device: Device) -> str:
    """Return `mig-gpu-UUID/GI/CI`, as drivers before 470 name an instance."""
    parts = (device.parent_uuid, device.gpu_instance_id, device.compute_instance_id)
    return "mig-{}/{}/{}".format(*parts).lower()


def _has_index(value: str) -> bool:
    return any(entry.strip().isdecimal() for entry in value.split(","))


def _doubts(environment: Mapping[str, str], devices: Sequence[Device]) -> list[str]:
    """Return why an index may not be NVML's."""
    doubts: list[str] = []
    models = {device.name for device in devices if device.name and not device.is_mig}
    if environment.get(_ORDER) != "PCI_BUS_ID" and len(models) > 1:
        doubts.append(f"the order is a guess: models differ and {_ORDER} is not PCI_BUS_ID")
    subset = environment.get(_CONTAINER, "")
    if subset not in _NO_SUBSET:
        doubts.append(f"in a container indices count its own GPUs only ({clean(subset, 80)})")
    return doubts
