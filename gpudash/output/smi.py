"""nvidia-smi's selective queries as CSV, and its list of GPUs: its names, units and `[N/A]`.

A field that is a plain metric is declared in `model/device.py` with its names; here is what is
computed, and how values are written.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from gpudash.model import fields
from gpudash.model.device import Device, device_fields
from gpudash.model.errors import UsageError
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import unreadable_state
from gpudash.model.text import clean, did_you_mean
from gpudash.model.units import Unit

_MODIFIERS = ("noheader", "nounits")
_COMMA = r"\x2c"
"""Replaces a comma within a text, which would begin another cell."""
_DEAD = {
    "lost": "[GPU is lost]",
    "reset-required": "[GPU requires reset]",
    "failed": "[Unknown Error]",
    "not-answering": "[Timeout]",
}
_KNOWN_WITHOUT_THE_DRIVER = frozenset({"timestamp", "driver_version", "count", "index"})
_MIB = 1 << 20
_UNKNOWN_STATE = 32
_FLOAT = struct.Struct("f")
"""Single precision, in which nvidia-smi divides: of 20 values, one differs in its last digit."""
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
    """A field: the name in its heading, its text, unit, other names, and its text for None."""

    name: str
    text: Callable[[Snapshot, Row], str | None]
    unit: str = ""
    aliases: tuple[str, ...] = ()
    absent: str = "[N/A]"


class Csv(Struct, frozen=True, kw_only=True):
    """A query of GPUs or of compute processes, with the requested fields."""

    gpu_fields: tuple[Field[Device], ...] = ()
    app_fields: tuple[Field[Use], ...] = ()
    header: bool = True
    units: bool = True

    def heading(self) -> str:
        """Return the names in full, with the units of their columns."""
        pairs = [(each.name, each.unit) for each in self.gpu_fields]
        pairs += [(each.name, each.unit) for each in self.app_fields]
        return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in pairs)

    def rows(self, snapshot: Snapshot, chosen: Collection[str] | None = None) -> Iterator[str]:
        """Yield a row per GPU, or one per process and GPU; only of those with the `chosen` keys."""
        gpus = [
            device
            for device in snapshot.devices
            if not device.is_mig and (chosen is None or device.key in chosen)
        ]
        for device in gpus if self.gpu_fields else ():
            yield ", ".join(self._cell(each, snapshot, device) for each in self.gpu_fields)
        for use in _uses(gpus, snapshot.processes) if self.app_fields else ():
            yield ", ".join(self._text(each, each.text(snapshot, use)) for each in self.app_fields)

    def _cell(self, field: Field[Device], snapshot: Snapshot, device: Device) -> str:
        text = field.text(snapshot, device)
        if device.state != "ok" and field.name not in _KNOWN_WITHOUT_THE_DRIVER:
            return (
                self._text(field, text)
                if text is not None
                else _DEAD.get(device.state, field.absent)
            )
        return self._text(field, text)

    def _text(self, field: Field[Row], text: str | None) -> str:
        """Return a cell; a process named `x, 4242` cannot add one, as it can in nvidia-smi."""
        if text is None:
            return field.absent
        text = text.replace(",", _COMMA)
        return f"{text} {field.unit}" if field.unit and self.units else text


def parse_format(text: str) -> tuple[bool, bool]:
    """Return whether `csv[,noheader][,nounits]` wants a heading, and units; raises UsageError."""
    modifiers = text.split(",")
    unknown = [each for each in modifiers if each not in _MODIFIERS and each != "csv"]
    if "csv" not in modifiers or unknown:
        wrong = unknown[0] if unknown else text
        raise UsageError(f"--format {wrong!r} of a query: choose csv[,noheader][,nounits]")
    return "noheader" not in modifiers, "nounits" not in modifiers


def query(gpu: str | None, apps: str | None, format: str | None) -> Csv:
    """Return the query that the options ask for; raises UsageError that suggests names."""
    if gpu is not None and apps is not None:
        raise UsageError("choose one of --query-gpu and --query-compute-apps")
    if format is None:
        raise UsageError("a query needs --format=csv[,noheader][,nounits]")
    header, units = parse_format(format)
    if gpu is not None:
        return Csv(gpu_fields=_fields(gpu, GPU_FIELDS), header=header, units=units)
    return Csv(app_fields=_fields(apps or "", APP_FIELDS), header=header, units=units)


def _fields(names: str, known: Mapping[str, Field[Row]]) -> tuple[Field[Row], ...]:
    requested = [name.strip() for name in names.split(",") if name.strip()]
    if not requested:
        raise UsageError("a query needs names, as in --query-gpu=index,name,memory.used")
    return tuple(_find(name, known) for name in requested)


def _uses(gpus: Sequence[Device], processes: Sequence[Process]) -> Iterator[Use]:
    """Yield compute processes in the order of the GPUs, of each in the driver's."""
    for device in gpus:
        uses = [
            Use(process, share, device)
            for process in processes
            for share in process.devices
            if share.index == device.index and "C" in share.type
        ]
        yield from sorted(uses, key=lambda use: use.share.list_position or 0)


