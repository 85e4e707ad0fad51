"""The fields that can be queried, by nvidia-smi's names, and where gpudash has them from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Generic, NamedTuple, TypeVar

from msgspec import Struct

from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, did_you_mean

_MIB = 1 << 20
_UNKNOWN_STATE = 32


def whole(value: float | None) -> str | None:
    """Return a whole number."""
    return None if value is None else f"{value:.0f}"


def mebibytes(value: int | None) -> str | None:
    """Return bytes as MiB, rounded down."""
    return None if value is None else str(value // _MIB)


def watts(milliwatts: int | None) -> str | None:
    """Return watts with two decimals."""
    return None if milliwatts is None else f"{milliwatts / 1000:.2f}"


def enabled(value: bool | None) -> str | None:
    """Return `Enabled` or `Disabled`."""
    return None if value is None else "Enabled" if value else "Disabled"


def yes(value: bool | None) -> str | None:
    """Return `Yes` or `No`."""
    return None if value is None else "Yes" if value else "No"


def words(value: str | None) -> str | None:
    """Return text that cannot break its row."""
    return None if value is None else clean(value)


def title(value: str | None) -> str | None:
    """Return `exclusive-process` as `Exclusive_Process`."""
    return None if value is None else "_".join(part.capitalize() for part in value.split("-"))


def state(value: int | None) -> str | None:
    """Return `P0`."""
    return None if value is None or value == _UNKNOWN_STATE else f"P{value}"


def moment(value: datetime) -> str:
    """Return local time: `2026/11/21 10:53:41.983`."""
    local = value.astimezone()
    return f"{local:%Y/%m/%d %H:%M:%S}.{local.microsecond // 1000:03}"


_UNNAMED_BITS = re.compile(r"0x[0-9a-f]{1,16}")
_REASON_BITS = {
    "gpu-idle": 0x1,
    "applications-clocks-setting": 0x2,
    "sw-power-cap": 0x4,
    "hw-slowdown": 0x8,
    "sync-boost": 0x10,
    "sw-thermal-slowdown": 0x20,
    "hw-thermal-slowdown": 0x40,
    "hw-power-brake-slowdown": 0x80,
    "display-clock-setting": 0x100,
}


class Use(NamedTuple):
    """One process on one device."""

    process: Process
    share: ProcessDevice
    device: Device


Row = TypeVar("Row")


class Field(Struct, Generic[Row], frozen=True):
    """A field: the name in its heading, its text, unit and other names, and what N/A is there."""

    name: str
    text: Callable[[Snapshot, Row], str | None]
    unit: str = ""
    aliases: tuple[str, ...] = ()
    absent: str = "[N/A]"


def find(name: str, fields: Mapping[str, Field[Row]]) -> Field[Row]:
    """Return the field of a name or alias; raises UsageError that suggests the nearest."""
    found = fields.get(name)
    if found is not None:
        return found
    hint = did_you_mean(name, fields, count=3) or "--help-query-gpu lists those there are"
    raise UsageError(f"{clean(name, 80)!r} is no field to query: {hint}")


def _pci(part: slice) -> Callable[[Snapshot, Device], str | None]:
    """Return a part of the PCI address: `00000000:1A:00.0`."""

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        if device.pci_bus_id is None:
            return None
        domain, _, rest = device.pci_bus_id.partition(":")
        parts = (domain[-4:], *rest.replace(".", ":").split(":"))
        return f"0x{''.join(parts[part])}"

    return text


def _mask(_snapshot: Snapshot, device: Device) -> str | None:
    """Return the reasons as the driver's bits; None if one is a word without a known bit."""
    if device.clocks_event_reasons is None:
        return None
    mask = 0
    for reason in device.clocks_event_reasons:
        bits = _REASON_BITS.get(reason) or _bits(reason)
        if bits is None:
            return None
        mask |= bits
    return f"0x{mask:016X}"


def _bits(reason: str) -> int | None:
    """Return the bits that have no name: they are told as `0x400`."""
    found = _UNNAMED_BITS.fullmatch(reason)
    return int(found[0], 16) if found else None


