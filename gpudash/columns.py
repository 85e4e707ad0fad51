"""The columns of devices and processes: what each says, how it sorts, how much it matters.

Table and screen walk these; neither formats a value itself.
"""

from __future__ import annotations

from gpudash import health
from gpudash.health import Level
from gpudash.labels import command, short_command, short_name
from gpudash.layout import Column
from gpudash.rows import DeviceRow, ProcessRow, sm_utilization_percent
from gpudash.units import ABSENT, celsius, duration, percent, short_size, watts


def _name(row: DeviceRow) -> str:
    name = short_name(row.device)
    return f"  {name}" if row.device.is_mig else name


def _memory(row: DeviceRow) -> str:
    total = row.device.memory_total_bytes
    used = short_size(row.device.memory_used_bytes)
    return used if total is None else f"{used}/{short_size(total)}"


def _memory_percent(row: DeviceRow) -> float | None:
    share = health.memory_share(row.device)
    return None if share is None else 100 * share


def _power(row: DeviceRow) -> str:
    limit = row.device.enforced_power_limit_mw
    used = watts(row.device.power_usage_mw)
    return used if limit is None else f"{used.removesuffix('W')}/{watts(limit)}"


def _utilization_share(row: DeviceRow) -> float | None:
    value = row.device.gpu_utilization_percent
    return None if value is None else value / 100


def _clock(row: DeviceRow) -> str:
    clock = row.device.sm_clock_mhz
    return ABSENT if clock is None else f"{clock}MHz"


def _performance_state(row: DeviceRow) -> str:
    state = row.device.performance_state
    return ABSENT if state is None else f"P{state}"


def _job(row: ProcessRow) -> str:
    return ABSENT if row.process.job is None else row.process.job.label


def _sm_level(row: ProcessRow) -> Level:
    """Return warn for a process that keeps a GPU without running anything on it."""
    share = sm_utilization_percent(row.process)
    return "unknown" if share is None else "ok" if share else "warn"


def _number(value: float | None) -> float:
    """Return what an absent value sorts as: less than any other."""
    return -1.0 if value is None else float(value)


DEVICE_COLUMNS: tuple[Column[DeviceRow], ...] = (
    Column(
        key="index",
        header="GPU",
        text=lambda row: row.label,
        sort_key=lambda row: row.device.index,
        width=6,
    ),
    Column(
        key="name",
        header="NAME",
        text=_name,
        sort_key=lambda row: row.device.name or "",
        width=24,
        priority=3,
    ),
    Column(
        key="utilization",
        header="UTIL",
        text=lambda row: percent(row.device.gpu_utilization_percent),
        sort_key=lambda row: _number(row.device.gpu_utilization_percent),
        width=4,
        align=">",
        level=lambda row: health.utilization_level(row.device),
        share=_utilization_share,
    ),
    Column(
        key="memory",
        header="MEMORY",
        text=_memory,
        sort_key=lambda row: _number(row.device.memory_used_bytes),
        width=11,
        align=">",
        level=lambda row: health.memory_level(row.device),
        share=lambda row: health.memory_share(row.device),
    ),
    Column(
        key="memory_percent",
        header="MEM%",
        text=lambda row: percent(_memory_percent(row)),
        sort_key=lambda row: _number(_memory_percent(row)),
        width=4,
        align=">",
        priority=4,
        level=lambda row: health.memory_level(row.device),
    ),
    Column(
        key="temperature",
        header="TEMP",
        text=lambda row: celsius(row.device.temperature_celsius),
        sort_key=lambda row: _number(row.device.temperature_celsius),
        width=4,
        align=">",
        priority=1,
        level=lambda row: health.temperature_level(row.device),
    ),
    Column(
        key="fan",
        header="FAN",
        text=lambda row: percent(row.device.fan_speed_percent),
        sort_key=lambda row: _number(row.device.fan_speed_percent),
        width=4,
        align=">",
        priority=5,
    ),
    Column(
        key="power",
        header="POWER",
        text=_power,
        sort_key=lambda row: _number(row.device.power_usage_mw),
        width=10,
        align=">",
        priority=2,
        level=lambda row: health.power_level(row.device),
    ),
    Column(
        key="sm_clock",
        header="SM CLK",
        text=_clock,
        sort_key=lambda row: _number(row.device.sm_clock_mhz),
        width=7,
        align=">",
        priority=6,
    ),
    Column(
        key="performance_state",
        header="P",
        text=_performance_state,
        sort_key=lambda row: _number(row.device.performance_state),
        width=3,
        priority=7,
    ),
    Column(
        key="status",
        header="STATUS",
        text=lambda row: health.status(row.device),
        sort_key=lambda row: health.status(row.device),
        width=9,
        priority=1,
        level=lambda row: health.status_level(row.device),
    ),
)

PROCESS_COLUMNS: tuple[Column[ProcessRow], ...] = (
    Column(
        key="pid",
        header="PID",
        text=lambda row: str(row.process.pid),
        sort_key=lambda row: row.process.pid,
        width=10,
        align=">",
    ),
    Column(
        key="user",
        header="USER",
        text=lambda row: row.process.username or ABSENT,
        sort_key=lambda row: row.process.username or "",
        width=12,
        priority=1,
    ),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda row: row.gpus,
        sort_key=lambda row: min((d.index for d in row.process.devices), default=-1),
        width=12,
        priority=1,
    ),
    Column(
        key="type",
        header="TYPE",
        text=lambda row: row.process.type or ABSENT,
        sort_key=lambda row: row.process.type,
        width=5,
        priority=8,
    ),
    Column(
        key="gpu_memory",
        header="GPU-MEM",
        text=lambda row: short_size(row.process.used_gpu_memory_bytes),
        sort_key=lambda row: _number(row.process.used_gpu_memory_bytes),
        width=7,
        align=">",
    ),
    Column(
        key="sm",
        header="SM",
        text=lambda row: percent(sm_utilization_percent(row.process)),
        sort_key=lambda row: _number(sm_utilization_percent(row.process)),
        width=6,
        align=">",
        priority=2,
        level=_sm_level,
    ),
    Column(
        key="cpu",
        header="CPU",
        text=lambda row: percent(row.process.cpu_percent),
        sort_key=lambda row: _number(row.process.cpu_percent),
        width=6,
        align=">",
        priority=5,
    ),
    Column(
        key="resident_memory",
        header="RSS",
        text=lambda row: short_size(row.process.resident_memory_bytes),
        sort_key=lambda row: _number(row.process.resident_memory_bytes),
        width=5,
        align=">",
        priority=6,
    ),
    Column(
        key="time",
        header="TIME",
        text=lambda row: duration(row.age_seconds),
        sort_key=lambda row: _number(row.age_seconds),
        width=6,
        align=">",
        priority=3,
    ),
    Column(
        key="job",
        header="JOB",
        text=_job,
        sort_key=_job,
        width=22,
        priority=7,
    ),
    Column(
        key="command",
        header="COMMAND",
        text=lambda row: command(row.process),
        short=lambda row: short_command(row.process),
        sort_key=lambda row: short_command(row.process),
        width=30,
        grows=True,
    ),
)
