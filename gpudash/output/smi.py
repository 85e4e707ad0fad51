"""The fields of nvidia-smi's --query-gpu: its names, units and `[N/A]`.

Fields that are plain metrics are declared in `model/device.py` with their names; computed ones, and
the format of values, are here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import Struct

from gpudash.model import fields
from gpudash.model.details import detailed_fields
from gpudash.model.device import EVENT_REASONS, Device
from gpudash.model.records import EccLocation, SramErrors
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import Unit
from gpudash.output.smi_layout import NEW_BRANCH, branch
from gpudash.output.smi_table import frame_buffer_mebibytes, has_no_known_state, mebibytes

_FLOAT = struct.Struct("f")
"""nvidia-smi divides in single precision: of 20 values, one differs in its last digit."""
_UNNAMED_BITS = re.compile(r"0x[0-9a-f]{1,16}")


_PROFILE = {
    "secondary_power_floor": "W",
    "primary_floor_act_window_multiplier": "",
    "primary_floor_tar_window_multiplier": "",
    "primary_floor_act_offset": "W",
}
NOT_READ: Mapping[str, str] = {
    f"{section}.{name}".removeprefix("."): unit
    for section, names in {
        "vgpu_driver_capability": {"heterogenous_multivGPU": ""},
        "vgpu_device_capability": {
            "fractional_multiVgpu": "",
            "heterogeneous_timeSlice_profile": "",
            "heterogeneous_timeSlice_sizes": "",
            "homogeneous_placements": "",
            "mig_timeSlicing": "",
            "mig_timeSlicing_mode": "",
        },
        "": {"edpp_multiplier": "", "hostname": ""},
        "power_smoothing": {
            "delayed_power_smoothing_supported": "",
            "primary_power_floor": "W",
            "secondary_power_floor": "W",
            "min_primary_floor_activation_offset": "W",
            "min_primary_floor_activation_point": "W",
            "window_multiplier": "ms",
        },
        "power_smoothing.curr_profile": _PROFILE,
        "power_smoothing.admin_override": _PROFILE,
    }.items()
    for name, unit in names.items()
}
"""Fields of nvidia-smi, up to driver 590, that are always `[N/A]` here, and their units.

Not read are virtual GPUs, power smoothing, the name that a GPU can be given for its host, and
anything that NVML does not document the source of.
"""

Row = TypeVar("Row")


class SmiField(Struct, Generic[Row], frozen=True):
    """A field: the name in its heading, its text, unit, other names, and its text for None."""

    name: str
    text: Callable[[Snapshot, Row], str | None]
    unit: str = ""
    aliases: tuple[str, ...] = ()
    absent: str = "[N/A]"
    reads: tuple[str, ...] = ()
    """The fields of a device that its text needs, beyond those that identify the GPU."""

    def absent_in(self, snapshot: Snapshot) -> str:
        """Return its text for None, as in nvidia-smi of the loaded driver."""
        return (branch(snapshot) >= NEW_BRANCH and _NEW_ABSENT.get(self.name)) or self.absent


def written(name: str) -> Callable[[Any], str | None]:
    """Return how to write a metric's value, without its unit."""
    return _WRITTEN.get(name) or _BY_UNIT.get(detailed_fields()[name].unit, _plain)


def unit_of(name: str) -> str:
    """Return the unit of a metric, empty for none."""
    return _UNITS.get(detailed_fields()[name].unit, "")


def _text(
    name: str, write: Callable[[Any], str | None] | None = None
) -> Callable[[Snapshot, Device], str | None]:
    """Return how to write a metric: like nvidia-smi, or in another form."""
    form = write or written(name)

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        value = getattr(device, name)
        return None if value is None else form(value)

    return text


def _plain(value: bool | float | str) -> str:
    """Return `Enabled` or `Disabled`, a text unchanged, or an integer."""
    if isinstance(value, bool):
        return "Enabled" if value else "Disabled"
    return value if isinstance(value, str) else f"{value:.0f}"


def _capitalized(separator: str) -> Callable[[str], str]:
    """Return how to write a word such as `exclusive-process`: `Exclusive_Process`."""
    return lambda value: separator.join(part.capitalize() for part in value.split("-"))


