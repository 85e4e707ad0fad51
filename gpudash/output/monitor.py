"""Rolling lines in the columns of `nvidia-smi dmon` and `nvidia-smi pmon`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import GPM_PERCENTS, GPM_RATES, Device
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.output.smi_layout import NEW_BRANCH, branch
from gpudash.output.smi_table import frame_buffer_mebibytes, program

_MIB = 1 << 20
_MB = 10**6
_NAME_CELLS = 15

_STAMPS = (("D", "Date", "YYYYMMDD"), ("T", "Time", "HH:MM:SS"))


class MonitorColumn(NamedTuple):
    """A heading of two lines, and the value below it; None if unknown."""

    header: str
    unit: str
    value: Callable[[Any], object]
    cells: int = 6
    header_shift: int = 0
    """How many cells to the right of the values the heading ends."""


def _scaled(value: float | None, divisor: float) -> int | None:
    return None if value is None else int(value / divisor)


def _used(gpu: Device) -> int | None:
    return None if gpu.memory_used_bytes is None else frame_buffer_mebibytes(gpu.memory_used_bytes)


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


_DEVICE: Mapping[str, Sequence[MonitorColumn]] = {
    "p": (
        MonitorColumn("pwr", "W", lambda gpu: _scaled(gpu.power_usage_mw, 1000)),
        MonitorColumn("gtemp", "C", lambda gpu: gpu.temperature_celsius),
        MonitorColumn("mtemp", "C", lambda gpu: gpu.memory_temperature_celsius),
    ),
    "u": (
        MonitorColumn("sm", "%", lambda gpu: gpu.gpu_utilization_percent),
        MonitorColumn("mem", "%", lambda gpu: gpu.memory_utilization_percent),
        MonitorColumn("enc", "%", lambda gpu: gpu.encoder_utilization_percent),
        MonitorColumn("dec", "%", lambda gpu: gpu.decoder_utilization_percent),
        MonitorColumn("jpg", "%", lambda gpu: gpu.jpeg_utilization_percent),
        MonitorColumn("ofa", "%", lambda gpu: gpu.ofa_utilization_percent),
    ),
    "c": (
        MonitorColumn("mclk", "MHz", lambda gpu: gpu.memory_clock_mhz),
        MonitorColumn("pclk", "MHz", lambda gpu: gpu.sm_clock_mhz),
    ),
    "v": (
        MonitorColumn("pviol", "%", lambda gpu: _rounded(gpu.throttled_sw_power_cap_percent)),
        MonitorColumn("tviol", "bool", lambda gpu: _is_some(gpu.throttled_thermal_percent)),
    ),
    "m": (
        MonitorColumn("fb", "MB", _used),
        MonitorColumn("bar1", "MB", lambda gpu: _scaled(gpu.bar1_used_bytes, _MIB)),
        MonitorColumn("ccpm", "MB", lambda gpu: _scaled(gpu.protected_memory_used_bytes, _MIB)),
    ),
    "e": (
        MonitorColumn("sbecc", "errs", lambda gpu: gpu.ecc_corrected_volatile_count),
        MonitorColumn("dbecc", "errs", lambda gpu: gpu.ecc_uncorrected_volatile_count),
        MonitorColumn("pci", "errs", lambda gpu: gpu.pcie_replay_count),
    ),
    "t": (
        MonitorColumn("rxpci", "MB/s", lambda gpu: _scaled(gpu.pcie_rx_bytes_per_second, _MB)),
        MonitorColumn("txpci", "MB/s", lambda gpu: _scaled(gpu.pcie_tx_bytes_per_second, _MB)),
    ),
}
DEVICE_LETTERS = "".join(_DEVICE)
"""The letters for -s of dmon."""
GPM_IDS = (*GPM_PERCENTS, *GPM_RATES)
"""The GPM metrics with a column."""
_GPM_NAMES = {
    1: "gract",
    2: "smutil",
    3: "smocc",
    4: "intutil",
    5: "mmaact",
    6: "dfmat",
    7: "hmmat",
    9: "immat",
    10: "dram",
    11: "fp64",
    12: "fp32",
    13: "fp16",
    20: "pcitx",
    21: "pcirx",
}
"""Their names since NEW_BRANCH, if known."""
_FIRST_NVLINK_ID = 60
"""From this one on they are rates, as are those of PCIe; the others are percentages."""
_WITH_ENGINES = 550
"""The driver branch since which lines end in a blank, and processes have all engines."""
_BLANK = MonitorColumn("", "", lambda _gpu: "", 0)


def device_columns(
    letters: str, snapshot: Snapshot, gpm: Sequence[int] = ()
) -> list[MonitorColumn]:
    """Return the columns of dmon: those of the letters of -s, then GPM metrics by id."""
    columns = [column for letter in letters for column in _DEVICE[letter]]
    release = branch(snapshot)
    metrics = [_gpm_column(number, release) for number in gpm]
    if release >= _WITH_ENGINES:
        return [*columns, *metrics, _BLANK]
    return [*columns, _BLANK, *metrics]


def _gpm_column(number: int, release: int) -> MonitorColumn:
    """Return the column of a GPM metric; without values if it is not read."""
    is_rate = number in GPM_RATES or number >= _FIRST_NVLINK_ID
    name, unit = f"id={number}", "GPM"
    if release >= NEW_BRANCH:
        name, unit = _GPM_NAMES.get(number, name), f"GPM:{'MiB/s' if is_rate else '%'}"
    field, divisor = GPM_PERCENTS.get(number) or GPM_RATES.get(number, ""), _MIB if is_rate else 1

    def value(gpu: Device) -> int | None:
        # Truncated, not rounded: nvidia-smi shows 99.5 % as 99, and 0.8 % as 0.
        return _scaled(getattr(gpu, field, None), divisor)

    return MonitorColumn(name, unit, value, 10 if release >= _WITH_ENGINES else 9)


class _Run(NamedTuple):
    """A process on a GPU."""

    gpu: Device
    process: Process
    share: ProcessDevice


_SAMPLED = (
    "sm_utilization_percent",
    "memory_utilization_percent",
    "encoder_utilization_percent",
    "decoder_utilization_percent",
)


def _of_sample(name: str) -> Callable[[_Run], object]:
    """Return a process's value in the driver's sample, None without a sample: it was idle."""

    def value(run: _Run) -> object:
        has_sample = any(getattr(run.share, each) for each in _SAMPLED)
        return getattr(run.share, name) if has_sample else None

    return value


def _protected(run: _Run) -> int | None:
    """Return 0 unless the GPU has protected memory in use, which NVML only has for whole GPUs."""
    return None if run.gpu.protected_memory_used_bytes else 0


_PROCESS = (
    MonitorColumn("pid", "#", lambda run: run.process.pid, 10, 1),
    MonitorColumn("type", "C/G", lambda run: run.share.type, 5),
)
_USES: Mapping[str, Sequence[MonitorColumn]] = {
    "u": (
        MonitorColumn("sm", "%", _of_sample("sm_utilization_percent")),
        MonitorColumn("mem", "%", _of_sample("memory_utilization_percent")),
        MonitorColumn("enc", "%", lambda run: run.share.encoder_utilization_percent or None),
        MonitorColumn("dec", "%", lambda run: run.share.decoder_utilization_percent or None),
    ),
    "m": (
        MonitorColumn("fb", "MB", lambda run: _scaled(run.share.used_gpu_memory_bytes, _MIB)),
        MonitorColumn("ccpm", "MB", _protected),
    ),
}
_ENGINES = (
    MonitorColumn("jpg", "%", lambda _run: None),
    MonitorColumn("ofa", "%", lambda _run: None),
)
"""Engines in the processes' samples of newer drivers, which are not read."""
PROCESS_LETTERS = "".join(_USES)
"""The letters for -s of pmon."""


