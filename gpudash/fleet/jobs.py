"""The GPUs of one job in comparison: what is usual among them, and which are slow."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from math import inf
from statistics import median
from typing import NamedTuple

from gpudash.analysis.activity import IDLE_PERCENT
from gpudash.fleet.lasting import Bound
from gpudash.fleet.summary import GpuRow
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, JobKey
from gpudash.model.state import BUSY, HOT, SLOW
from gpudash.model.text import SafeText, clean
from gpudash.model.units import grouped

_MIN_JOB = 4
COMPUTES = frozenset((BUSY.id, HOT.id, SLOW.id))
"""Statuses of a computing GPU, including a slow one."""
_SLOW_CLOCK, _LOW_POWER = 0.85, 0.75
"""Shares of the job's median below which a computing GPU is slow. Utilization does not
tell: a GPU that waits for the others spins.
"""


class Pace(NamedTuple):
    """The comparable computing GPUs of a job, of one model, and which are slow."""

    busy: list[GpuRow]
    clock_mhz: float
    """The median of their clocks."""
    slow: list[GpuRow]
    """Empty if so many are slow that it is usual."""
    slow_within: tuple[Bound, ...]
    """The bounds within which they are slow: they compute, at a low clock."""


class Usual(NamedTuple):
    """Medians of a job's computing GPUs of one model; None if none reports the value."""

    utilization: float | None
    clock_mhz: float | None
    power_mw: float | None
    temperature: float | None


class JobGpu(NamedTuple):
    """A GPU or MIG instance of a job."""

    gpu: GpuRow
    usual: Usual
    is_slow: bool
    draws_little: bool
    """Whether its power is much lower than that of others of its model."""
    others: tuple[SafeText, ...]
    """Other users of it: processes outside the job by user and PID, else users."""


def job_key(host: FleetHost, device: FleetDevice) -> JobKey | None:
    """Return the key of a device's job, in its host's cluster; None for none."""
    return None if device.job is None else (host.cluster, device.job)


def known_key(host: FleetHost, job: str, known: Container[JobKey]) -> JobKey:
    """Return the key of a host's job among the known ones.

    A job of unknown cluster, as in an older document, may be on any host.
    """
    key = host.cluster, job
    if key in known:
        # Nearly all; called for each device at each refresh.
        return key
    anywhere = None, job
    return anywhere if anywhere in known else key


def has_job(host: FleetHost, device: FleetDevice, job: JobKey) -> bool:
    """Whether a device has a job; one of unknown cluster may be on any host."""
    return device.job == job[1] and job[0] in (None, host.cluster)


def usual_of(rows: Iterable[GpuRow]) -> Usual:
    """Return what is usual among some GPUs of a job."""
    busy = [row.device for row in rows if row.device.status in COMPUTES]

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
    """Return the GPUs of a job; without its user, other holders are unknown."""
    paces = paces_of(rows)
    slow = {_key(row) for pace in paces for row in pace.slow}
    by_model = grouped((row.device.name, row) for row in rows)
    usual = {name: usual_of(some) for name, some in by_model.items()}
    compared = (pace.busy[0].device.name for pace in paces)
    low_power = {name: _LOW_POWER * (usual[name].power_mw or 0) for name in compared}
    return [
        JobGpu(
            row,
            usual[row.device.name],
            _key(row) in slow,
            row.device.status in COMPUTES
            and (row.device.power_usage_mw or inf) < low_power.get(row.device.name, 0),
            () if job is None else tuple(_others(row, job)),
        )
        for row in rows
    ]


def owner_of(name: str, rows: Sequence[GpuRow]) -> SafeText | None:
    """Return the owner of a job by its processes, else its GPUs' users; None if unclear."""
    hosts = {row.host.key: row.host for row in rows}
    running = (each for host in hosts.values() for each in host.processes or ())
    users = {each.username for each in running if each.job == name and each.username is not None}
    users = users or {user for row in rows for user in row.device.users}
    return users.pop() if len(users) == 1 else None


def _others(row: GpuRow, job: FleetJob) -> Iterator[SafeText]:
    """Yield processes of another job or user; then users without known processes.

    The owner's processes outside any job may be part of it: Slurm need not track by cgroup.
    """
    seen = {job.user}
    for each in row.host.processes or ():
        if row.device.uuid not in each.uuids or each.job in (job.id, job.number or job.id):
            continue
        if each.job is not None or (job.user and each.username not in (None, job.user)):
            seen.add(each.username)
            yield clean(f"{each.username or 'unknown'} PID {each.pid}")
    if job.user:
        yield from (user for user in row.device.users if user not in seen)


def _key(row: GpuRow) -> object:
    return row.host.key, row.device.key


def paces_of(rows: Sequence[GpuRow]) -> list[Pace]:
    """Return which GPUs of a job are slow by their clock, for each model.

    Models with too few computing GPUs are left out.
    """
    if len(rows) < _MIN_JOB:
        return []
    # A MIG instance has the clock of its GPU, but the name of a slice.
    gpus = [row for row in rows if row.device.parent_uuid is None]
    busy = [row for row in gpus if row.device.sm_clock_mhz and row.device.status in COMPUTES]
    by_model = grouped((row.device.name, row) for row in busy)
    return [_pace(some) for some in by_model.values() if len(some) >= _MIN_JOB]


def _pace(busy: list[GpuRow]) -> Pace:
    usual = median([row.device.sm_clock_mhz or 0 for row in busy])
    low = Bound("sm_clock_mhz", below=_SLOW_CLOCK * usual)
    slow = [row for row in busy if low.holds(row.device)]
    within = low, Bound("gpu_utilization_percent", IDLE_PERCENT)
    return Pace(busy, usual, slow if len(slow) * 4 <= len(busy) else [], within)