def _yes_or_no(value: bool) -> str:
    return "Yes" if value else "No"


def _on_or_off(value: bool) -> str:
    return "On" if value else "Off"


_VIRTUALIZATION = {"vgpu": "VGPU", "host-vgpu": "Host VGPU", "host-vsga": "Host VSGA"}
_RECOVERY_ACTIONS: Mapping[str, str] = {
    "gpu-reset": "Reset",
    "node-reboot": "Reboot",
    "drain-p2p": "Drain P2P",
    "drain-and-reset": "Drain and Reset",
}
_UNITS = {
    Unit.BYTE: "MiB",
    Unit.MILLIWATT: "W",
    Unit.PERCENT: "%",
    Unit.MEGAHERTZ: "MHz",
    Unit.SECOND: "us",
    Unit.BYTE_PER_SECOND: "KB/s",
}
"""Units as in nvidia-smi; a temperature has none."""
_BY_UNIT: Mapping[Unit, Callable[[Any], str | None]] = {
    Unit.BYTE: mebibytes,
    Unit.MILLIWATT: lambda value: f"{_FLOAT.unpack(_FLOAT.pack(value / 1000))[0]:.2f}",
    Unit.SECOND: lambda value: f"{value * 1e6:.0f}",
    Unit.BYTE_PER_SECOND: lambda value: str(value // 1000),
}
_WRITTEN: Mapping[str, Callable[[Any], str | None]] = {
    **dict.fromkeys(
        ("memory_reserved_bytes", "memory_used_bytes", "memory_free_bytes"),
        lambda value: str(frame_buffer_mebibytes(value)),
    ),
    "compute_mode": _capitalized("_"),
    "gpu_operation_mode": _capitalized(" "),
    "pending_gpu_operation_mode": _capitalized(" "),
    "addressing_mode": lambda value: "None" if value == "none" else value.upper(),
    "retired_pages_pending": _yes_or_no,
    "remapped_rows_pending": _yes_or_no,
    "remapped_rows_failed": _yes_or_no,
    "recovery_action": lambda value: _RECOVERY_ACTIONS.get(value) or _capitalized(" ")(value),
    "reset_required": _yes_or_no,
    "drain_and_reset_recommended": _yes_or_no,
    "fabric_route_recovering": str,
    "fabric_route_unhealthy": str,
    "fabric_access_timeout_recovering": str,
    "fabric_partition_assigned": str,
    "fabric_incorrect_configuration": _capitalized(" "),
    "fabric_health": _capitalized(" "),
    "multi_gpu_board": _yes_or_no,
    "channel_repair_pending": _yes_or_no,
    "tpc_repair_pending": _yes_or_no,
    "unrepairable_memory": _yes_or_no,
    "egm_mode": lambda value: "enabled" if value else "disabled",
    "auto_boost": _on_or_off,
    "default_auto_boost": _on_or_off,
    "virtualization_mode": lambda value: _VIRTUALIZATION.get(value) or _capitalized("-")(value),
    "host_vgpu_mode": lambda value: value.upper().replace("NON-", "Non "),
    "chassis_peer_type": _capitalized(" "),
}
_ABSENT = {
    "memory_temperature_celsius": "N/A",
    "inforom_oem_version": "N/A",
    "inforom_ecc_version": "N/A",
    "inforom_power_version": "N/A",
}
"""Texts for None other than `[N/A]`."""
_NEW_ABSENT = {
    **dict.fromkeys(("inforom.oem", "inforom.ecc", "inforom.pwr"), "[N/A]"),
    **dict.fromkeys(("fabric.state", "fabric.status"), "N/A"),
}
"""Other texts for None since NEW_BRANCH."""


def _declared(metric: fields.Field) -> SmiField[Device]:
    """Return the field of a metric with a name in nvidia-smi."""
    name, *aliases = metric.smi
    unit, absent = unit_of(metric.name), _ABSENT.get(metric.name, "[N/A]")
    if name.startswith("fabric."):
        absent = "N/A"
    return SmiField(name, _text(metric.name), unit, tuple(aliases), absent, (metric.name,))


def moment(value: datetime) -> str:
    """Return local time: `2026/11/21 10:53:41.983`."""
    local = value.astimezone()
    return f"{local:%Y/%m/%d %H:%M:%S}.{local.microsecond // 1000:03}"


def _field(
    name: str,
    metric: str,
    write: Callable[[Any], str | None] | None = None,
    absent: str = "[N/A]",
    *aliases: str,
) -> SmiField[Device]:
    """Return a field that is a metric in another form."""
    return SmiField(name, _text(metric, write), "", aliases, absent, (metric,))


def _pci(part: slice) -> Callable[[Snapshot, Device], str | None]:
    """Return a part of the PCI address: `00000000:1A:00.0`."""

    def write(address: str) -> str:
        domain, _, rest = address.partition(":")
        parts = (domain[-4:], *rest.replace(".", ":").split(":"))
        return f"0x{''.join(parts[part])}"

    return _text("pci_bus_id", write)


def _mask(reasons: Iterable[str]) -> str | None:
    """Return reasons as the driver's bits; None if one has no known bit."""
    bits = [EVENT_REASONS.get(reason) or _bits(reason) for reason in reasons]
    return None if None in bits else f"0x{sum(filter(None, bits)):016X}"


def _bits(reason: str) -> int | None:
    """Return the bits of a reason without a name, such as `0x400`."""
    found = _UNNAMED_BITS.fullmatch(reason)
    return int(found[0], 16) if found else None


def reason_text(name: str) -> Callable[[Snapshot, Device], str | None]:
    """Return how to write whether a reason limits the clocks."""
    return _text(
        "clocks_event_reasons", lambda reasons: "Active" if name in reasons else "Not Active"
    )


def _reason(name: str) -> SmiField[Device]:
    suffix, field = name.replace("-", "_"), "clocks_event_reasons"
    aliases = (f"clocks_throttle_reasons.{suffix}",)
    return SmiField(f"{field}.{suffix}", reason_text(name), aliases=aliases, reads=(field,))


def _reason_mask(name: str, field: str) -> SmiField[Device]:
    old = f"clocks_throttle_reasons.{name}"
    return _field(f"clocks_event_reasons.{name}", field, _mask, "[N/A]", old)


_LOCATIONS = {
    "device_memory": "device-memory",
    "dram": "device-memory",
    "register_file": "register-file",
    "l1_cache": "l1-cache",
    "l2_cache": "l2-cache",
    "texture_memory": "texture-memory",
    "cbu": "cbu",
    "sram": "sram",
}


def _ecc_errors() -> Iterator[SmiField[Device]]:
    """Yield `ecc.errors.corrected.volatile.dram` and the like."""
    for kind in ("corrected", "uncorrected"):
        for span in ("volatile", "aggregate"):
            for name, location in _LOCATIONS.items():
                write = partial(_ecc_count, location, f"{kind}_{span}_count")
                yield _field(f"ecc.errors.{kind}.{span}.{name}", "ecc_locations", write)


def _ecc_count(location: str, field: str, locations: Iterable[EccLocation]) -> str | None:
    found = [each for each in locations if each.name == location]
    count = getattr(found[0], field) if found else None
    return None if count is None else str(count)


_SRAM_ERRORS = {
    "volatile.sram.parity": "parity_volatile_count",
    "volatile.sram.secded": "secded_volatile_count",
    "aggregate.sram.parity": "parity_aggregate_count",
    "aggregate.sram.secded": "secded_aggregate_count",
    "aggregate.sram.l2": "l2_aggregate_count",
    "aggregate.sram.sm": "sm_aggregate_count",
    "aggregate.sram.mcu": "microcontroller_aggregate_count",
    "aggregate.sram.pcie": "pcie_aggregate_count",
    "aggregate.sram.other": "other_aggregate_count",
    "aggregate.sram.thresholdExceeded": "threshold_exceeded",
}


def _sram(name: str, counter: str) -> SmiField[Device]:
    def write(errors: SramErrors) -> str | None:
        value = getattr(errors, counter)
        if isinstance(value, bool):
            return _yes_or_no(value)
        return None if value is None else str(value)

    return _field(f"ecc.errors.uncorrected.{name}", "sram_errors", write)


def _banks(name: str, position: int) -> SmiField[Device]:
    histogram = f"remapped_rows.histogram.{name}"
    return _field(histogram, "remapped_rows_banks", lambda banks: str(banks[position]))


def _display_mode(snapshot: Snapshot, device: Device) -> str | None:
    if branch(snapshot) >= NEW_BRANCH:
        return "[Requested functionality has been deprecated]"
    return None if device.display_attached is None else _plain(device.display_attached)


def _in_chassis(field: str, outside: str) -> SmiField[Device]:
    """Return a field of the position in a rack, which the driver also reports outside one."""
    (name,) = detailed_fields()[field].smi

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        value = getattr(device, field)
        if value is None and device.chassis_host_id is not None:
            return outside
        return None if value is None else str(value)

    return SmiField(name, text, reads=(field, "chassis_host_id"))


def _fabric_guid(_snapshot: Snapshot, device: Device) -> str | None:
    """Return zeros outside a rack; inside one, it is not read."""
    is_outside = device.chassis_host_id is not None and device.chassis_serial is None
    return f"0x{0:016x}" if is_outside else None


def _performance_state(_snapshot: Snapshot, device: Device) -> str | None:
    state = device.performance_state
    if state is None:
        return "Unknown" if has_no_known_state(device) else None
    return f"P{state}"


def _host_generation(_snapshot: Snapshot, device: Device) -> str | None:
    """Return the slot's PCIe generation, only known if it limits the GPU."""
    both, gpu = device.max_pcie_link_generation, device.max_gpu_pcie_link_generation
    return str(both) if both is not None and gpu is not None and both < gpu else None


_GPU: tuple[SmiField[Device], ...] = (
    SmiField("timestamp", lambda s, d: moment(s.taken_at)),
    SmiField("driver_version", lambda s, d: s.host.driver_version),
    SmiField("count", lambda s, d: str(sum(not each.is_mig for each in s.devices))),
    *(_declared(metric) for metric in detailed_fields().values() if metric.smi),
    # These replace declared ones.
    SmiField("pstate", _performance_state, reads=("performance_state",)),
    _in_chassis("chassis_serial", ""),
    _in_chassis("chassis_slot_number", "0"),
    _in_chassis("chassis_tray_index", "0"),
    SmiField(
        "platform.gpu_fabric_guid",
        _fabric_guid,
        reads=("chassis_serial", "chassis_host_id"),
    ),
    _field(
        "inforom.checksum_validation",
        "inforom_valid",
        lambda is_valid: "valid" if is_valid else "invalid",
    ),
    SmiField("pci.domain", _pci(slice(0, 1))),
    SmiField("pci.bus", _pci(slice(1, 2))),
    SmiField("pci.device", _pci(slice(2, 3))),
    _reason_mask("active", "clocks_event_reasons"),
    _reason_mask("supported", "supported_clocks_event_reasons"),
    # The last, display-clock-setting, has no name in nvidia-smi.
    *(_reason(name) for name in list(EVENT_REASONS)[:-1]),
    _field("pcie.link.gen.gpucurrent", "pcie_link_generation"),
    SmiField(
        "pcie.link.gen.hostmax",
        _host_generation,
        reads=("max_pcie_link_generation", "max_gpu_pcie_link_generation"),
    ),
    *_ecc_errors(),
    *(_sram(name, counter) for name, counter in _SRAM_ERRORS.items()),
    *(
        _banks(name, number)
        for number, name in enumerate(("max", "high", "partial", "low", "none"))
    ),
    _field("display_attached", "display_attached", _yes_or_no),
    SmiField("display_mode", _display_mode, reads=("display_attached",)),
    _field(
        "fabric.health.bandwidth",
        "fabric_bandwidth_degraded",
        lambda is_degraded: "Degraded" if is_degraded else "Full",
        "N/A",
    ),
    _field("fabric.state", "fabric_state", _capitalized(" ")),
    _field(
        "fabric.status",
        "fabric_status_code",
        lambda code: f"Error {code}" if code else "Success",
    ),
    *(SmiField(name, lambda _snapshot, _device: None, unit) for name, unit in NOT_READ.items()),
)

GPU_FIELDS: Mapping[str, SmiField[Device]] = {
    name: field for field in _GPU for name in (field.name, *field.aliases)
}
"""The fields of --query-gpu, by each of their names."""