def process_columns(letters: str, snapshot: Snapshot) -> list[MonitorColumn]:
    """Return the columns of pmon: PID and type, then those of the letters of -s."""
    pid, kind = _PROCESS
    if _has_engines(snapshot):
        uses = {**_USES, "u": (*_USES["u"], *_ENGINES)}
        shown = [column for letter in letters for column in uses[letter]]
        return [pid, kind._replace(header_shift=1), *shown]
    first, *others = (column for letter in letters for column in _USES[letter])
    # In nvidia-smi, the headings of PID and type are further right than their values.
    return [pid, kind, first._replace(header_shift=-1), *others]


def process_headings(snapshot: Snapshot, columns: Sequence[MonitorColumn], stamp: str) -> str:
    """Return the two lines above the columns of pmon."""
    last = "command " if _has_engines(snapshot) else "command"
    return headings(columns, stamp, last)


def _has_engines(snapshot: Snapshot) -> bool:
    return branch(snapshot) >= _WITH_ENGINES


def headings(columns: Sequence[MonitorColumn], stamp: str, last: str = "") -> str:
    """Return the two lines above the columns; `stamp` are the letters of -o, D and T."""
    cells = [(f"{word:<11}", f"{form:<11}") for key, word, form in _STAMPS if key in stamp]
    cells.append((" gpu", " Idx"))
    for column in columns:
        width = column.cells + column.header_shift
        cells.append((f" {column.header:>{width}}", f" {column.unit:>{width}}"))
    if last:
        cells.append((f"    {last}", f"    {last.replace('command', 'name')}"))
    return "".join(f"#{''.join(parts)}\n" for parts in zip(*cells, strict=True))


