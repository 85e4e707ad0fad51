"""The columns of hosts, of their GPUs, of users and events, on the screen and in print."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from gpudash.analysis.table import Column, amount, number, waste, word
from gpudash.fleet.groups import GroupRow
from gpudash.fleet.summary import GpuRow, HostRow, brief, gpu_index
from gpudash.model.fleet import Event, FleetUser
from gpudash.model.state import BUSY, FREE, HELD, IN_USE, RANKS, Level, State
from gpudash.model.units import (
    ABSENT,
    celsius,
    counted,
    duration,
    hours,
    kilowatts,
    percent,
    price,
    ratio,
    short_size,
    watts,
)

_HOT_CELSIUS, _VERY_OLD_SECONDS = 85, 60.0

Row = TypeVar("Row")
KnownRow = TypeVar("KnownRow", HostRow, GpuRow)


def words(
    key: str, header: str, values: Callable[[Row], tuple[str, ...]], **more: Any
) -> Column[Row]:
    """Return a column of name lists that shows the first few."""
    return Column(
        key=key,
        header=header,
        text=lambda row: brief(values(row)),
        sort_key=lambda row: brief(values(row)),
        width=24,
        short=lambda row: brief(values(row), 1),
        **more,
    )


def whole(value: float | None) -> str:
    """Return a whole number, a dash for none."""
    return ABSENT if value is None else f"{value:,.0f}"


def _known(
    level: Callable[[KnownRow], Level] = lambda _row: "ok",
) -> Callable[[KnownRow], Level]:
    """Return a level that is dimmed on hosts of which only the past is known."""
    return lambda row: level(row) if row.is_known else "unknown"


def _heat(value: float | None) -> Level:
    return "warn" if (value or 0) >= _HOT_CELSIUS else "ok"


# Hosts


def _counted(state: State, level: Callable[[HostRow], Level], **more: Any) -> Column[HostRow]:
    """Return how many GPUs are in a state, `?` on a host of which only the past is known."""

    def text(row: HostRow) -> str:
        return ("?" if not row.is_known else str(row.count(state))) if row.gpus else ABSENT

    key = "in_use" if state is IN_USE else state.word.partition(" ")[0]
    return Column(
        key=key,
        header=key.replace("_", " ").upper(),
        text=text,
        sort_key=lambda row: row.count(state) if row.is_known else -1,
        width=4,
        align=">",
        level=_known(level),
        **more,
    )


def _age_level(row: HostRow) -> Level:
    if not row.is_known or (row.host.age_seconds or 0) > _VERY_OLD_SECONDS:
        return "warn"
    return "unknown"


def _gpus_text(row: HostRow) -> str:
    expected = row.host.expected_devices
    if row.missing and expected:
        return f"{expected - row.missing}/{expected}"
    return str(row.gpus) if row.gpus else "?"


# fmt: off
HOST_COLUMNS: tuple[Column[HostRow], ...] = (
    word("host", "HOST", lambda row: row.host.name, 40),
    word("cluster", "CLUSTER", lambda row: row.host.cluster, 16, priority=1),
    Column(
        key="state",
        header="STATUS",
        text=lambda row: row.state_text,
        sort_key=lambda row: row.worst_first,
        width=12,
        level=lambda row: row.level,
    ),
    word("group", "GROUP", lambda row: row.host.group, 12, priority=9),
    Column(
        key="gpus",
        header="GPUS",
        text=_gpus_text,
        sort_key=lambda row: row.gpus,
        width=5,
        align=">",
        level=_known(lambda row: "critical" if row.missing else "ok"),
    ),
    _counted(BUSY, lambda _row: "ok", priority=1),
    _counted(IN_USE, lambda _row: "ok", priority=4, worth=lambda row: row.count(IN_USE) > 0),
    _counted(HELD, lambda row: waste(row.count(HELD))),
    _counted(FREE, lambda row: "ok" if row.count(FREE) else "unknown"),
    amount("utilization", "UTIL", lambda row: row.utilization, percent, 4, priority=1,
        level=_known(), share=lambda row: ratio(row.utilization, 100) if row.is_known else None),
    amount("memory", "GPU-MEM", lambda row: row.memory_used_bytes, short_size, 7, priority=4,
        level=_known()),
    amount("power", "POWER", lambda row: row.power_mw, kilowatts, 5, priority=5, level=_known()),
    amount("temperature", "TEMP", lambda row: row.temperature, celsius, 4, priority=6,
        level=_known(lambda row: _heat(row.temperature))),
    word("drained", "DRAINED FOR", lambda row: row.host.drain_reason, 40, priority=4),
    amount("jobs", "JOBS", lambda row: len(row.jobs) or None, whole, 4, priority=7, level=_known()),
    amount("age", "AGE", lambda row: row.host.age_seconds, duration, 6, priority=2,
        level=_age_level, ticks=True),
    words("users", "USERS", lambda row: row.users, priority=3, level=_known(), grows=True),
)
# fmt: on
"""Hosts; the column `state` ascends from the worst."""


# Groups of hosts


def _group_state(row: GroupRow) -> str:
    more = row.bad - (row.worst.level in ("warn", "critical"))
    return row.worst.state_text + (f" +{counted(more, 'host')}" if more else "")


def _group_count(state: State, **more: Any) -> Column[GroupRow]:
    key = state.word.partition(" ")[0]
    return amount(key, key.upper(), lambda row: row.count(state), whole, 6, **more)


# fmt: off
GROUP_COLUMNS: tuple[Column[GroupRow], ...] = (
    word("group", "GROUP", lambda row: row.name, 40),
    Column(
        key="hosts",
        header="HOSTS",
        text=lambda row: (
            f"{row.sums.hosts:,}"
            if row.sums.answering == row.sums.hosts
            else f"{row.sums.answering:,}/{row.sums.hosts:,}"
        ),
        sort_key=lambda row: row.sums.hosts,
        width=11,
        align=">",
        priority=1,
    ),
    Column(
        key="state",
        header="STATUS",
        text=_group_state,
        sort_key=lambda row: row.worst.worst_first,
        width=22,
        level=lambda row: row.worst.level,
    ),
    amount("gpus", "GPUS", lambda row: row.sums.gpus, whole, 6),
    _group_count(BUSY, priority=1),
    _group_count(HELD, graded=waste),
    _group_count(FREE, graded=lambda count: "ok" if count else "unknown"),
    amount("whole", "FREE HOSTS", lambda row: row.whole, whole, 10, priority=2),
    amount("utilization", "UTIL", lambda row: row.sums.utilization, percent, 4, priority=1,
        share=lambda row: ratio(row.sums.utilization, 100)),
    amount("power", "POWER", lambda row: row.sums.power_mw, kilowatts, 6, priority=1,
        share=lambda row: ratio(row.sums.power_mw, row.sums.limit_mw)),
    amount("temperature", "TEMP", lambda row: row.sums.temperature, celsius, 4, priority=1,
        graded=_heat),
)
# fmt: on
"""Groups; the column `state` ascends from the worst."""


# GPUs


_UNKNOWN_RANK = -0.5 + RANKS[BUSY.id]
"""After anything broken, before anything that works."""


def _power_text(row: GpuRow) -> str:
    limit = row.device.enforced_power_limit_mw
    if limit is None or row.device.power_usage_mw is None:
        return watts(row.device.power_usage_mw)
    return f"{row.device.power_usage_mw / 1000:.0f}/{watts(limit)}"


def _memory_share(row: GpuRow) -> float | None:
    device = row.device
    return ratio(device.memory_used_bytes, device.memory_total_bytes) if row.is_known else None


# fmt: off
GPU_COLUMNS: tuple[Column[GpuRow], ...] = (
    word("host", "HOST", lambda row: row.host.name, 40),
    word("cluster", "CLUSTER", lambda row: row.host.cluster, 16, priority=1),
    Column(
        key="gpu",
        header="GPU",
        text=lambda row: row.label,
        sort_key=lambda row: gpu_index(row.host, row.device) or 0,
        width=5,
        align=">",
    ),
    Column(
        key="state",
        header="STATUS",
        text=lambda row: row.state_text,
        sort_key=lambda row: RANKS[row.state.id] if row.is_known else _UNKNOWN_RANK,
        width=12,
        level=lambda row: row.level,
    ),
    amount("utilization", "UTIL", lambda row: row.device.gpu_utilization_percent, percent, 4,
        level=_known(),
        share=lambda row: ratio(row.device.gpu_utilization_percent, 100) if row.is_known else None),
    amount("memory", "GPU-MEM", lambda row: row.device.memory_used_bytes, short_size, 6,
        level=_known(), share=_memory_share),
    Column(
        key="power",
        header="POWER",
        text=_power_text,
        sort_key=lambda row: number(row.device.power_usage_mw),
        width=9,
        align=">",
        priority=3,
        level=_known(),
        short=lambda row: watts(row.device.power_usage_mw),
    ),
    amount("temperature", "TEMP", lambda row: row.device.temperature_celsius, celsius, 4,
        priority=2, level=_known(lambda row: _heat(row.device.temperature_celsius))),
    amount("xid", "XID", lambda row: row.device.xid, whole, 4, priority=4,
        level=_known(lambda row: "unknown" if row.device.xid is None else "critical")),
    amount("idle", "IDLE", lambda row: row.device.idle_seconds, duration, 6, priority=2,
        level=_known(lambda row: "warn" if row.state is HELD else "unknown")),
    words("users", "USERS", lambda row: row.device.users, priority=1, level=_known()),
    word("job", "JOB", lambda row: row.device.job, 24, priority=5, level=_known()),
    word("name", "NAME", lambda row: row.device.name, 28, priority=8, level=_known(), grows=True),
)
# fmt: on
"""GPUs; the column `state` ascends from the worst."""


# Users


def _kept_text(user: FleetUser) -> str:
    """Return how many GPUs look kept busy and their hourly cost; since when is unknown."""
    cost = user.kept_cost_per_hour
    return f"{user.kept_busy}" + ("" if cost is None else f" ({cost:,.2f}/h)")


# fmt: off
USER_COLUMNS: tuple[Column[FleetUser], ...] = (
    word("user", "USER", lambda user: user.name, 40),
    amount("gpus", "GPUS", lambda user: user.devices, whole, 5),
    amount("busy", "BUSY", lambda user: user.busy, whole, 5,
        share=lambda user: ratio(user.busy, user.devices)),
    amount("held", "HELD IDLE", lambda user: user.held_idle, whole, 9, priority=1, graded=waste),
    amount("idle_hours", "GPU-HOURS IDLE", lambda user: user.idle_gpu_hours, hours, 14,
        graded=waste),
    amount("idle_cost", "COST IDLE", lambda user: user.idle_cost, price, 9, priority=1,
        graded=waste),
    Column(
        key="kept",
        header="KEPT BUSY",
        text=_kept_text,
        sort_key=lambda user: user.kept_busy,
        width=14,
        align=">",
        priority=1,
        level=lambda user: waste(user.kept_busy),
        worth=lambda user: user.kept_busy > 0,
    ),
    amount("memory", "GPU-MEM", lambda user: user.memory_used_bytes, short_size, 7, priority=2),
    amount("jobs", "JOBS", lambda user: user.jobs or None, whole, 5, priority=3),
    amount("hosts", "HOSTS", lambda user: user.hosts, whole, 5, priority=1),
)
# fmt: on


# What happened


# fmt: off
EVENT_COLUMNS: tuple[Column[Event], ...] = (
    word("time", "TIME", lambda event: event.when, 17, sort_key=lambda event: event.at.timestamp()),
    word("event", "EVENT", lambda event: event.kind, 12,
        sort_key=lambda event: (event.level == "ok", event.kind), level=lambda event: event.level),
    word("host", "HOST", lambda event: event.host, 40),
    word("cluster", "CLUSTER", lambda event: event.cluster, 16, priority=3),
    word("gpu", "GPU", lambda event: event.gpu, 5),
    word("job", "JOB", lambda event: event.job, 24, priority=1),
    word("user", "USER", lambda event: event.user, 16, priority=2),
    word("what", "WHAT", lambda event: event.what, 100, least=24, grows=True),
)
# fmt: on
