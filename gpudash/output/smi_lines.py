"""The rows of nvidia-smi -q: a label for the text and an element for the XML, over one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpudash.model.details import detailed_fields
from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import Unit
from gpudash.output import smi_lists as lists
from gpudash.output.smi import GPU_FIELDS, moment, reason_text, unit_of, written
from gpudash.output.smi_layout import branch
from gpudash.output.smi_lists import Node
from gpudash.output.smi_table import why_absent

_MIB = 1 << 20
_LATEST = 1 << 16
SHORT = 530
"""Since this driver, power, clocks, errors and temperature margins have their present names."""

Text = Callable[[Snapshot, Device], "str | None"]


class Line(Struct, frozen=True):
    """A value or a heading; without a label only in XML, without an element only in text."""

    label: str = ""
    element: str = ""
    text: Text | None = None
    """None for a heading."""
    reads: tuple[str, ...] = ()
    """The fields of a device that the text needs."""
    lines: tuple[Line, ...] = ()
    each: Callable[[Snapshot, Device], Sequence[Node] | None] | None = None
    """Returns the lines below a heading if their number varies, None if unknown."""
    needs: str = ""
    """The field without which a heading is `N/A`, in one line."""
    since: int = 0
    until: int = _LATEST
    """The drivers whose nvidia-smi has it, by the first number of their release."""
    when: Callable[[Device], bool] | None = None
    """Whether a device has it."""


def fields_of(lines: Iterable[Line]) -> frozenset[str]:
    """Return the fields of devices, and `processes`, that lines need."""
    found = {field for line in lines for field in (*line.reads, line.needs, *fields_of(line.lines))}
    return frozenset(found - {""}) | {"failed_fields"}


def resolved(lines: Iterable[Line], snapshot: Snapshot, device: Device) -> Iterator[Node]:
    """Return the lines as nodes for a device."""
    release = branch(snapshot)
    for line in lines:
        if not line.since <= release < line.until or (line.when and not line.when(device)):
            continue
        absent = why_absent(device, *line.reads, line.needs) or lists.ABSENT
        value: str | None = None
        nodes: tuple[Node, ...] = ()
        if line.text is not None:
            value = line.text(snapshot, device)
            value = (absent if line.reads else lists.ABSENT) if value is None else value
        if line.needs and getattr(device, line.needs) is None:
            value = absent
        elif line.each is None:
            nodes = tuple(resolved(line.lines, snapshot, device))
        else:
            found = line.each(snapshot, device)
            value, nodes = (absent, ()) if found is None else (value, tuple(found))
        yield Node(line.label, line.element, value, nodes)


def metric(label: str, element: str, field: str, form: str = "{}", **conditions: Any) -> Line:
    """Return the line of a field of a device, with its unit."""
    unit = "C" if detailed_fields()[field].unit is Unit.CELSIUS else unit_of(field)
    form = f"{form} {unit}".rstrip()
    write = written(field)

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        value = getattr(device, field, None)
        shown = None if value is None else write(value)
        return None if shown is None else form.format(shown)

    return Line(label, element, text, (field,), **conditions)


def queried(label: str, element: str, name: str, **conditions: Any) -> Line:
    """Return the line of a field of --query-gpu."""
    field = GPU_FIELDS[name]
    return Line(label, element, field.text, field.reads, **conditions)


def unknown(label: str, element: str, **conditions: Any) -> Line:
    """Return a line that is `N/A` everywhere."""
    return Line(label, element, _unknown, **conditions)


def _unknown(_snapshot: Snapshot, _device: Device) -> None:
    """Return the text of a value that is not read."""


def heading(label: str, element: str, *lines: Line, **conditions: Any) -> Line:
    """Return a heading over lines."""
    return Line(label, element, lines=lines, **conditions)


def listed(
    label: str,
    element: str,
    each: Callable[[Snapshot, Device], Sequence[Node] | None],
    *reads: str,
    **conditions: Any,
) -> Line:
    """Return a heading over as many lines as there are."""
    return Line(label, element, reads=reads, each=each, **conditions)


def hexadecimal(line: Line) -> tuple[Line, Line]:
    """Return a line whose number has its prefix only in the text."""
    full = line.text or _unknown

    def bare(snapshot: Snapshot, device: Device) -> str | None:
        return (full(snapshot, device) or "").removeprefix("0x") or None

    return replace(line, element=""), replace(line, label="", text=bare)


def reasons(word: str, **conditions: Any) -> Line:
    """Return the limits of the clocks."""
    start = f"clocks_{word.lower()}_reason"

    def line(label: str, name: str, *below: Line) -> Line:
        known = queried(label, f"{start}_{name}", f"clocks_event_reasons.{name}")
        return replace(known, lines=below)

    return heading(
        f"Clocks {word} Reasons",
        f"{start}s",
        line("Idle", "gpu_idle"),
        line("Applications Clocks Setting", "applications_clocks_setting"),
        line("SW Power Cap", "sw_power_cap"),
        line(
            "HW Slowdown",
            "hw_slowdown",
            line("HW Thermal Slowdown", "hw_thermal_slowdown"),
            line("HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        ),
        line("Sync Boost", "sync_boost"),
        line("SW Thermal Slowdown", "sw_thermal_slowdown"),
        Line(
            "Display Clock Setting",
            f"{start}_display_clocks_setting",
            reason_text("display-clock-setting"),
            ("clocks_event_reasons",),
        ),
        needs="clocks_event_reasons",
        **conditions,
    )


def _is_old(device: Device) -> bool:
    """Whether it counts errors by kind of memory rather than of SRAM and DRAM."""
    return device.architecture in ("Kepler", "Maxwell", "Pascal", "Volta")


def is_new(device: Device) -> bool:
    """Whether it counts errors of SRAM and DRAM."""
    return not _is_old(device)


def _sram_correctable(span: str) -> Text:
    def text(_snapshot: Snapshot, device: Device) -> str | None:
        count = getattr(device.sram_errors, f"corrected_{span}_count", None)
        return None if count is None else str(count)

    return text


def ecc(span: str) -> Line:
    """Return the errors of SRAM and DRAM over a span: volatile or aggregate."""
    corrected, uncorrected = (f"ecc.errors.{kind}.{span}" for kind in ("corrected", "uncorrected"))
    exceeded = f"{uncorrected}.sram.thresholdExceeded"
    return heading(
        span.capitalize(),
        span,
        queried("SRAM Correctable", "sram_correctable", f"{corrected}.sram", until=SHORT),
        queried("SRAM Uncorrectable", "sram_uncorrectable", f"{uncorrected}.sram", until=SHORT),
        Line(
            "SRAM Correctable",
            "sram_correctable",
            _sram_correctable(span),
            ("sram_errors",),
            since=SHORT,
        ),
        queried(
            "SRAM Uncorrectable Parity",
            "sram_uncorrectable_parity",
            f"{uncorrected}.sram.parity",
            since=SHORT,
        ),
        queried(
            "SRAM Uncorrectable SEC-DED",
            "sram_uncorrectable_secded",
            f"{uncorrected}.sram.secded",
            since=SHORT,
        ),
        queried("DRAM Correctable", "dram_correctable", f"{corrected}.dram"),
        queried("DRAM Uncorrectable", "dram_uncorrectable", f"{uncorrected}.dram"),
        *(
            [queried("SRAM Threshold Exceeded", "sram_threshold_exceeded", exceeded, since=SHORT)]
            if span == "aggregate"
            else []
        ),
        reads=("architecture",),
        when=is_new,
    )


_OLD_LOCATIONS = {
    "device-memory": ("Device Memory", "device_memory"),
    "register-file": ("Register File", "register_file"),
    "l1-cache": ("L1 Cache", "l1_cache"),
    "l2-cache": ("L2 Cache", "l2_cache"),
    "texture-memory": ("Texture Memory", "texture_memory"),
    "texture-shared": ("Texture Shared", "texture_shm"),
    "cbu": ("CBU", "cbu"),
}


def old_ecc(span: str) -> Line:
    """Return the errors by kind of memory over a span: volatile or aggregate."""

    def line(label: str, element: str, kind: str, *locations: str) -> Line:
        def text(_snapshot: Snapshot, device: Device) -> str | None:
            counts = [
                count
                for each in device.ecc_locations or ()
                if each.name in locations
                and (count := getattr(each, f"{kind}_{span}_count")) is not None
            ]
            return str(sum(counts)) if counts else None

        return Line(label, element, text, ("ecc_locations",))

    def of(label: str, element: str, kind: str) -> Line:
        return heading(
            # Padded, as in nvidia-smi.
            f"{label:<22}",
            element,
            *(line(*names, kind, each) for each, names in _OLD_LOCATIONS.items()),
            line("Total", "total", kind, *_OLD_LOCATIONS),
        )

    single = of("Single Bit", "single_bit", "corrected")
    double = of("Double Bit", "double_bit", "uncorrected")
    return heading(span.capitalize(), span, single, double, reads=("architecture",), when=_is_old)


def sram(label: str, element: str, name: str) -> Line:
    """Return a part of the errors of the SRAM."""
    return queried(label, element, f"ecc.errors.uncorrected.aggregate.sram.{name}")


def _has_margins(device: Device) -> bool:
    """Whether its thresholds are margins below the slowdown temperature."""
    known = (
        device.shutdown_tlimit_celsius,
        device.slowdown_tlimit_celsius,
        device.max_operating_tlimit_celsius,
        device.max_memory_tlimit_celsius,
    )
    return any(each is not None for each in known)


def threshold(label: str, element: str, field: str, margin: str) -> tuple[Line, ...]:
    """Return a temperature, or the margin that newer GPUs report instead."""
    plain = metric(f"{label} Temp", f"gpu_temp_{element}_threshold", field)
    return (
        replace(plain, until=SHORT),
        replace(plain, since=SHORT, when=lambda device: not _has_margins(device)),
        metric(
            f"{label} T.Limit Temp",
            f"gpu_temp_{element}_tlimit_threshold",
            margin,
            since=SHORT,
            when=_has_margins,
        ),
    )


def draw(usage: str, average: str, instant: str) -> tuple[Line, ...]:
    """Return the power draw: in one line, and since 570 in two."""
    return (
        metric("Power Draw", "power_draw", usage, until=570),
        metric("Average Power Draw", "average_power_draw", average, since=570),
        metric("Instantaneous Power Draw", "instant_power_draw", instant, since=570),
    )


def limits(scope: str) -> tuple[Line, ...]:
    """Return the power limits of the GPU, or of a part with this prefix."""
    return (
        metric("Current Power Limit", "current_power_limit", f"{scope}enforced_power_limit_mw"),
        metric("Requested Power Limit", "requested_power_limit", f"{scope}power_limit_mw"),
        metric("Default Power Limit", "default_power_limit", f"{scope}default_power_limit_mw"),
        metric("Min Power Limit", "min_power_limit", f"{scope}min_power_limit_mw"),
        metric("Max Power Limit", "max_power_limit", f"{scope}max_power_limit_mw"),
    )


def power_management(_snapshot: Snapshot, device: Device) -> str | None:
    """Return whether the driver manages power, in nvidia-smi's words."""
    return "Supported" if device.power_management_mode else None


