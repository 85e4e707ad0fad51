"""The use of GPUs of one or many hosts, from their kept data."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import groupby, pairwise
from statistics import median

from msgspec.structs import replace

from gpudash.analysis.minutes import TAKEN, Minutes, does
from gpudash.feed.instants import Span
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.feed.supervisor import Output, wait
from gpudash.fleet import ssh
from gpudash.model.errors import UsageError, WireError
from gpudash.model.fleet import FleetDevice, FleetHost, FleetSnapshot
from gpudash.model.report import (
    Minute,
    MinuteDevice,
    MinuteUse,
    Report,
    decode,
    decode_minute,
)
from gpudash.model.state import state_of
from gpudash.model.text import SafeText
from gpudash.model.units import grouped

_MINUTE = timedelta(minutes=1)
_TOLERANCE = 1.0
"""Seconds by which two clocks may differ over a minute."""
_START = b'{"report"'
_ANSWER_SECONDS, _WAIT_SECONDS = 120.0, 1.0
"""For a whole answer: adding up a month of a large host takes a minute."""


def asked_reports(
    hosts: Iterable[str], words: Sequence[str], *, config: str | None, gpudash: str | None
) -> Iterator[tuple[str, Report | str]]:
    """Run gpudash with these arguments on hosts, several at once; yield reports or errors.

    `config` is ssh's -F, `gpudash` its path there. Raises UsageError if ssh cannot be used.
    """
    waiting = deque(
        (host, ssh.gpudash_command(host, *words, config=config, gpudash=gpudash, terminal=False))
        for host in hosts
    )
    running: list[tuple[str, Output]] = []
    try:
        while waiting or running:
            while waiting and len(running) < ssh.HANDSHAKES:
                host, argv = waiting.popleft()
                running.append((host, Output(argv, _ANSWER_SECONDS)))
                running[-1][1].start()
            seconds = min(each.due_in() for _, each in running)
            wait(min(seconds, _WAIT_SECONDS), *(each.descriptor for _, each in running))
            for host, each in running:
                each.advance()
                if not each.is_running:
                    yield host, each.failure or _answered(each.lines)
            running = [(host, each) for host, each in running if each.is_running]
    finally:
        for _, each in running:
            each.close()


def _answered(lines: Iterable[bytes]) -> Report | str:
    """Return the report among lines that may include a banner; else the error."""
    found = [line for line in lines if line.startswith(_START)]
    try:
        return decode(found[-1]) if found else "answers without a report"
    except WireError as error:
        return str(error)


def steady_minute(host: FleetHost, seconds: float, taken_at: datetime) -> Minute:
    """Return the use of a host in the seconds before an instant, if that was constant.

    The use of MIG instances is in the rows of their GPUs.
    """
    from gpudash.fleet.reduce import Reducer

    (host,) = Reducer().reduce(FleetSnapshot(taken_at=taken_at, hosts=(host,))).hosts
    devices, jobs = list[MinuteDevice](), list[MinuteUse]()
    for position, gpu in enumerate(each for each in host.devices if each.parent_uuid is None):
        memory, state, holders = gpu.memory_used_bytes, state_of(gpu.status), _holders(host, gpu)
        seen, work = seconds if gpu.state == "ok" else 0.0, does(gpu, state)
        held = seen if gpu.job is not None or holders or state in TAKEN else 0.0
        idle, unknown = held if work == "idle" else 0.0, held if work == "unknown" else 0.0
        energy = None if gpu.power_usage_mw is None else gpu.power_usage_mw * seconds
        uuid, label = SafeText(gpu.key), gpu.label
        sums = held, held, idle, unknown, memory, energy, seen, uuid
        devices.append(MinuteDevice(*sums, label or SafeText(str(gpu.index)), gpu.name))
        part = 1 / max(1, len(holders))
        energy = None if energy is None else energy * part
        shared = held, held * part, idle, unknown, memory, energy, position
        jobs += [
            MinuteUse(*shared, user, job)
            for user, job in (holders or {None: gpu.job}).items()
            if held
        ]
    return Minute(
        taken_at=taken_at,
        host=host.name,
        seconds=seconds,
        devices=tuple(devices),
        users=tuple([replace(each, job=None) for each in jobs]),
        jobs=tuple(jobs),
    )


def _holders(host: FleetHost, gpu: FleetDevice) -> dict[SafeText | None, SafeText | None]:
    """Return the holders of a GPU, by its job or a process, each with their job."""
    found: dict[SafeText | None, SafeText | None] = dict.fromkeys(gpu.users, gpu.job)
    for each in host.processes or ():
        if each.username is not None and gpu.uuid in each.uuids:
            found.setdefault(each.username, each.job)
    return found


def of_servers(known: Iterable[Iterable[Minute]]) -> Iterator[Minute]:
    """Yield minutes known to several servers: for each host, those of the one that saw most.

    Hosts of one name without a common GPU are different.
    """
    hosts: dict[tuple[SafeText | None, SafeText], list[list[Minute]]] = {}
    for found in known:
        by_name = grouped(((each.cluster, each.host), each) for each in found)
        for name, some in by_name.items():
            others = hosts.setdefault(name, [])
            gpus = _gpus(some)
            same = next((n for n, e in enumerate(others) if not gpus.isdisjoint(_gpus(e))), None)
            if same is None:
                others.append(some)
            elif _seen(some) > _seen(others[same]):
                others[same] = some
    for each_of in hosts.values():
        for minutes in each_of:
            yield from minutes


def _gpus(minutes: Iterable[Minute]) -> set[SafeText]:
    return {device.key for minute in minutes for device in minute.devices}


def _seen(minutes: Iterable[Minute]) -> float:
    return sum(each.seconds for each in minutes)


def recorded_span(recording: Recording) -> Span:
    """Return the span with known minutes: numbers may go back further than samples."""
    found = [recording.first, recording.last]
    if recording.numbers is not None:
        found += [recording.numbers.first, recording.numbers.last]
    return Span(min(each.taken_at for each in found), max(each.taken_at for each in found))


def recorded_minutes(recording: Recording, since: datetime, until: datetime) -> Iterator[Minute]:
    """Yield the minutes of a recording of one host; raises UsageError for one of many.

    Minutes without numbers, or with lost ones, are computed from samples. A minute that
    begins before `since` is left out.
    """
    if recording.first.is_fleet:
        raise UsageError(f"{recording.path} is a recording of many hosts: a report is of one")
    numbers, behind = recording.numbers, since
    for sample in () if numbers is None else numbers.between(since, until):
        try:
            minute = decode_minute(sample.line)
        except WireError:
            # The readable part of a damaged recording still counts.
            continue
        begins = minute.taken_at - _MINUTE
        if begins - behind > _MINUTE:
            yield from _added_up(recording.between(behind, begins))
        behind = minute.taken_at
        if minute.seconds <= (minute.taken_at - since).total_seconds() + _TOLERANCE:
            yield minute
    yield from _added_up(recording.between(behind, until))


def _added_up(samples: Iterable[Sample]) -> Iterator[Minute]:
    """Yield the minutes that samples add up to, as far apart as most samples of a chunk are."""
    sums = Minutes(0.0)
    for _, group in groupby(samples, key=lambda each: each.position[:2]):
        chunk = list(group)
        steps = [(b.taken_at - a.taken_at).total_seconds() for a, b in pairwise(chunk)]
        if steps:
            sums.interval_seconds = median(steps)
        for sample in chunk:
            # The readable part of a damaged recording still counts.
            with suppress(WireError):
                if (minute := sums.add(sample.snapshot())) is not None:
                    yield minute
    if (minute := sums.end()) is not None:
        yield minute