def _clock(key: str) -> Callable[[Snapshot, Device], str | None]:
    return lambda snapshot, device: whole(getattr(device, key))


def _reason(name: str) -> Field[Device]:
    def text(_snapshot: Snapshot, device: Device) -> str | None:
        reasons = device.clocks_event_reasons
        return None if reasons is None else "Active" if name in reasons else "Not Active"

    suffix = name.replace("-", "_")
    return Field(
        f"clocks_event_reasons.{suffix}", text, aliases=(f"clocks_throttle_reasons.{suffix}",)
    )


_GPU: tuple[Field[Device], ...] = (
    Field("timestamp", lambda s, d: moment(s.taken_at)),
    Field("driver_version", lambda s, d: words(s.host.driver_version)),
    Field("count", lambda s, d: str(sum(not each.is_mig for each in s.devices))),
    Field("name", lambda s, d: words(d.name), aliases=("gpu_name",)),
    Field("serial", lambda s, d: words(d.serial), aliases=("gpu_serial",)),
    Field("uuid", lambda s, d: words(d.uuid), aliases=("gpu_uuid",)),
    Field("pci.bus_id", lambda s, d: words(d.pci_bus_id), aliases=("gpu_bus_id",)),
    Field("pci.domain", _pci(slice(0, 1))),
    Field("pci.bus", _pci(slice(1, 2))),
    Field("pci.device", _pci(slice(2, 3))),
    Field("pcie.link.gen.current", lambda s, d: whole(d.pcie_link_generation)),
    Field("pcie.link.gen.max", lambda s, d: whole(d.max_pcie_link_generation)),
    Field("pcie.link.width.current", lambda s, d: whole(d.pcie_link_width)),
    Field("pcie.link.width.max", lambda s, d: whole(d.max_pcie_link_width)),
    Field("index", lambda s, d: str(d.index)),
    Field("display_mode", lambda s, d: enabled(d.display_attached)),
    Field("display_active", lambda s, d: enabled(d.display_active)),
    Field("persistence_mode", lambda s, d: enabled(d.persistence_mode)),
    Field("driver_model.current", lambda s, d: words(d.driver_model)),
    Field("vbios_version", lambda s, d: words(d.vbios_version)),
    Field("fan.speed", lambda s, d: whole(d.fan_speed_percent), "%"),
    Field("pstate", lambda s, d: state(d.performance_state)),
    Field("clocks_event_reasons.active", _mask, aliases=("clocks_throttle_reasons.active",)),
    *(_reason(name) for name in list(_REASON_BITS)[:-1]),
    Field("memory.total", lambda s, d: mebibytes(d.memory_total_bytes), "MiB"),
    Field("memory.reserved", lambda s, d: mebibytes(d.memory_reserved_bytes), "MiB"),
    Field("memory.used", lambda s, d: mebibytes(d.memory_used_bytes), "MiB"),
    Field("memory.free", lambda s, d: mebibytes(d.memory_free_bytes), "MiB"),
    Field("compute_mode", lambda s, d: title(d.compute_mode)),
    Field("compute_cap", lambda s, d: words(d.compute_capability)),
    Field("utilization.gpu", lambda s, d: whole(d.gpu_utilization_percent), "%"),
    Field("utilization.memory", lambda s, d: whole(d.memory_utilization_percent), "%"),
    Field("utilization.encoder", lambda s, d: whole(d.encoder_utilization_percent), "%"),
    Field("utilization.decoder", lambda s, d: whole(d.decoder_utilization_percent), "%"),
    Field("utilization.jpeg", lambda s, d: whole(d.jpeg_utilization_percent), "%"),
    Field("utilization.ofa", lambda s, d: whole(d.ofa_utilization_percent), "%"),
    Field("ecc.mode.current", lambda s, d: enabled(d.ecc_mode)),
    Field("ecc.mode.pending", lambda s, d: enabled(d.pending_ecc_mode)),
    Field(
        "ecc.errors.corrected.volatile.total",
        lambda s, d: whole(d.ecc_corrected_volatile_count),
    ),
    Field(
        "ecc.errors.corrected.aggregate.total",
        lambda s, d: whole(d.ecc_corrected_aggregate_count),
    ),
    Field(
        "ecc.errors.uncorrected.volatile.total",
        lambda s, d: whole(d.ecc_uncorrected_volatile_count),
    ),
    Field(
        "ecc.errors.uncorrected.aggregate.total",
        lambda s, d: whole(d.ecc_uncorrected_aggregate_count),
    ),
    Field(
        "retired_pages.single_bit_ecc.count",
        lambda s, d: whole(d.retired_pages_single_bit_count),
        aliases=("retired_pages.sbe",),
    ),
    Field(
        "retired_pages.double_bit.count",
        lambda s, d: whole(d.retired_pages_double_bit_count),
        aliases=("retired_pages.dbe",),
    ),
    Field("retired_pages.pending", lambda s, d: yes(d.retired_pages_pending)),
    Field("temperature.gpu", lambda s, d: whole(d.temperature_celsius)),
    Field("temperature.gpu.tlimit", lambda s, d: whole(d.temperature_margin_celsius)),
    Field("temperature.memory", lambda s, d: whole(d.memory_temperature_celsius), absent="N/A"),
    Field("power.draw", lambda s, d: watts(d.power_usage_mw), "W"),
    Field("power.draw.average", lambda s, d: watts(d.power_average_mw), "W"),
    Field("power.draw.instant", lambda s, d: watts(d.power_instant_mw), "W"),
    Field("power.limit", lambda s, d: watts(d.power_limit_mw), "W"),
    Field("enforced.power.limit", lambda s, d: watts(d.enforced_power_limit_mw), "W"),
    Field("power.default_limit", lambda s, d: watts(d.default_power_limit_mw), "W"),
    Field("power.min_limit", lambda s, d: watts(d.min_power_limit_mw), "W"),
    Field("power.max_limit", lambda s, d: watts(d.max_power_limit_mw), "W"),
    *(
        Field(
            f"clocks.{kind}.{name}",
            _clock(key),
            "MHz",
            aliases,
        )
        for kind, name, key, aliases in (
            ("current", "graphics", "graphics_clock_mhz", ("clocks.gr",)),
            ("current", "sm", "sm_clock_mhz", ("clocks.sm",)),
            ("current", "memory", "memory_clock_mhz", ("clocks.mem",)),
            ("current", "video", "video_clock_mhz", ("clocks.video",)),
            ("max", "graphics", "max_graphics_clock_mhz", ("clocks.max.gr",)),
            ("max", "sm", "max_sm_clock_mhz", ()),
            ("max", "memory", "max_memory_clock_mhz", ("clocks.max.mem",)),
        )
    ),
    Field("mig.mode.current", lambda s, d: enabled(d.mig_mode)),
    Field("mig.mode.pending", lambda s, d: enabled(d.pending_mig_mode)),
)