def samples(label: str, name: str, form: str, **conditions: Any) -> Line:
    """Return a summary of the driver's samples of a measure."""

    def each(_snapshot: Snapshot, device: Device) -> Sequence[Node]:
        return lists.samples(device, name, form)

    return Line(f"{label} Samples", reads=("sample_buffers",), each=each, **conditions)


def product_architecture(_snapshot: Snapshot, device: Device) -> str | None:
    """Return the full name of the architecture."""
    return "Ada Lovelace" if device.architecture == "Ada" else device.architecture


def _bar1_free(_snapshot: Snapshot, device: Device) -> str | None:
    total, used = device.bar1_total_bytes, device.bar1_used_bytes
    if total is None or used is None:
        return None
    # nvidia-smi subtracts the rounded values.
    return f"{total // _MIB - used // _MIB} MiB"


def flushed_at(_snapshot: Snapshot, device: Device) -> str | None:
    """Return when the InfoROM's record of errors was last written."""
    when = getattr(device, "inforom_flushed_at", None)
    return None if when is None else moment(datetime.fromtimestamp(when, timezone.utc))


def deprecated(_snapshot: Snapshot, _device: Device) -> str:
    """Return nvidia-smi's text for values that the driver refuses to report."""
    return "Requested functionality has been deprecated"


