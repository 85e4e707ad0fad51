"""nvidia-smi's table without options, as of the host's driver, and its list of GPUs.

Separate from the fields of queries, whose import takes as long as a sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gpudash.model.device import Device
from gpudash.model.process import Process
from gpudash.model.snapshot import ProcessUse, Snapshot, whole_gpus
from gpudash.model.state import unreadable_state
from gpudash.output.smi_layout import SmiLayout, layout_of

_MIB = 1 << 20

READS = frozenset(
    {
        "persistence_mode",
        "display_active",
        "ecc_mode",
        "pending_ecc_mode",
        "ecc_uncorrected_volatile_count",
        "fan_speed_percent",
        "temperature_celsius",
        "performance_state",
        "power_usage_mw",
        "enforced_power_limit_mw",
        "memory_total_bytes",
        "memory_used_bytes",
        "gpu_utilization_percent",
        "compute_mode",
        "mig_mode",
        "pending_mig_mode",
        "sram_uncorrected_volatile_count",
        "processes",
        "failed_fields",
    }
)
"""The fields of devices, and `processes`, that it needs."""

_COMPUTE_MODES = {
    "default": "Default",
    "exclusive-thread": "E. Thread",
    "prohibited": "Prohibited",
    "exclusive-process": "E. Process",
}
_OF_INSTANCE = (
    "sram_uncorrected_volatile_count",
    "copy_engine_count",
    "encoder_count",
    "decoder_count",
    "ofa_count",
    "jpeg_count",
)
_ERRORS = {
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "N/A",
    4: "Insufficient Permissions",
    5: "Already Initialized",
    6: "Not Found",
    7: "Insufficient Size",
    8: "Insufficient External Power",
    9: "Driver Not Loaded",
    10: "Timeout",
    11: "Interrupt Request Issue",
    12: "NVML Shared Library Not Found",
    13: "Function Not Found",
    14: "Corrupted infoROM",
    15: "GPU is lost",
    16: "GPU requires reset",
    17: "GPU access blocked by the operating system",
    18: "Driver/library version mismatch",
    19: "In use by another client",
    20: "Insufficient Memory",
    21: "No data",
    22: "vGPU ECC not supported",
    23: "Insufficient Resources",
    24: "Invalid Frequency",
    25: "Argument version mismatch",
    26: "Requested functionality has been deprecated",
}
"""nvidia-smi's words for NVML's errors other than an unknown one."""
_STATES = {"lost": 15, "reset-required": 16, "failed": 999, "not-answering": 10}
"""NVML's error for every value of a GPU in one of these states."""
_NO_PERMISSION, _NOT_FOUND, _NOT_READY = 4, (6, 21), 27
"""NVML's error for a value that does not exist, or not yet: not an error of the GPU."""


def failure(device: Device, *fields: str) -> int | None:
    """Return NVML's number for why one of these fields could not be read; None if none failed."""
    failed: Mapping[str, int] = getattr(device, "failed_fields", None) or {}
    codes = [_STATES.get(device.state), *map(failed.get, fields)]
    return next((code for code in codes if code not in (None, 0, _NOT_READY)), None)


def why_absent(device: Device, *fields: str) -> str | None:
    """Return the same in words; None if a device does not support the absent value."""
    code = failure(device, *fields)
    return None if code is None else error_text(code)


def error_text(code: int) -> str:
    """Return nvidia-smi's words for an NVML error."""
    return _ERRORS.get(code, "Unknown Error")


def listing(snapshot: Snapshot) -> list[str]:
    """Return a line per GPU with its UUID, below it one per MIG instance."""
    return list(_listed(snapshot))


def _listed(snapshot: Snapshot) -> Iterator[str]:
    instance = 0
    for device in snapshot.devices:
        if device.is_mig:
            profile = (device.name or "").rpartition("MIG ")[2]
            yield f"  MIG {profile:<11} Device {instance:2}: (UUID: {device.uuid or ''})"
            instance += 1
            continue
        instance = 0
        yield _line(device)


def _line(device: Device) -> str:
    unreadable = unreadable_state(device)
    if unreadable is not None and device.name is None:
        reason = unreadable.sentence if device.fault is None else device.fault.message
        return f"GPU {device.index}: ({reason})"
    return f"GPU {device.index}: {device.name or ''} (UUID: {device.uuid or ''})"


