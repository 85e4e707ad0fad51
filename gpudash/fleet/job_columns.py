"""The columns of the GPUs of one job: those of GPUs, and what tells which of them lag and why."""

from __future__ import annotations

from math import inf
from typing import Any, cast

from msgspec.structs import replace

from gpudash.analysis.table import Column
from gpudash.fleet.columns import GPU_COLUMNS
from gpudash.fleet.jobs import JobGpu
from gpudash.fleet.summary import brief
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
        level=lambda row: "warn" if row.is_slow else "ok",
    ),
    _of_gpu("power", priority=0, level=lambda row: "warn" if row.draws_little else "ok"),
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
