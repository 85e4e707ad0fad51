"""The GPUs of one job beside each other: what is usual among them, and which are slow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import NamedTuple

from gpudash.fleet.summary import GpuRow
from gpudash.model.fleet import FleetDevice, FleetJob
from gpudash.model.state import BUSY
from gpudash.model.text import SafeText

_MIN_JOB = 4
SLOW_CLOCK, SLOW_POWER = 0.85, 0.75
"""Of what is usual in the job, below which a GPU that computes is slow. Utilization tells
nothing: one that waits for the others spins."""


class Usual(NamedTuple):
    """The medians of the GPUs of a job that compute; None where none reports it."""

    utilization: float | None
    clock_mhz: float | None
    power_mw: float | None
    temperature: float | None


class JobGpu(NamedTuple):
    """A GPU or MIG instance of a job."""

    gpu: GpuRow
    usual: Usual
    others: tuple[SafeText, ...]
    """Users of it whose job this is not."""

    def share(self, value: float | None, usual: float | None) -> float | None:
        """Return a value of a GPU that computes as a share of what is usual, None if unknown."""
        is_comparable = self.gpu.device.status == BUSY.id and value is not None and bool(usual)
        return value / usual if is_comparable and value and usual else None


def usual_of(rows: Iterable[GpuRow]) -> Usual:
    """Return what is usual among the GPUs of a job."""
    busy = [row.device for row in rows if row.device.status == BUSY.id]

    def middle(read: Callable[[FleetDevice], float | None]) -> float | None:
        known = [value for each in busy if (value := read(each)) is not None]
        return median(known) if known else None

    return Usual(
        middle(lambda device: device.gpu_utilization_percent),
        middle(lambda device: device.sm_clock_mhz),
        middle(lambda device: device.power_usage_mw),
        middle(lambda device: device.temperature_celsius),
    )


def job_gpus(rows: Sequence[GpuRow], job: FleetJob | None) -> list[JobGpu]:
    """Return the GPUs of a job; whose they are beside it is not known without its user."""
    usual, owner = usual_of(rows), None if job is None else job.user
    return [
        JobGpu(
            row,
            usual,
            tuple([user for user in row.device.users if user != owner]) if owner else (),
        )
        for row in rows
    ]


def stragglers_of(rows: Sequence[GpuRow]) -> tuple[list[GpuRow], list[GpuRow]]:
    """Return the GPUs of a job that are slow by their clock, and all of it that compute.

    None are where too few compute, where models differ, or where so many are slow that it is
    usual.
    """
    if len(rows) < _MIN_JOB:
        return [], []
    # A MIG instance has the clock of its GPU, and the name of a slice of it.
    gpus = [row for row in rows if row.device.parent_uuid is None]
    busy = [row for row in gpus if row.device.sm_clock_mhz and row.device.status == BUSY.id]
    if len(busy) < _MIN_JOB or len({row.device.name for row in busy}) > 1:
        return [], busy
    usual = median([row.device.sm_clock_mhz or 0 for row in busy])
    slow = [row for row in busy if (row.device.sm_clock_mhz or 0) < SLOW_CLOCK * usual]
    return (slow if len(slow) * 4 <= len(busy) else []), busy
