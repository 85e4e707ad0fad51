"""The columns of hosts, of their GPUs, of users and of jobs, on the screen and in print."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gpudash.analysis.table import Column, number
from gpudash.fleet.summary import RANK_OF_WORD, STATE_OF_WORD, HostRow, brief
from gpudash.model.fleet import HOST_STATES, FleetDevice, FleetHost, FleetJob, FleetUser
from gpudash.model.state import BUSY, FREE, HELD, UNKNOWN, Level, State
from gpudash.model.units import ABSENT, celsius, duration, percent, short_size, watts

_HOT_CELSIUS, _VERY_OLD_SECONDS = 85, 60.0


def kilowatts(milliwatts: int | None) -> str:
    """Return the power of many GPUs: `310W`, `5.6kW`, `2.9MW`."""
    if milliwatts is None:
        return ABSENT
    value = milliwatts / 1000
    for unit in ("W", "kW", "MW"):
        if value < 999.5:
            return f"{value:.0f}{unit}" if unit == "W" or value >= 99.5 else f"{value:.1f}{unit}"
        value /= 1000
    return f"{value:.1f}GW"


def _count(state: State) -> Callable[[HostRow], str]:
    """Return how many GPUs do that, `?` on a host of which only the past is known."""
    return lambda row: ("?" if not row.is_known else str(row.count(state))) if row.gpus else ABSENT


def _known(level: Callable[[HostRow], Level]) -> Callable[[HostRow], Level]:
    """Return a level that recedes on hosts of which only the past is known."""
    return lambda row: level(row) if row.is_known else "unknown"


def _held_level(row: HostRow) -> Level:
    return "warn" if row.count(HELD) else "unknown"


def _free_level(row: HostRow) -> Level:
    return "ok" if row.count(FREE) else "unknown"


def _plain(_row: HostRow) -> Level:
    return "ok"


def _temperature_level(row: HostRow) -> Level:
    return "warn" if (row.temperature or 0) >= _HOT_CELSIUS else "ok"


def _age_level(row: HostRow) -> Level:
    if not row.is_known or (row.host.age_seconds or 0) > _VERY_OLD_SECONDS:
        return "warn"
    return "unknown"


def _gpus_text(row: HostRow) -> str:
    expected = row.host.expected_devices
    if row.missing and expected:
        return f"{expected - row.missing}/{expected}"
    return str(row.gpus) if row.gpus else "?"


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole


HOST_COLUMNS: tuple[Column[HostRow], ...] = (
    Column(
        key="host",
        header="HOST",
        text=lambda row: row.host.name,
        sort_key=lambda row: row.host.name,
        width=24,
        grows=True,
    ),
    Column(
        key="state",
        header="STATE",
        text=lambda row: row.state_text,
        sort_key=lambda row: -row.severity,
        width=12,
        level=lambda row: row.level,
    ),
    Column(
        key="group",
        header="GROUP",
        text=lambda row: row.host.group or ABSENT,
        sort_key=lambda row: row.host.group or "",
        width=12,
        priority=9,
    ),
    Column(
        key="gpus",
        header="GPUS",
        text=_gpus_text,
        sort_key=lambda row: row.gpus,
        width=5,
        align=">",
        level=_known(lambda row: "critical" if row.missing else "ok"),
    ),
    Column(
        key="busy",
        header="BUSY",
        text=_count(BUSY),
        sort_key=lambda row: row.count(BUSY),
        width=4,
        align=">",
        level=_known(_plain),
    ),
    Column(
        key="held",
        header="HELD",
        text=_count(HELD),
        sort_key=lambda row: row.count(HELD),
        width=4,
        align=">",
        level=_known(_held_level),
    ),
    Column(
        key="free",
        header="FREE",
        text=_count(FREE),
        sort_key=lambda row: row.count(FREE) if row.is_known else -1,
        width=4,
        align=">",
        level=_known(_free_level),
    ),
    Column(
        key="utilization",
        header="UTIL",
        text=lambda row: percent(row.utilization),
        sort_key=lambda row: number(row.utilization),
        width=4,
        align=">",
        priority=1,
        level=_known(_plain),
        share=lambda row: _share(row.utilization, 100) if row.is_known else None,
    ),
    Column(
        key="memory",
        header="MEM",
        text=lambda row: short_size(row.memory_used_bytes),
        sort_key=lambda row: number(row.memory_used_bytes),
        width=5,
        align=">",
        priority=4,
        level=_known(_plain),
    ),
    Column(
        key="power",
        header="POWER",
        text=lambda row: kilowatts(row.power_mw),
        sort_key=lambda row: number(row.power_mw),
        width=5,
        align=">",
        priority=5,
        level=_known(_plain),
    ),
    Column(
        key="temperature",
        header="TEMP",
        text=lambda row: celsius(row.temperature),
        sort_key=lambda row: number(row.temperature),
        width=4,
        align=">",
        priority=6,
        level=_known(_temperature_level),
    ),
    Column(
        key="jobs",
        header="JOBS",
        text=lambda row: str(len(row.jobs)) if row.jobs else ABSENT,
        sort_key=lambda row: len(row.jobs),
        width=4,
        align=">",
        priority=7,
        level=_known(_plain),
    ),
    Column(
        key="users",
        header="USERS",
        text=lambda row: brief(row.users),
        sort_key=lambda row: brief(row.users),
        width=24,
        priority=3,
        level=_known(_plain),
        short=lambda row: brief(row.users, 1),
    ),
    Column(
        key="age",
        header="AGE",
        text=lambda row: duration(row.host.age_seconds),
        sort_key=lambda row: number(row.host.age_seconds),
        width=6,
        align=">",
        priority=2,
        level=_age_level,
        ticks=True,
    ),
)
"""Hosts; the column `state` ascends from the worst."""


class GpuRow(NamedTuple):
    """A GPU or MIG instance with its host."""

    host: FleetHost
    device: FleetDevice

    @property
    def is_known(self) -> bool:
        """Whether its values are of now, as far as its age goes."""
        return self.host.state == "ok"

    @property
    def state(self) -> State:
        """What it does, as last known."""
        return STATE_OF_WORD.get(self.device.status, UNKNOWN)

    @property
    def state_text(self) -> str:
        """What it does, or what its host is where that does not answer."""
        return self.state.word if self.is_known else HOST_STATES[self.host.state].word

    @property
    def level(self) -> Level:
        """How bad that is."""
        return self.state.level if self.is_known else HOST_STATES[self.host.state].level


_UNKNOWN_RANK = -0.5 + RANK_OF_WORD[BUSY.word]
"""Behind what is broken, before what works."""


def _gpu(level: Callable[[GpuRow], Level] = lambda _row: "ok") -> Callable[[GpuRow], Level]:
    return lambda row: level(row) if row.is_known else "unknown"


def _gpu_temperature_level(row: GpuRow) -> Level:
    return "warn" if (row.device.temperature_celsius or 0) >= _HOT_CELSIUS else "ok"


def _gpu_share(row: GpuRow, part: float | None, whole: float | None) -> float | None:
    return _share(part, whole) if row.is_known else None


def _power_text(row: GpuRow) -> str:
    limit = row.device.enforced_power_limit_mw
    if limit is None or row.device.power_usage_mw is None:
        return watts(row.device.power_usage_mw)
    return f"{row.device.power_usage_mw / 1000:.0f}/{watts(limit)}"


GPU_COLUMNS: tuple[Column[GpuRow], ...] = (
    Column(
        key="host",
        header="HOST",
        text=lambda row: row.host.name,
        sort_key=lambda row: row.host.name,
        width=24,
        grows=True,
    ),
    Column(
        key="gpu",
        header="GPU",
        text=lambda row: (
            f" {row.device.index}" if row.device.parent_uuid else str(row.device.index)
        ),
        sort_key=lambda row: row.device.index,
        width=4,
        align=">",
    ),
    Column(
        key="state",
        header="STATE",
        text=lambda row: row.state_text,
        sort_key=lambda row: RANK_OF_WORD[row.state.word] if row.is_known else _UNKNOWN_RANK,
        width=12,
        level=lambda row: row.level,
    ),
    Column(
        key="utilization",
        header="UTIL",
        text=lambda row: percent(row.device.gpu_utilization_percent),
        sort_key=lambda row: number(row.device.gpu_utilization_percent),
        width=4,
        align=">",
        level=_gpu(),
        share=lambda row: _gpu_share(row, row.device.gpu_utilization_percent, 100),
    ),
    Column(
        key="memory",
        header="MEM",
        text=lambda row: short_size(row.device.memory_used_bytes),
        sort_key=lambda row: number(row.device.memory_used_bytes),
        width=5,
        align=">",
        level=_gpu(),
        share=lambda row: _gpu_share(
            row, row.device.memory_used_bytes, row.device.memory_total_bytes
        ),
    ),
    Column(
        key="power",
        header="POWER",
        text=_power_text,
        sort_key=lambda row: number(row.device.power_usage_mw),
        width=9,
        align=">",
        priority=3,
        level=_gpu(),
        short=lambda row: watts(row.device.power_usage_mw),
    ),
    Column(
        key="temperature",
        header="TEMP",
        text=lambda row: celsius(row.device.temperature_celsius),
        sort_key=lambda row: number(row.device.temperature_celsius),
        width=4,
        align=">",
        priority=2,
        level=_gpu(_gpu_temperature_level),
    ),
    Column(
        key="xid",
        header="XID",
        text=lambda row: ABSENT if row.device.xid is None else str(row.device.xid),
        sort_key=lambda row: number(row.device.xid),
        width=4,
        align=">",
        priority=4,
        level=_gpu(lambda row: "unknown" if row.device.xid is None else "critical"),
    ),
    Column(
        key="idle",
        header="IDLE",
        text=lambda row: duration(row.device.idle_seconds),
        sort_key=lambda row: number(row.device.idle_seconds),
        width=6,
        align=">",
        priority=2,
        level=_gpu(lambda row: "warn" if row.state is HELD else "unknown"),
    ),
    Column(
        key="users",
        header="USERS",
        text=lambda row: brief(row.device.users),
        sort_key=lambda row: brief(row.device.users),
        width=24,
        priority=1,
        level=_gpu(),
        short=lambda row: brief(row.device.users, 1),
    ),
    Column(
        key="job",
        header="JOB",
        text=lambda row: row.device.job or ABSENT,
        sort_key=lambda row: row.device.job or "",
        width=24,
        priority=5,
        level=_gpu(),
    ),
    Column(
        key="name",
        header="MODEL",
        text=lambda row: row.device.name or ABSENT,
        sort_key=lambda row: row.device.name or "",
        width=28,
        priority=8,
        level=_gpu(),
    ),
)
"""GPUs; the column `state` ascends from the worst."""


def hours(value: float | None) -> str:
    """Return GPU-hours: `4.5h`, `1,204h`."""
    if value is None:
        return ABSENT
    return f"{value:.1f}h" if value < 99.95 else f"{value:,.0f}h"


USER_COLUMNS: tuple[Column[FleetUser], ...] = (
    Column(
        key="user",
        header="USER",
        text=lambda user: user.name,
        sort_key=lambda user: user.name,
        width=24,
        grows=True,
    ),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda user: str(user.devices),
        sort_key=lambda user: user.devices,
        width=5,
        align=">",
    ),
    Column(
        key="busy",
        header="BUSY",
        text=lambda user: str(user.busy),
        sort_key=lambda user: user.busy,
        width=5,
        align=">",
        share=lambda user: _share(user.busy, user.devices),
    ),
    Column(
        key="held",
        header="HELD IDLE",
        text=lambda user: str(user.held_idle),
        sort_key=lambda user: user.held_idle,
        width=9,
        align=">",
        level=lambda user: "warn" if user.held_idle else "unknown",
    ),
    Column(
        key="idle_hours",
        header="GPU-HOURS IDLE",
        text=lambda user: hours(user.idle_gpu_hours),
        sort_key=lambda user: number(user.idle_gpu_hours),
        width=14,
        align=">",
        level=lambda user: "warn" if user.idle_gpu_hours else "unknown",
    ),
    Column(
        key="memory",
        header="MEM",
        text=lambda user: short_size(user.memory_used_bytes),
        sort_key=lambda user: number(user.memory_used_bytes),
        width=5,
        align=">",
        priority=2,
    ),
    Column(
        key="jobs",
        header="JOBS",
        text=lambda user: str(user.jobs) if user.jobs else ABSENT,
        sort_key=lambda user: user.jobs,
        width=5,
        align=">",
        priority=3,
    ),
    Column(
        key="hosts",
        header="HOSTS",
        text=lambda user: str(user.hosts),
        sort_key=lambda user: user.hosts,
        width=5,
        align=">",
        priority=1,
    ),
)


def _left_seconds(job: FleetJob) -> float | None:
    if job.limit_seconds is None or job.elapsed_seconds is None:
        return None
    return max(0.0, job.limit_seconds - job.elapsed_seconds)


_SLOW = 0.75
"""Of the mean of a job, below which its slowest GPU is worth a look."""


def _slowest_level(job: FleetJob) -> Level:
    mean, slowest = job.gpu_utilization_percent, job.min_gpu_utilization_percent
    if mean is None or slowest is None:
        return "unknown"
    return "warn" if slowest < _SLOW * mean else "ok"


JOB_COLUMNS: tuple[Column[FleetJob], ...] = (
    Column(key="job", header="JOB", text=lambda job: job.id, sort_key=lambda job: job.id, width=28),
    Column(
        key="user",
        header="USER",
        text=lambda job: job.user or ABSENT,
        sort_key=lambda job: job.user or "",
        width=16,
    ),
    Column(
        key="name",
        header="NAME",
        text=lambda job: job.name or ABSENT,
        sort_key=lambda job: job.name or "",
        width=24,
        priority=3,
        grows=True,
    ),
    Column(
        key="state",
        header="STATE",
        text=lambda job: job.state or ABSENT,
        sort_key=lambda job: job.state or "",
        width=10,
        priority=7,
    ),
    Column(
        key="gpus",
        header="GPUS",
        text=lambda job: str(job.devices),
        sort_key=lambda job: job.devices,
        width=5,
        align=">",
    ),
    Column(
        key="busy",
        header="BUSY",
        text=lambda job: "?" if job.busy is None else str(job.busy),
        sort_key=lambda job: number(job.busy),
        width=5,
        align=">",
        level=lambda job: "ok" if job.busy else "warn" if job.busy == 0 else "unknown",
    ),
    Column(
        key="utilization",
        header="UTIL",
        text=lambda job: percent(job.gpu_utilization_percent),
        sort_key=lambda job: number(job.gpu_utilization_percent),
        width=4,
        align=">",
        share=lambda job: _share(job.gpu_utilization_percent, 100),
    ),
    Column(
        key="slowest",
        header="SLOWEST",
        text=lambda job: percent(job.min_gpu_utilization_percent),
        sort_key=lambda job: number(job.min_gpu_utilization_percent),
        width=7,
        align=">",
        priority=1,
        level=_slowest_level,
    ),
    Column(
        key="elapsed",
        header="TIME",
        text=lambda job: duration(job.elapsed_seconds),
        sort_key=lambda job: number(job.elapsed_seconds),
        width=6,
        align=">",
        priority=4,
    ),
    Column(
        key="left",
        header="LEFT",
        text=lambda job: duration(_left_seconds(job)),
        sort_key=lambda job: number(_left_seconds(job)),
        width=6,
        align=">",
        priority=2,
    ),
    Column(
        key="hosts",
        header="HOSTS",
        text=lambda job: brief(tuple(map(str, job.hosts))),
        sort_key=lambda job: len(job.hosts),
        width=24,
        priority=8,
        short=lambda job: brief(tuple(map(str, job.hosts)), 1),
    ),
)