def _find(name: str, fields: Mapping[str, Field[Row]]) -> Field[Row]:
    """Return the field of a name or alias; raises UsageError that suggests the nearest."""
    found = fields.get(name)
    if found is not None:
        return found
    hint = did_you_mean(name, fields, count=3) or "gpudash help queries lists all"
    raise UsageError(f"unknown query field {clean(name, 80)!r}: {hint}")


def listing(snapshot: Snapshot) -> list[str]:
    """Return a line per GPU with its UUID, below it one per MIG instance."""
    return list(_lines(snapshot))


def _lines(snapshot: Snapshot) -> Iterator[str]:
    instance = 0
    for device in snapshot.devices:
        if device.is_mig:
            profile = (device.name or "").rpartition("MIG ")[2]
            uuid = clean(device.uuid or "")
            yield f"  MIG {clean(profile):<11} Device {instance:2}: (UUID: {uuid})"
            instance += 1
            continue
        instance = 0
        yield _gpu(device)


def _gpu(device: Device) -> str:
    unreadable = unreadable_state(device)
    if unreadable is not None and device.name is None:
        reason = unreadable.sentence if device.fault is None else device.fault.message
        return f"GPU {device.index}: ({reason})"
    return f"GPU {device.index}: {clean(device.name or '')} (UUID: {clean(device.uuid or '')})"


def _text(name: str) -> Callable[[Snapshot, Device], str | None]:
    """Return how a metric is written."""
    declared = device_fields()[name]
    write = _WRITTEN.get(name) or _BY_UNIT.get(declared.unit, _plain)

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        value = getattr(device, name)
        return None if value is None else write(value)

    return text


def _plain(value: bool | float | str) -> str:
    """Return `Enabled` or `Disabled`, text that cannot break its row, or a whole number."""
    if isinstance(value, bool):
        return "Enabled" if value else "Disabled"
    return clean(value) if isinstance(value, str) else f"{value:.0f}"


