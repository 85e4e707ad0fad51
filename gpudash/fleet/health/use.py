"""Rules about use: GPUs held idle, allocated and unused, or kept busy by what looks like a loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudash.analysis.activity import notable
from gpudash.analysis.health.rule import Symptom, number, rough_duration
from gpudash.fleet.health.survey import (
    MAX_EVIDENCE,
    Survey,
    check,
    end_job,
    enter,
    listed,
    rule,
    symptom,
    where,
)
from gpudash.fleet.jobs import known_key
from gpudash.fleet.lasting import RESTS
from gpudash.fleet.summary import GpuRow, count_gpus, gpu_of
from gpudash.fleet.users import kept_busy_within, looks_kept_busy
from gpudash.model.fleet import JobKey
from gpudash.model.state import BUSY, HELD
from gpudash.model.units import counted, grouped

HELD_IDLE = rule(110, RESTS, "GPUs with memory in use that have not computed for an hour")
ALLOCATED_UNUSED = rule(
    120, "allocated-unused", "GPUs that a job has and nothing uses for 15 minutes"
)
KEPT_ALIVE = rule(140, "kept-alive", "full utilization without work in cores, memory and power")
IMBALANCED_JOB = rule(150, "imbalanced-job", "jobs that leave half of their GPUs or more idle")

_WASTED_SECONDS = 3600.0
"""GPUs held idle for longer than this are reported."""
_UNUSED_SECONDS, _IMBALANCED_SECONDS = 900.0, 900.0
_MIN_JOB = 2


@check
def held_idle(survey: Survey) -> Iterator[Symptom]:
    """GPUs whose memory is held and that have not computed for an hour, by user."""
    rows = [row for row in survey.held if _idle(row) >= _WASTED_SECONDS and not _is_unopened(row)]
    if not rows:
        return
    rows.sort(key=_idle, reverse=True)
    by_user: dict[str, list[GpuRow]] = {}
    for row in rows:
        job = row.device.job
        unknown = "unknown" if job is None else f"job {survey.job_name(row.host, job)}"
        for user in row.device.users or (unknown,):
            by_user.setdefault(user, []).append(row)
    ranked = sorted(by_user.items(), key=lambda each: -_hours(each[1]))
    people = [f"{user} {counted(_gpus(held), 'GPU')}" for user, held in ranked]
    known = len({user for row in rows for user in row.device.users})
    by = f" by {counted(known, 'user')}" if known else ""
    first = rows[0]
    end = end_job(first.host, first.device.job)
    yield symptom(
        HELD_IDLE,
        "warn",
        f"{counted(_gpus(rows), 'GPU')} held idle with memory in use for more than an hour{by}, "
        f"at least {_hours(rows):,.0f} GPU-hours so far{_money(survey, rows)}: "
        f"{listed(people, 'user')}",
        f"The longest is on {first.host.name}: see what holds it: {enter(first.host)}"
        + ("" if end is None else f", or end its job: {end}")
        + _unpriced(survey, rows),
        rows,
        evidence=[
            number("idle_gpu_hours", round(_hours(held), 1), user)
            for user, held in ranked[:MAX_EVIDENCE]
        ],
        ages=map(survey.rest, rows),
    )


def _idle(row: GpuRow) -> float:
    return row.device.idle_seconds or 0.0


def _gpus(rows: Sequence[GpuRow]) -> int:
    return count_gpus(rows).total()


def _longest(rows: Sequence[GpuRow]) -> list[GpuRow]:
    """Return each GPU, or its instance that has been idle longest."""
    found = {(row.host.key, gpu_of(row.device)): row for row in sorted(rows, key=_idle)}
    return list(found.values())


def _hours(rows: Sequence[GpuRow]) -> float:
    return sum(map(_idle, _longest(rows))) / 3600


def _is_unopened(row: GpuRow) -> bool:
    """Whether a device is allocated to a job, and has no memory in use."""
    device = row.device
    used = device.memory_used_bytes
    if device.job is None or used is None:
        return False
    return not notable(used, device.memory_total_bytes)


def _money(survey: Survey, rows: Sequence[GpuRow]) -> str:
    """Return the cost of idle time at the configured prices, empty if there are none."""
    costs = [
        price * _idle(row) / 3600
        for row in _longest(rows)
        if (price := survey.price(row.device.name)) is not None
    ]
    return f", {sum(costs):,.0f} at the configured prices" if costs else ""


def _unpriced(survey: Survey, rows: Sequence[GpuRow]) -> str:
    """Return how to configure missing prices, empty if there are none."""
    names = (row.device.name for row in rows if survey.price(row.device.name) is None)
    name = next(filter(None, names), None)
    return "" if name is None else f". {name} has no price: set prices under [fleet]"


@check
def allocated_unused(survey: Survey) -> Iterator[Symptom]:
    """GPUs that a job was given and that nothing uses: no memory, no utilization."""
    by_job: dict[JobKey, list[GpuRow]] = {}
    for row in survey.held:
        job = row.device.job
        if job is not None and _is_unopened(row) and _idle(row) >= _UNUSED_SECONDS:
            by_job.setdefault(known_key(row.host, job, survey.jobs), []).append(row)
    for key, rows in sorted(by_job.items(), key=lambda each: -_hours(each[1])):
        users, name = rows[0].device.users, survey.job_name(rows[0].host, key[1])
        owner = f" of {users[0]}" if users else ""
        longest = max(map(_idle, rows))
        end = end_job(rows[0].host, key[1])
        given = _gpus(survey.by_job.get(key, rows))
        yield symptom(
            ALLOCATED_UNUSED,
            "warn",
            f"{_gpus(rows)} of {counted(given, 'GPU')} of job {name}{owner} held idle for "
            f"at least {rough_duration(longest)}: no memory, no utilization: {where(rows)}"
            f"{_money(survey, rows)}",
            f"See whether it still works on them: {enter(rows[0].host)}"
            + ("" if end is None else f"; to end it: {end}"),
            rows,
            subject=key,
            evidence=[number("idle_gpu_hours", round(_hours(rows), 1), f"job {name}")],
            ages=map(survey.rest, rows),
        )


@check
def imbalanced(survey: Survey) -> Iterator[Symptom]:
    """Jobs that compute on some of their GPUs, and have left half of them or more idle."""
    for key, rows in survey.by_job.items():
        if len(rows) < _MIN_JOB:
            continue
        busy = [row for row in rows if row.device.status == BUSY.id]
        idle = [
            row
            for row in rows
            if row.device.status == HELD.id and _idle(row) >= _IMBALANCED_SECONDS
        ]
        idle = [*filter(survey.covers_gpu, idle)]
        if not busy or not idle or 2 * _gpus(idle) < _gpus(rows):
            continue
        users, job = busy[0].device.users, survey.job_name(busy[0].host, key[1])
        owner = f" of {users[0]}" if users else ""
        yield symptom(
            IMBALANCED_JOB,
            "info",
            f"Job {job}{owner} computes on {_gpus(busy)} of its {_gpus(rows)} GPUs; idle for "
            f"{rough_duration(min(map(_idle, idle)))} or more: {where(idle)}",
            f"See whether it was started for fewer GPUs than it asked for: {enter(busy[0].host)}",
            idle,
            subject=key,
            fields=["gpu_utilization_percent"],
            ages=map(survey.rest, idle),
        )


@check
def kept_alive(survey: Survey) -> Iterator[Symptom]:
    """GPUs that look kept busy: full utilization, and next to no work in cores, memory and power.

    One sample cannot prove it, so the words are careful.
    """
    by_user = grouped(
        (", ".join(row.device.users), row)
        for rows in survey.computing.values()
        for row in rows
        if looks_kept_busy(row.device) and survey.covers_gpu(row)
    )
    for user, found in by_user.items():
        yield symptom(
            KEPT_ALIVE,
            "info",
            f"{counted(len(found), 'GPU')}{f' of {user}' if user else ''} look kept busy rather "
            f"than used{_hourly(survey, found)}: full utilization, but hardly any work in cores, "
            f"memory and power: {where(found)}",
            "Watch it for an hour and ask before acting; some programs do work like this: "
            f"{enter(found[0].host)}",
            found,
            subject=user,
            fields=["gpu_utilization_percent", "tensor_active_percent", "dram_active_percent"],
            ages=[survey.age(KEPT_ALIVE, row, kept_busy_within(row.device)) for row in found],
        )


def _hourly(survey: Survey, rows: Sequence[GpuRow]) -> str:
    """Return the hourly cost of GPUs at the configured prices, empty if there are none."""
    prices = [price for row in rows if (price := survey.price(row.device.name)) is not None]
    return f", {sum(prices):,.2f} an hour at the configured prices" if prices else ""