_APPS: tuple[Field[Use], ...] = (
    Field("timestamp", lambda s, u: moment(s.taken_at)),
    Field("gpu_name", lambda s, u: words(u.device.name)),
    Field("gpu_bus_id", lambda s, u: words(u.device.pci_bus_id)),
    Field("gpu_serial", lambda s, u: words(u.device.serial)),
    Field("gpu_uuid", lambda s, u: words(u.device.uuid)),
    Field("pid", lambda s, u: str(u.process.pid)),
    Field(
        "process_name", lambda s, u: _program(u.process), aliases=("name",), absent="[Not Found]"
    ),
    Field(
        "used_gpu_memory",
        lambda s, u: mebibytes(u.share.used_gpu_memory_bytes),
        "MiB",
        ("used_memory",),
    ),
)


def _program(process: Process) -> str | None:
    """Return the program as it was started, else its name."""
    line = process.command_line
    return words(line[0] if line and line[0] else process.name)


GPU_FIELDS: Mapping[str, Field[Device]] = {
    name: field for field in _GPU for name in (field.name, *field.aliases)
}
"""The fields of --query-gpu by each of their names."""

APP_FIELDS: Mapping[str, Field[Use]] = {
    name: field for field in _APPS for name in (field.name, *field.aliases)
}
"""The fields of --query-compute-apps by each of their names."""