def device_lines(snapshot: Snapshot, columns: Sequence[MonitorColumn], stamp: str) -> Iterator[str]:
    """Yield a line for each GPU, and none for MIG instances."""
    for gpu in whole_gpus(snapshot):
        cells = "".join(_cell(column.value(gpu), column) for column in columns)
        yield f"{_stamped(snapshot, stamp)}{gpu.index:>5}{cells}\n"


def process_lines(
    snapshot: Snapshot, columns: Sequence[MonitorColumn], stamp: str
) -> Iterator[str]:
    """Yield a line for each process on each GPU by PID, and one for a GPU without any.

    `N/A` for PID and name means that the processes of a GPU are unknown.
    """
    for gpu in whole_gpus(snapshot):
        rows = [
            ([column.value(_Run(gpu, *use)) for column in columns], _program(use.process))
            for use in sorted(snapshot.uses_of(gpu), key=lambda use: use.process.pid)
        ]
        if not rows:
            mark = "N/A" if is_unlisted(gpu, snapshot) else "-"
            rows = [([mark if column.header == "pid" else None for column in columns], mark)]
        for values, name in rows:
            cells = "".join(map(_cell, values, columns))
            shown = f"{name[:_NAME_CELLS]:<{_NAME_CELLS}}"
            yield f"{_stamped(snapshot, stamp)}{gpu.index:>5}{cells}    {shown}\n"


def _program(process: Process) -> str:
    """Return its program without the folder, unless that is the root, as in nvidia-smi."""
    path = program(process) or "-"
    folder, _, name = path.rpartition("/")
    return name if folder else path


def _cell(value: object, column: MonitorColumn) -> str:
    return f" {'-' if value is None else value:>{column.cells}}"


def _is_some(percent: float | None) -> int | None:
    return None if percent is None else int(percent > 0)


def _stamped(snapshot: Snapshot, stamp: str) -> str:
    """Return date and time of a sample, local time."""
    taken = snapshot.taken_at.astimezone()
    parts = [f" {taken:%Y%m%d}  "] * ("D" in stamp) + [f" {taken:%H:%M:%S}  "] * ("T" in stamp)
    return "".join(parts)
