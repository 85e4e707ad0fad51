"""What a device declares, read once: each metric's name for people, group, unit and help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, get_type_hints

from gpudash.model.device import Device
from gpudash.model.fields import Group
from gpudash.model.units import Unit

_UNIT_WORDS = ("bytes_per_second", "bytes", "percent", "celsius", "mw", "mj", "mhz", "seconds")
_SPELLED = {
    "pcie": "PCIe",
    "nvlink": "NVLink",
    "nvlinks": "NVLinks",
    "tlimit": "T-limit",
    "vbios": "VBIOS",
    "gpus": "GPUs",
}
_COUNTED = frozenset({"gpu", "core", "multiprocessor", "nvlink", "replay", "error", "recovery"})
_INITIALS = frozenset(
    {"gpu", "sm", "uuid", "pci", "id", "bar1", "jpeg", "ofa", "dram", "fp64", "fp32", "fp16"}
    | {"cpu", "p2p", "tx", "rx", "ecc", "mig", "sw", "hw", "crc", "xid"}
)


class DeviceField(NamedTuple):
    """A declared metric of a device."""

    name: str
    """The field of `Device`."""
    label: str
    group: Group
    unit: Unit
    help: str


def label(name: str) -> str:
    """Return a field's name as people write it, the unit left out: `GPU utilization`."""
    for word in _UNIT_WORDS:
        name = name.removesuffix(f"_{word}")
    if name.endswith("_count"):
        name = name.removesuffix("_count")
        if name.rpartition("_")[2] in _COUNTED:
            name = f"{name[:-1]}ies" if name.endswith("ry") else f"{name}s"
    text = " ".join(_word(word) for word in name.split("_"))
    return text[:1].upper() + text[1:]


def _word(word: str) -> str:
    return word.upper() if word in _INITIALS else _SPELLED.get(word, word)


def _declared() -> tuple[DeviceField, ...]:
    hints = get_type_hints(Device, include_extras=True)
    fields = []
    for name in Device.__struct_fields__:
        meta = next(meta for meta in hints[name].__metadata__ if meta.extra)
        extra = meta.extra
        fields.append(
            DeviceField(name, label(name), extra["group"], extra["unit"], meta.description)
        )
    return tuple(fields)


DEVICE_FIELDS: tuple[DeviceField, ...] = _declared()
"""Every metric of a device, in the order in which they are declared."""

BY_NAME: Mapping[str, DeviceField] = {field.name: field for field in DEVICE_FIELDS}
"""The same by field name."""
