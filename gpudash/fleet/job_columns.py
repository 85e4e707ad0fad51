"""The columns of the GPUs of one job: those of GPUs, and what tells which of them lag and why."""

from __future__ import annotations

from math import inf
from typing import Any, cast

from msgspec.structs import replace

from gpudash.analysis.table import Column
from gpudash.fleet.columns import GPU_COLUMNS
from gpudash.fleet.jobs import SLOW_CLOCK, SLOW_POWER, JobGpu
from gpudash.fleet.summary import brief
from gpudash.model.state import Level
from gpudash.model.units import megahertz

_OF_ROW = ("text", "sort_key", "level", "share", "short")


def _of_gpu(key: str, **more: Any) -> Column[JobGpu]:
    """Return a column of GPUs for those of a job."""
    column = next(each for each in GPU_COLUMNS if each.key == key)
    read = {name: function for name in _OF_ROW if (function := getattr(column, name)) is not None}
    lifted = {name: _lifted(function) for name, function in read.items()}
    return cast("Column[JobGpu]", replace(column, **lifted | more))


def _lifted(function: Any) -> Any:
    return lambda row: function(row.gpu)


def _level(value: float | None, row: JobGpu, usual: float | None, least: float) -> Level:
    share = row.share(value, usual)
    return "warn" if share is not None and share < least else "ok"


JOB_GPU_COLUMNS: tuple[Column[JobGpu], ...] = (
    *map(_of_gpu, ("host", "cluster", "gpu", "state", "utilization")),
    Column(
        key="clock",
        header="SM CLK",
        text=lambda row: megahertz(row.gpu.device.sm_clock_mhz),
        # What is not known is not the slowest.
        sort_key=lambda row: row.gpu.device.sm_clock_mhz or inf,
        width=7,
        align=">",
        level=lambda row: _level(row.gpu.device.sm_clock_mhz, row, row.usual.clock_mhz, SLOW_CLOCK),
    ),
    _of_gpu(
        "power",
        priority=0,
        level=lambda row: _level(
            row.gpu.device.power_usage_mw, row, row.usual.power_mw, SLOW_POWER
        ),
    ),
    _of_gpu("temperature", priority=0),
    _of_gpu("memory", priority=4),
    Column(
        key="others",
        header="ALSO USED BY",
        text=lambda row: brief(row.others),
        sort_key=lambda row: brief(row.others),
        width=24,
        priority=1,
        level=lambda _row: "warn",
    ),
    *map(_of_gpu, ("xid", "idle", "name")),
)
"""The GPUs of one job beside each other; those that lag have another colour."""