def banks(name: str) -> Line:
    """Return how many memory banks have this level of spare rows left."""
    count = GPU_FIELDS[f"remapped_rows.histogram.{name.lower()}"]

    def text(snapshot: Snapshot, device: Device) -> str:
        return f"{count.text(snapshot, device)} bank(s)"

    return Line(name, f"row_remapper_histogram_{name.lower()}", text, count.reads)


FRAME_BUFFER = heading(
    "FB Memory Usage",
    "fb_memory_usage",
    metric("Total", "total", "memory_total_bytes"),
    metric("Reserved", "reserved", "memory_reserved_bytes"),
    metric("Used", "used", "memory_used_bytes"),
    metric("Free", "free", "memory_free_bytes"),
)
BAR1 = heading(
    "BAR1 Memory Usage",
    "bar1_memory_usage",
    metric("Total", "total", "bar1_total_bytes"),
    metric("Used", "used", "bar1_used_bytes"),
    Line("Free", "free", _bar1_free, ("bar1_total_bytes", "bar1_used_bytes")),
)
_MIG_DEVICE = (
    metric("Index", "index", "index"),
    metric("GPU Instance ID", "gpu_instance_id", "gpu_instance_id"),
    metric("Compute Instance ID", "compute_instance_id", "compute_instance_id"),
    heading(
        "Device Attributes",
        "device_attributes",
        heading(
            "Shared",
            "shared",
            metric("Multiprocessor count", "multiprocessor_count", "multiprocessor_count"),
            metric("Copy Engine count", "copy_engine_count", "copy_engine_count"),
            metric("Encoder count", "encoder_count", "encoder_count"),
            metric("Decoder count", "decoder_count", "decoder_count"),
            metric("OFA count", "ofa_count", "ofa_count"),
            metric("JPG count", "jpg_count", "jpeg_count"),
        ),
    ),
    heading(
        "ECC Errors",
        "ecc_error_count",
        heading(
            "Volatile",
            "volatile_count",
            metric("SRAM Uncorrectable", "sram_uncorrectable", "sram_uncorrected_volatile_count"),
        ),
    ),
    FRAME_BUFFER,
    replace(BAR1, label="BAR1 Memory"),
)


def mig_devices(snapshot: Snapshot, device: Device) -> Sequence[Node]:
    """Return the MIG instances of a GPU."""
    return [
        Node("MIG Device", "mig_device", None, tuple(resolved(_MIG_DEVICE, snapshot, each)))
        for each in snapshot.devices
        if each.is_mig and each.parent_uuid == device.uuid
    ] or [Node("", "", "None")]


MIG_FIELDS = frozenset({"mig_mode"}) | fields_of(_MIG_DEVICE)
"""The fields shown of MIG instances."""