def table(snapshot: Snapshot) -> Iterator[str]:
    """Yield the lines of the table."""
    gpus, layout = whole_gpus(snapshot), layout_of(snapshot)
    driver = fit(snapshot.host.driver_version or "N/A", 10)
    cuda = fit(snapshot.host.cuda_driver_version or "N/A", 8)
    yield f"{time.ctime(snapshot.taken_at.timestamp())}       "
    yield from layout.gpu_headings(driver, cuda)
    for gpu in gpus:
        yield from _gpu(gpu, layout)
    if any(gpu.mig_mode for gpu in gpus):
        yield from _instances(snapshot, gpus, layout)
    yield layout.gap
    yield from layout.process_headings()
    uses = [
        (gpu, use) for gpu in gpus for use in sorted(snapshot.uses_of(gpu), key=by_instance_and_pid)
    ]
    yield from (_process(gpu, use, layout) for gpu, use in uses)
    if not uses:
        yield f"|  {_no_processes(snapshot):<{layout.width - 2}}|"
    yield layout.rule


def _gpu(gpu: Device, layout: SmiLayout) -> Iterator[str]:
    """Yield the lines of a GPU; unreadable values are `ERR!`."""

    def cell(field: str, write: Callable[[Any], str], width: int = 4) -> str:
        value = getattr(gpu, field)
        text = _absent(gpu, field) if value is None else write(value)
        return f"{text:<{width}}"

    def power(field: str, minimum: int, absent: str) -> str:
        cells = layout.power_cells
        text = cell(field, lambda milliwatts: _watts(milliwatts, minimum, cells))
        return f"{text:{absent}{cells}}"

    name = fit(cell("name", str).strip(), 27)
    persistence = cell("persistence_mode", lambda is_on: " On " if is_on else " Off")
    # Unlike others, it is aligned left.
    persistence = persistence.replace(" N/A", "N/A ")
    bus = f"{'':{layout.gain}}{cell('pci_bus_id', str).strip():<16}"
    display = cell("display_active", lambda is_on: "  On" if is_on else " Off")
    errors = (_errors(gpu) or _absent(gpu, "ecc_mode", "ecc_uncorrected_volatile_count")).strip()
    yield f"|{gpu.index:>4}  {name}   {persistence} | {bus}{display} | {errors:>20} |"
    fan = cell("fan_speed_percent", "{:>3}%".format, 5)
    celsius = cell("temperature_celsius", "{:>3}C".format, 5)
    state = cell("performance_state", lambda number: f"{f'P{number}':>5}", 5)
    usage = power("power_usage_mw", 1, layout.absent_usage)
    limit = power("enforced_power_limit_mw", 0, "<")
    memory = _memory(gpu, layout, layout.memory_cells, layout.size_cells)
    used = cell("gpu_utilization_percent", "{:>3}%".format, 6)
    mode = cell("compute_mode", lambda mode: _COMPUTE_MODES.get(mode, "N/A")).strip()
    yield f"|{fan} {celsius}{state}{f'{usage} / {limit}':>24} | {memory} |    {used} {mode:>10} |"
    later = gpu.mig_mode if gpu.pending_mig_mode is None else gpu.pending_mig_mode
    word = cell("mig_mode", lambda _: "Enabled" if later else "Disabled").strip()
    mig = _pending(word, gpu.mig_mode, later)
    yield f"|{'':41}| {'':{layout.memory_cells}} |{mig:>21} |"
    yield layout.below_gpu


def _errors(gpu: Device) -> str | None:
    """Return the uncorrected errors since the driver was loaded, or why they are not counted."""
    count = gpu.ecc_uncorrected_volatile_count
    if gpu.mig_mode:
        return "On"
    if gpu.ecc_mode is None or (gpu.ecc_mode and count is None):
        return None
    text = str(count) if gpu.ecc_mode else "Off"
    return _pending(text, gpu.ecc_mode, gpu.pending_ecc_mode)


def _pending(text: str, now: bool | None, later: bool | None) -> str:
    """Return the text of a mode, with `*` if the next reset changes it."""
    return f"{text}*" if None not in (now, later) and now != later else text


def has_no_known_state(gpu: Device) -> bool:
    """Whether NVML reported an unknown P-state, which nvidia-smi calls an error."""
    failed: Mapping[str, int] = getattr(gpu, "failed_fields", None) or {}
    return failed.get("performance_state") == 0


def _absent(gpu: Device, *fields: str) -> str:
    if "performance_state" in fields and has_no_known_state(gpu):
        return "ERR!"
    return " N/A" if failure(gpu, *fields) in (None, *_NOT_FOUND) else "ERR!"


def _watts(milliwatts: int, minimum: int, cells: int) -> str:
    return fit(f"{max(milliwatts // 1000, minimum):>{cells - 1}}W", cells)


def _memory(device: Device, layout: SmiLayout, cells: int, size_cells: int = 5) -> str:
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if used is None or total is None:
        fields = "memory_used_bytes", "memory_total_bytes"
        if failure(device, *fields) == _NO_PERMISSION:
            return fit(f"{'N/A':>{cells - layout.gain}}", cells)
        return fit(why_absent(device, *fields) or "Not Supported", cells)
    return fit(_sizes(frame_buffer_mebibytes(used), total, size_cells), cells)