def _mebibytes(value: int) -> str:
    """Return bytes as MiB, rounded down."""
    return str(value // _MIB)


_UNITS = {Unit.BYTE: "MiB", Unit.MILLIWATT: "W", Unit.PERCENT: "%", Unit.MEGAHERTZ: "MHz"}
"""Units as nvidia-smi writes them; a temperature has none there."""
_BY_UNIT: Mapping[Unit, Callable[[Any], str]] = {
    Unit.BYTE: _mebibytes,
    Unit.MILLIWATT: lambda value: f"{_FLOAT.unpack(_FLOAT.pack(value / 1000))[0]:.2f}",
}
_WRITTEN: Mapping[str, Callable[[Any], str | None]] = {
    "performance_state": lambda value: None if value == _UNKNOWN_STATE else f"P{value}",
    "compute_mode": lambda value: "_".join(part.capitalize() for part in value.split("-")),
    "retired_pages_pending": lambda value: "Yes" if value else "No",
}
_ABSENT = {"memory_temperature_celsius": "N/A"}
"""Texts for None other than `[N/A]`."""


def _declared(metric: fields.Field) -> Field[Device]:
    """Return the field of a metric that has a name in nvidia-smi."""
    name, *aliases = metric.smi
    unit, absent = _UNITS.get(metric.unit, ""), _ABSENT.get(metric.name, "[N/A]")
    return Field(name, _text(metric.name), unit, tuple(aliases), absent)


def _moment(value: datetime) -> str:
    """Return local time: `2026/11/21 10:53:41.983`."""
    local = value.astimezone()
    return f"{local:%Y/%m/%d %H:%M:%S}.{local.microsecond // 1000:03}"


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
    """Return the bits of a reason without a name, such as `0x400`."""
    found = _UNNAMED_BITS.fullmatch(reason)
    return int(found[0], 16) if found else None


def _reason(name: str) -> Field[Device]:
    def text(_snapshot: Snapshot, device: Device) -> str | None:
        reasons = device.clocks_event_reasons
        return None if reasons is None else "Active" if name in reasons else "Not Active"

    suffix = name.replace("-", "_")
    return Field(
        f"clocks_event_reasons.{suffix}", text, aliases=(f"clocks_throttle_reasons.{suffix}",)
    )


def _cleaned(text: str | None) -> str | None:
    return None if text is None else clean(text)


def _share(share: ProcessDevice) -> str | None:
    size = share.used_gpu_memory_bytes
    return None if size is None else _mebibytes(size)


def _program(process: Process) -> str | None:
    """Return the program as it was started, else its name."""
    line = process.command_line
    return _cleaned(line[0] if line and line[0] else process.name)


_GPU: tuple[Field[Device], ...] = (
    Field("timestamp", lambda s, d: _moment(s.taken_at)),
    Field("driver_version", lambda s, d: _cleaned(s.host.driver_version)),
    Field("count", lambda s, d: str(sum(not each.is_mig for each in s.devices))),
    *(_declared(metric) for metric in device_fields().values() if metric.smi),
    Field("pci.domain", _pci(slice(0, 1))),
    Field("pci.bus", _pci(slice(1, 2))),
    Field("pci.device", _pci(slice(2, 3))),
    Field("clocks_event_reasons.active", _mask, aliases=("clocks_throttle_reasons.active",)),
    *(_reason(name) for name in list(_REASON_BITS)[:-1]),
)

_APPS: tuple[Field[Use], ...] = (
    Field("timestamp", lambda s, u: _moment(s.taken_at)),
    Field("gpu_name", lambda s, u: _cleaned(u.device.name)),
    Field("gpu_bus_id", lambda s, u: _cleaned(u.device.pci_bus_id)),
    Field("gpu_serial", lambda s, u: _cleaned(u.device.serial)),
    Field("gpu_uuid", lambda s, u: _cleaned(u.device.uuid)),
    Field("pid", lambda s, u: str(u.process.pid)),
    Field(
        "process_name", lambda s, u: _program(u.process), aliases=("name",), absent="[Not Found]"
    ),
    Field(
        "used_gpu_memory",
        lambda s, u: _share(u.share),
        "MiB",
        ("used_memory",),
    ),
)


GPU_FIELDS: Mapping[str, Field[Device]] = {
    name: field for field in _GPU for name in (field.name, *field.aliases)
}
"""The fields of --query-gpu by each of their names."""

APP_FIELDS: Mapping[str, Field[Use]] = {
    name: field for field in _APPS for name in (field.name, *field.aliases)
}
"""The fields of --query-compute-apps by each of their names."""
