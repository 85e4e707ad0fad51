"""The columns of jobs, and of a job's GPUs: those of GPUs, and which lag and why."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, cast

from msgspec.structs import replace

from gpudash.analysis.table import Column, amount, waste, word
from gpudash.fleet.columns import GPU_COLUMNS, whole, words
from gpudash.fleet.jobs import JobGpu
from gpudash.model.fleet import FleetJob
from gpudash.model.state import Level
from gpudash.model.units import duration, megahertz, percent, ratio


def _left_seconds(job: FleetJob) -> float | None:
    if job.limit_seconds is None or job.elapsed_seconds is None:
        return None
    return max(0.0, job.limit_seconds - job.elapsed_seconds)


def _busy_level(job: FleetJob) -> Level:
    if job.busy is None:
        return "unknown"
    return "warn" if job.busy <= job.devices / 2 else "ok"


# fmt: off
JOB_COLUMNS: tuple[Column[FleetJob], ...] = (
    word("job", "JOB", lambda job: job.id, 28),
    word("cluster", "CLUSTER", lambda job: job.cluster, 16, priority=1),
    word("user", "USER", lambda job: job.user, 16),
    word("name", "NAME", lambda job: job.name, 24, priority=3),
    word("state", "STATE", lambda job: job.state, 10, priority=7),
    amount("gpus", "GPUS", lambda job: job.devices, whole, 5),
    amount("busy", "BUSY", lambda job: job.busy,
        lambda value: "?" if value is None else whole(value), 5, level=_busy_level),
    amount("utilization", "UTIL", lambda job: job.gpu_utilization_percent, percent, 4,
        share=lambda job: ratio(job.gpu_utilization_percent, 100)),
    amount("slow", "SLOW", lambda job: job.slow, whole, 4, priority=1, graded=waste),
    amount("broken", "BROKEN", lambda job: job.broken, whole, 6, priority=1,
        graded=lambda count: "critical" if count else "unknown",
        worth=lambda job: bool(job.broken)),
    amount("least", "LEAST", lambda job: job.min_gpu_utilization_percent, percent, 5, priority=5),
    amount("elapsed", "TIME", lambda job: job.elapsed_seconds, duration, 6, priority=4),
    amount("left", "LEFT", _left_seconds, duration, 6, priority=2),
    words("hosts", "HOSTS", lambda job: job.hosts, priority=8, grows=True),
)
# fmt: on


# The GPUs of one


_OF_ROW = ("text", "sort_key", "level", "share", "short")


def _of_gpu(key: str, **more: Any) -> Column[JobGpu]:
    """Return the column of GPUs of this key for a job's GPUs."""
    column = next(each for each in GPU_COLUMNS if each.key == key)
    read = {name: function for name in _OF_ROW if (function := getattr(column, name)) is not None}
    lifted = {name: _lifted(function) for name, function in read.items()}
    return cast("Column[JobGpu]", replace(column, **lifted | more))


def _lifted(function: Any) -> Any:
    return lambda row: function(row.gpu)


def _lags(is_bad: Callable[[JobGpu], bool]) -> Callable[[JobGpu], Level]:
    """Return a level that is dimmed on hosts of which only the past is known."""
    return lambda row: "unknown" if not row.gpu.is_known else "warn" if is_bad(row) else "ok"


def _clock(row: JobGpu) -> float:
    """Sort GPUs that are gone first, and those of unknown clock last.

    An unknown clock does not count as the slowest.
    """
    if not row.gpu.is_known or row.gpu.state.is_problem:
        return 0.0
    return row.gpu.device.sm_clock_mhz or inf


JOB_GPU_COLUMNS: tuple[Column[JobGpu], ...] = (
    *map(_of_gpu, ("host", "cluster", "gpu", "state", "utilization")),
    Column(
        key="clock",
        header="SM CLK",
        text=lambda row: megahertz(row.gpu.device.sm_clock_mhz),
        sort_key=_clock,
        width=7,
        align=">",
        level=_lags(lambda row: row.is_slow),
    ),
    _of_gpu("power", priority=0, level=_lags(lambda row: row.draws_little)),
    _of_gpu("temperature", priority=0),
    _of_gpu("memory", priority=4),
    words("others", "ALSO USED BY", lambda row: row.others, priority=1, level=lambda _row: "warn"),
    *map(_of_gpu, ("xid", "idle", "name")),
)
"""The GPUs of one job in comparison; those that lag are coloured."""