def _sizes(used_mib: int, total: int, cells: int = 5) -> str:
    return f" {used_mib:>{cells}}MiB / {total // _MIB:>{cells}}MiB"


def _instances(snapshot: Snapshot, gpus: Sequence[Device], layout: SmiLayout) -> Iterator[str]:
    """Yield the table of the MIG instances."""
    yield ""
    yield from layout.instance_headings()
    found = [
        (gpu, each) for gpu in gpus for each in snapshot.devices if each.parent_uuid == gpu.uuid
    ]
    if not found:
        yield f"|  {'No MIG devices found':<{layout.width - 2}}|"
        yield layout.rule
        return
    before = None
    for gpu, each in found:
        owner = gpu.uuid, each.gpu_instance_id
        shares = owner == before and not layout.repeats_memory
        if before is not None:
            yield layout.below_instance(is_open=shares)
        yield from _instance(gpu, each, layout, shares)
        before = owner
    yield layout.below_instance()


def _instance(gpu: Device, instance: Device, layout: SmiLayout, shares: bool) -> Iterator[str]:
    """Yield the lines of a MIG instance; memory that it `shares` with the one above is omitted."""

    def number(value: int | None, width: int = 3) -> str:
        return " N/A" if value is None else f"{value:>{width}} "

    ids = f"{number(gpu.index)}{instance.gpu_instance_id:>4}{instance.compute_instance_id:>4}"
    errors, copying, *others = (getattr(instance, name, None) for name in _OF_INSTANCE)
    cells, memory, bar1 = layout.memory_cells + 12, "", ""
    if not shares:
        memory = f"{'':10}{_memory(instance, layout, cells - 11)}"
        bar1 = f"{'':{layout.bar1_indent}}{fit(_bar1(instance), cells - layout.bar1_indent - 1)}"
    yield (
        f"|{ids} {number(instance.index)} |{memory:<{cells}}|"
        f"{number(instance.multiprocessor_count)}  {number(errors, 4):<5}|"
        f"{number(copying)}{' '.join(map(number, others))}|"
    )
    yield f"|{'':18}|{bar1:<{cells}}|{'':11}|{'':23}|"


def _bar1(instance: Device) -> str:
    used, total = instance.bar1_used_bytes, instance.bar1_total_bytes
    return "" if used is None or total is None else _sizes(used // _MIB, total)


def _no_processes(snapshot: Snapshot) -> str:
    if not snapshot.errors and all(device.state == "ok" for device in snapshot.devices):
        return "No running processes found"
    # It imports the rules of findings, which takes as long as everything else.
    from gpudash.analysis.usage import no_processes_text

    return no_processes_text(snapshot)


def by_instance_and_pid(use: ProcessUse) -> tuple[int, int, int]:
    """Return the sort key of a process among those of its GPU."""
    share = use.share
    return share.gpu_instance_id or 0, share.compute_instance_id or 0, use.process.pid


def _process(gpu: Device, use: ProcessUse, layout: SmiLayout) -> str:
    share, cells = use.share, layout.pid_cells
    instances = share.gpu_instance_id, share.compute_instance_id
    gi, ci = ("N/A" if each is None else f"{each:>2} " for each in instances)
    # A wider PID takes space from the name.
    name = _end(program(use.process) or "[Not Found]", 46 - cells)
    size = mebibytes(share.used_gpu_memory_bytes)
    memory = f"{'N/A':>6}      " if size is None else f"{size:>8}MiB "
    left = f"  {gpu.index:>3}   {gi}  {ci}  {use.process.pid:>{cells}}  {share.type:>5}   {name}"
    return f"|{left}{memory:>{layout.width - 74}}|"


def fit(text: str, width: int) -> str:
    """Return a text padded to a number of bytes, or with its end replaced by `...`."""
    raw = text.encode(errors="replace")
    cut = text if len(raw) <= width else f"{raw[: width - 3].decode(errors='ignore')}..."
    return cut + " " * (width - len(cut.encode(errors="replace")))


def _end(text: str, width: int) -> str:
    """Return the same with its beginning replaced."""
    raw = text.encode(errors="replace")
    if len(raw) > width:
        text = f"...{raw[3 - width :].decode(errors='ignore')}"
    return fit(text, width)


def mebibytes(value: int | None) -> str | None:
    """Return bytes as MiB, rounded down; None for None."""
    return None if value is None else str(value // _MIB)


def frame_buffer_mebibytes(value: int) -> int:
    """Return bytes of a GPU's own memory as MiB, rounded up, as only nvidia-smi does."""
    return -(-value // _MIB)


def program(process: Process) -> str | None:
    """Return the program as it was started, else its name; None if neither is known."""
    line = process.command_line
    return line[0] if line and line[0] else process.name
