"""The GPUs of one job beside each other: what is usual among them, and which are slow."""

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
"""What a GPU does that computes, also a slow one."""
_SLOW_CLOCK, _LOW_POWER = 0.85, 0.75
"""Of what is usual in the job, below which a GPU that computes is slow. Utilization tells
nothing: one that waits for the others spins."""


class Pace(NamedTuple):
    """The GPUs of a job that compute and may be compared, of one model, and which are slow."""

    busy: list[GpuRow]
    clock_mhz: float
    """Their median."""
    slow: list[GpuRow]
    """None where so many are that it is usual."""
    slow_within: tuple[Bound, ...]
    """What holds of those while they are slow: they compute, at a low clock."""


class Usual(NamedTuple):
    """The medians of the GPUs of one model of a job that compute; None where none reports it."""

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
    """Whether its power is much lower than that of the others of its model."""
    others: tuple[SafeText, ...]
    """What is on it and not of the job: its processes by user and PID, else its users."""


def job_key(host: FleetHost, device: FleetDevice) -> JobKey | None:
    """Return what identifies the job of a device, that of its host's cluster; None for none."""
    return None if device.job is None else (host.cluster, device.job)


def known_key(host: FleetHost, job: str, known: Container[JobKey]) -> JobKey:
    """Return what identifies a job of a host among those that are known.

    One whose cluster is not known, as in an older document, is that of any host.
    """
    key = host.cluster, job
    if key in known:
        # Nearly all, of each device at each refresh.
        return key
    anywhere = None, job
    return anywhere if anywhere in known else key


def has_job(host: FleetHost, device: FleetDevice, job: JobKey) -> bool:
    """Whether a device has a job; one whose cluster is not known is that of any host."""
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
    """Return the GPUs of a job; whose they are beside it is not known without its user."""
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
    """Return whose a job is by its processes, else by the users of its GPUs; None if unclear."""
    hosts = {row.host.key: row.host for row in rows}
    running = (each for host in hosts.values() for each in host.processes or ())
    users = {each.username for each in running if each.job == name and each.username is not None}
    users = users or {user for row in rows for user in row.device.users}
    return users.pop() if len(users) == 1 else None


def _others(row: GpuRow, job: FleetJob) -> Iterator[SafeText]:
    """Yield processes that are of another job or user; then users of whom none is known.

    What a job's owner runs in no job may be of it: Slurm need not track processes by cgroups.
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
    """Return which GPUs of a job are slow by their clock, each model apart.

    Those of which too few compute are left out.
    """
    if len(rows) < _MIN_JOB:
        return []
    # A MIG instance has the clock of its GPU, and the name of a slice of it.
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
