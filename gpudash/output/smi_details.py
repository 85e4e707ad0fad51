"""nvidia-smi -q: what is known of a GPU, under its sections, labels and indentation.

A line of which NVML tells nothing is `N/A`, as there. What nvidia-smi reads beyond NVML, and what
few look at, is left out: bridge chips, InfoROM flushes, sampling statistics, frame buffer capture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import Device, device_fields
from gpudash.model.errors import UsageError
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.model.state import unreadable_state
from gpudash.model.text import clean, did_you_mean
from gpudash.model.units import Unit
from gpudash.output.smi import GPU_FIELDS, mebibytes, program, reason_text, unit_of, written

_WIDTH = 42
_ABSENT = "N/A"
_MIB = 1 << 20

Text = Callable[[Snapshot, Device], "str | None"]


class Line(NamedTuple):
    """A label and its value, or a heading."""

    depth: int
    label: str
    text: Text | None = None
    reads: tuple[str, ...] = ()
    """The fields of a device that the text is made of."""


class Part(NamedTuple):
    """Lines that belong to a section; without -d all are printed, in this order."""

    section: str
    """Its name for -d; empty for what only stands in the whole."""
    lines: tuple[Line, ...] = ()
    listed: Callable[[Snapshot, Device], Iterable[Line]] | None = None
    """Returns lines of which the number is not fixed."""
    reads: tuple[str, ...] = ()
    """What these are made of."""


def _metric(depth: int, label: str, field: str, form: str = "{}") -> Line:
    unit = "C" if device_fields()[field].unit is Unit.CELSIUS else unit_of(field)
    form = f"{form} {unit}".rstrip()
    write = written(field)

    def text(_snapshot: Snapshot, device: Device) -> str | None:
        value = getattr(device, field)
        shown = None if value is None else write(value)
        return None if shown is None else form.format(shown)

    return Line(depth, label, text, (field,))


def _queried(depth: int, label: str, name: str) -> Line:
    """Return the line of a field of --query-gpu."""
    field = GPU_FIELDS[name]
    return Line(depth, label, field.text, field.reads)


def _reason(depth: int, label: str, name: str) -> Line:
    return _queried(depth, label, f"clocks_event_reasons.{name}")


def _ecc(span: str) -> tuple[Line, ...]:
    return (
        _queried(3, "SRAM Correctable", f"ecc.errors.corrected.{span}.sram"),
        _queried(3, "SRAM Uncorrectable", f"ecc.errors.uncorrected.{span}.sram"),
        _queried(3, "SRAM Uncorrectable Parity", f"ecc.errors.uncorrected.{span}.sram.parity"),
        _queried(3, "SRAM Uncorrectable SEC-DED", f"ecc.errors.uncorrected.{span}.sram.secded"),
        _queried(3, "DRAM Correctable", f"ecc.errors.corrected.{span}.dram"),
        _queried(3, "DRAM Uncorrectable", f"ecc.errors.uncorrected.{span}.dram"),
    )


def _sram(label: str, name: str) -> Line:
    return _queried(3, label, f"ecc.errors.uncorrected.aggregate.sram.{name}")


def _supported_clocks(_snapshot: Snapshot, device: Device) -> Iterator[Line]:
    if not device.supported_clocks:
        yield _fixed(1, "Supported Clocks", None)
        return
    yield Line(1, "Supported Clocks")
    for clocks in device.supported_clocks:
        yield _fixed(2, "Memory", f"{clocks.memory_clock_mhz} MHz")
        for graphics in clocks.graphics_clocks_mhz:
            yield _fixed(3, "Graphics", f"{graphics} MHz")


def _processes(snapshot: Snapshot, device: Device) -> Iterator[Line]:
    uses = snapshot.uses_of(device)
    if not uses:
        yield _fixed(1, "Processes", None if is_unlisted(device, snapshot) else "None")
        return
    yield Line(1, "Processes")
    for process, share in uses:
        instances = share.gpu_instance_id, share.compute_instance_id
        gpu, compute = (None if each is None else str(each) for each in instances)
        size = mebibytes(share.used_gpu_memory_bytes)
        yield _fixed(2, "GPU instance ID", gpu)
        yield _fixed(2, "Compute instance ID", compute)
        yield _fixed(2, "Process ID", str(process.pid))
        yield _fixed(3, "Type", share.type)
        yield _fixed(3, "Name", program(process))
        yield _fixed(3, "Used GPU Memory", None if size is None else f"{size} MiB")


def _accounted(_snapshot: Snapshot, device: Device) -> Iterator[Line]:
    if not device.accounted_processes:
        yield _fixed(1, "Accounted Processes", None if device.accounting_mode is None else "None")
        return
    yield Line(1, "Accounted Processes")
    for process in device.accounted_processes:
        gpu, memory = process.gpu_utilization_percent, process.memory_utilization_percent
        size = mebibytes(process.max_gpu_memory_bytes)
        yield _fixed(2, "Process ID", str(process.pid))
        yield _fixed(3, "GPU Utilization", None if gpu is None else f"{gpu} %")
        yield _fixed(3, "Memory Utilization", None if memory is None else f"{memory} %")
        yield _fixed(3, "Max memory usage", None if size is None else f"{size} MiB")
        yield _fixed(3, "Time", f"{(process.active_seconds or 0) * 1000:.0f} ms")
        yield _fixed(3, "Is Running", str(int(process.is_running)))


def _remapped_rows(snapshot: Snapshot, device: Device) -> Iterator[Line]:
    if device.remapped_rows_corrected_count is None:
        yield _fixed(1, "Remapped Rows", None)
        return
    yield Line(1, "Remapped Rows")
    yield from _REMAPPED
    banks = device.remapped_rows_banks
    yield Line(2, "Bank Remap Availability Histogram")
    for number, name in enumerate(("Max", "High", "Partial", "Low", "None")):
        yield _fixed(3, name, None if banks is None else f"{banks[number]} bank(s)")


def _architecture(_snapshot: Snapshot, device: Device) -> str | None:
    return "Ada Lovelace" if device.architecture == "Ada" else device.architecture


def _bar1_free(_snapshot: Snapshot, device: Device) -> str | None:
    total, used = device.bar1_total_bytes, device.bar1_used_bytes
    if total is None or used is None:
        return None
    # nvidia-smi shows the difference of what it shows.
    return f"{total // _MIB - used // _MIB} MiB"


def _fixed(depth: int, label: str, text: str | None) -> Line:
    return Line(depth, label, lambda _snapshot, _device: text)


_REMAPPED = (
    _metric(2, "Correctable Error", "remapped_rows_corrected_count"),
    _metric(2, "Uncorrectable Error", "remapped_rows_uncorrected_count"),
    _metric(2, "Pending", "remapped_rows_pending"),
    _metric(2, "Remapping Failure Occurred", "remapped_rows_failed"),
)

# fmt: off
_PARTS = (
    Part("", (
        _metric(1, "Product Name", "name"),
        Line(1, "Product Architecture", _architecture, ("architecture",)),
        _metric(1, "Display Mode", "display_attached"),
        _metric(1, "Display Active", "display_active"),
        _metric(1, "Persistence Mode", "persistence_mode"),
        _metric(1, "Addressing Mode", "addressing_mode"),
        Line(1, "MIG Mode"),
        _metric(2, "Current", "mig_mode"),
        _metric(2, "Pending", "pending_mig_mode"),
    )),
    Part("ACCOUNTING", (
        _metric(1, "Accounting Mode", "accounting_mode"),
        _metric(1, "Accounting Mode Buffer Size", "accounting_buffer_size"),
    )),
    Part("", (
        Line(1, "Driver Model"),
        _metric(2, "Current", "driver_model"),
        _metric(2, "Pending", "pending_driver_model"),
        _metric(1, "Serial Number", "serial"),
        _metric(1, "GPU UUID", "uuid"),
        _metric(1, "Minor Number", "minor_number"),
        _metric(1, "VBIOS Version", "vbios_version"),
        _metric(1, "Board Part Number", "board_part_number"),
        Line(1, "Inforom Version"),
        _metric(2, "Image Version", "inforom_image_version"),
        _metric(2, "OEM Object", "inforom_oem_version"),
        _metric(2, "ECC Object", "inforom_ecc_version"),
        _metric(2, "Power Management Object", "inforom_power_version"),
        Line(1, "GPU Operation Mode"),
        _metric(2, "Current", "gpu_operation_mode"),
        _metric(2, "Pending", "pending_gpu_operation_mode"),
        _metric(1, "GSP Firmware Version", "gsp_firmware_version"),
    )),
    Part("RESET_STATUS", (
        Line(1, "GPU Reset Status"),
        _metric(2, "Reset Required", "reset_required"),
        _metric(2, "Drain and Reset Recommended", "drain_and_reset_recommended"),
    )),
    Part("", (
        Line(1, "PCI"),
        _queried(2, "Bus", "pci.bus"),
        _queried(2, "Device", "pci.device"),
        _queried(2, "Domain", "pci.domain"),
        _metric(2, "Device Id", "pci_device_id"),
        _metric(2, "Bus Id", "pci_bus_id"),
        _metric(2, "Sub System Id", "pci_subsystem_id"),
        Line(2, "GPU Link Info"),
        Line(3, "PCIe Generation"),
        _metric(4, "Max", "max_pcie_link_generation"),
        _metric(4, "Current", "pcie_link_generation"),
        _metric(4, "Device Current", "pcie_link_generation"),
        _metric(4, "Device Max", "max_gpu_pcie_link_generation"),
        _queried(4, "Host Max", "pcie.link.gen.hostmax"),
        Line(3, "Link Width"),
        _metric(4, "Max", "max_pcie_link_width", "{}x"),
        _metric(4, "Current", "pcie_link_width", "{}x"),
        _metric(2, "Replays Since Reset", "pcie_replay_count"),
        _metric(1, "Fan Speed", "fan_speed_percent"),
    )),
    Part("PERFORMANCE", (
        _metric(1, "Performance State", "performance_state"),
        Line(1, "Clocks Event Reasons"),
        _reason(2, "Idle", "gpu_idle"),
        _reason(2, "Applications Clocks Setting", "applications_clocks_setting"),
        _reason(2, "SW Power Cap", "sw_power_cap"),
        _reason(2, "HW Slowdown", "hw_slowdown"),
        _reason(3, "HW Thermal Slowdown", "hw_thermal_slowdown"),
        _reason(3, "HW Power Brake Slowdown", "hw_power_brake_slowdown"),
        _reason(2, "Sync Boost", "sync_boost"),
        _reason(2, "SW Thermal Slowdown", "sw_thermal_slowdown"),
        Line(2, "Display Clock Setting", reason_text("display-clock-setting"),
             ("clocks_event_reasons",)),
    )),
    Part("MEMORY", (
        Line(1, "FB Memory Usage"),
        _metric(2, "Total", "memory_total_bytes"),
        _metric(2, "Reserved", "memory_reserved_bytes"),
        _metric(2, "Used", "memory_used_bytes"),
        _metric(2, "Free", "memory_free_bytes"),
        Line(1, "BAR1 Memory Usage"),
        _metric(2, "Total", "bar1_total_bytes"),
        _metric(2, "Used", "bar1_used_bytes"),
        Line(2, "Free", _bar1_free),
        Line(1, "Conf Compute Protected Memory Usage"),
        _metric(2, "Total", "protected_memory_total_bytes"),
        _metric(2, "Used", "protected_memory_used_bytes"),
        _metric(2, "Free", "protected_memory_free_bytes"),
    )),
    Part("COMPUTE", (_metric(1, "Compute Mode", "compute_mode"),)),
    Part("UTILIZATION", (
        Line(1, "Utilization"),
        _metric(2, "Gpu", "gpu_utilization_percent"),
        _metric(2, "Memory", "memory_utilization_percent"),
        _metric(2, "Encoder", "encoder_utilization_percent"),
        _metric(2, "Decoder", "decoder_utilization_percent"),
        _metric(2, "JPEG", "jpeg_utilization_percent"),
        _metric(2, "OFA", "ofa_utilization_percent"),
    )),
    Part("ENCODER_STATS", (
        Line(1, "Encoder Stats"),
        _metric(2, "Active Sessions", "encoder_session_count"),
        _metric(2, "Average FPS", "encoder_frame_rate"),
        _metric(2, "Average Latency", "encoder_latency_microseconds"),
    )),
    Part("ECC", (
        Line(1, "ECC Mode"),
        _metric(2, "Current", "ecc_mode"),
        _metric(2, "Pending", "pending_ecc_mode"),
        Line(1, "ECC Errors"),
        Line(2, "Volatile"),
        *_ecc("volatile"),
        Line(2, "Aggregate"),
        *_ecc("aggregate"),
        _sram("SRAM Threshold Exceeded", "thresholdExceeded"),
        Line(2, "Aggregate Uncorrectable SRAM Sources"),
        _sram("SRAM L2", "l2"),
        _sram("SRAM SM", "sm"),
        _sram("SRAM Microcontroller", "mcu"),
        _sram("SRAM PCIE", "pcie"),
        _sram("SRAM Other", "other"),
    )),
    Part("PAGE_RETIREMENT", (
        Line(1, "Retired Pages"),
        _metric(2, "Single Bit ECC", "retired_pages_single_bit_count"),
        _metric(2, "Double Bit ECC", "retired_pages_double_bit_count"),
        _metric(2, "Pending Page Blacklist", "retired_pages_pending"),
    )),
    Part("ROW_REMAPPER", listed=_remapped_rows,
         reads=(*(name for line in _REMAPPED for name in line.reads), "remapped_rows_banks")),
    Part("TEMPERATURE", (
        Line(1, "Temperature"),
        _metric(2, "GPU Current Temp", "temperature_celsius"),
        _metric(2, "GPU T.Limit Temp", "temperature_margin_celsius"),
        _metric(2, "GPU Shutdown T.Limit Temp", "shutdown_tlimit_celsius"),
        _metric(2, "GPU Slowdown T.Limit Temp", "slowdown_tlimit_celsius"),
        _metric(2, "GPU Max Operating T.Limit Temp", "max_operating_tlimit_celsius"),
        _metric(2, "GPU Shutdown Temp", "shutdown_temperature_celsius"),
        _metric(2, "GPU Slowdown Temp", "slowdown_temperature_celsius"),
        _metric(2, "GPU Max Operating Temp", "max_operating_temperature_celsius"),
        _metric(2, "Memory Current Temp", "memory_temperature_celsius"),
        _metric(2, "Memory Max Operating T.Limit Temp", "max_memory_tlimit_celsius"),
    )),
    Part("POWER", (
        Line(1, "GPU Power Readings"),
        _metric(2, "Power Draw", "power_usage_mw"),
        _metric(2, "Current Power Limit", "enforced_power_limit_mw"),
        _metric(2, "Requested Power Limit", "power_limit_mw"),
        _metric(2, "Default Power Limit", "default_power_limit_mw"),
        _metric(2, "Min Power Limit", "min_power_limit_mw"),
        _metric(2, "Max Power Limit", "max_power_limit_mw"),
    )),
    Part("CLOCK", (
        Line(1, "Clocks"),
        _metric(2, "Graphics", "graphics_clock_mhz"),
        _metric(2, "SM", "sm_clock_mhz"),
        _metric(2, "Memory", "memory_clock_mhz"),
        _metric(2, "Video", "video_clock_mhz"),
        Line(1, "Applications Clocks"),
        _metric(2, "Graphics", "applications_graphics_clock_mhz"),
        _metric(2, "Memory", "applications_memory_clock_mhz"),
        Line(1, "Default Applications Clocks"),
        _metric(2, "Graphics", "default_applications_graphics_clock_mhz"),
        _metric(2, "Memory", "default_applications_memory_clock_mhz"),
        Line(1, "Max Clocks"),
        _metric(2, "Graphics", "max_graphics_clock_mhz"),
        _metric(2, "SM", "max_sm_clock_mhz"),
        _metric(2, "Memory", "max_memory_clock_mhz"),
        _metric(2, "Video", "max_video_clock_mhz"),
    )),
    Part("SUPPORTED_CLOCKS", listed=_supported_clocks, reads=("supported_clocks",)),
    Part("", (
        Line(1, "Fabric"),
        _queried(2, "State", "fabric.state"),
        _queried(2, "Status", "fabric.status"),
    )),
    Part("PIDS", listed=_processes, reads=("processes", "mig_mode")),
    Part("ACCOUNTING", listed=_accounted, reads=("accounted_processes", "accounting_mode")),
)
# fmt: on

SECTIONS = tuple(dict.fromkeys(part.section for part in _PARTS if part.section))
"""What -d takes."""
_ON_REQUEST = frozenset({"SUPPORTED_CLOCKS", "ACCOUNTING"})
"""Lists that the whole would be too long with; of ACCOUNTING its processes."""


def sections(text: str | None) -> tuple[str, ...]:
    """Return the sections that -d names, none for all; raises UsageError."""
    names = [name.strip().upper() for name in text.split(",")] if text is not None else []
    for name in names:
        if name not in SECTIONS:
            hint = did_you_mean(name, SECTIONS) or f"choose from {', '.join(SECTIONS)}"
            raise UsageError(f"-d {clean(name, 40)!r}: {hint}")
    return tuple(names)


def reads(names: Collection[str]) -> frozenset[str]:
    """Return the fields of devices, and `processes`, that these sections are made of."""
    parts = _parts(names)
    return frozenset(
        name
        for part in parts
        for source in (part.reads, *(line.reads for line in part.lines))
        for name in source
    )


def details(snapshot: Snapshot, chosen: Collection[str], names: Collection[str]) -> Sequence[str]:
    """Return the lines of these sections, of the GPUs with the `chosen` keys."""
    gpus = whole_gpus(snapshot)
    host = snapshot.host
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _line("Timestamp", f"{snapshot.taken_at.astimezone():%a %b %e %H:%M:%S %Y}"),
        _line("Driver Version", host.driver_version),
        _line("CUDA Version", host.cuda_driver_version),
        "",
        _line("Attached GPUs", str(len(gpus))),
    ]
    for device in gpus:
        if device.key in chosen:
            lines += _gpu(snapshot, device, names)
    return lines


def _gpu(snapshot: Snapshot, device: Device, names: Collection[str]) -> Iterator[str]:
    yield f"GPU {device.pci_bus_id or device.index}"
    state = unreadable_state(device)
    if state is not None:
        reason = state.sentence if device.fault is None else device.fault.message
        yield _line("    State", reason)
    for part in _parts(names):
        for line in (*part.lines, *(part.listed(snapshot, device) if part.listed else ())):
            start = f"{'    ' * line.depth}{line.label}"
            yield start if line.text is None else _line(start, line.text(snapshot, device))
    yield ""


def _parts(names: Collection[str]) -> list[Part]:
    if names:
        return [part for part in _PARTS if part.section in names]
    return [part for part in _PARTS if part.listed is None or part.section not in _ON_REQUEST]


def _line(label: str, text: str | None) -> str:
    return f"{label:<{_WIDTH}}: {_ABSENT if text is None else text}"
