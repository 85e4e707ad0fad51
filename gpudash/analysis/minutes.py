"""Samples of a host aggregated to minutes: who held its GPUs, and the numbers of its charts.

The time between two samples counts for what the later one shows, as its utilization is of that
time. Nothing is extrapolated: a time of more than both three intervals and 15 seconds is a gap,
which is not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from gpudash.analysis.activity import load_percent
from gpudash.analysis.health.findings import examined, statuses
from gpudash.analysis.history.metrics import device_metrics, device_row
from gpudash.analysis.history.tracks import Row
from gpudash.analysis.labels import owner
from gpudash.analysis.status import is_holder
from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import AnyDevice, Device
from gpudash.model.process import ProcessDevice
from gpudash.model.report import (
    Minute,
    MinuteDevice,
    MinuteFinding,
    MinuteUse,
    charted,
    highest,
    rounded_mean,
)
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot, gpus_unknown
from gpudash.model.state import BUSY, HELD, IN_USE, State
from gpudash.model.text import SafeText, clean
from gpudash.model.units import grouped, sum_known

_GAP_INTERVALS, _GAP_SECONDS = 3, 15.0
TAKEN = frozenset({BUSY, HELD, IN_USE})
"""Statuses of a held device, even if its holder is unknown."""

Does = Literal["idle", "unknown", "works"]
_Who = tuple[SafeText | None, SafeText | None]
"""A user, and one of their jobs."""
_Key = tuple[str, SafeText | None, SafeText | None]
"""A GPU, a user, and one of their jobs, None for all."""


class Minutes:
    """Aggregates samples of one host, one after the other."""

    def __init__(self, interval_seconds: float) -> None:
        """`interval_seconds` is the usual time between two samples."""
        self.interval_seconds = interval_seconds
        self._before: Snapshot | None = None
        self._sums: _Sums | None = None

    def add(self, snapshot: Snapshot) -> Minute | None:
        """Add a sample; return the minute that it completes, None within one."""
        if snapshot.brief:
            return None
        if gpus_unknown(snapshot):
            self._before = None
            return None
        at = snapshot.taken_at
        is_other = self._sums is not None and _minute(self._sums.taken_at) != _minute(at)
        ended = self.end() if is_other else None
        self._sums = self._sums or _Sums(snapshot)
        seconds = self._seconds(snapshot)
        self._sums.add(snapshot, seconds, _energy(self._before, snapshot) if seconds else {})
        self._before = snapshot
        return ended

    def end(self) -> Minute | None:
        """Return the unfinished minute, None for none; the next sample begins another."""
        sums, self._sums = self._sums, None
        return None if sums is None else sums.minute()

    def _seconds(self, snapshot: Snapshot) -> float:
        """Return how long ago the last sample was taken, 0 if that is too long ago.

        A changed clock, or a reboot of the host, is a gap too.
        """
        if self._before is None:
            return 0.0
        before, now = self._before.host.uptime_seconds, snapshot.host.uptime_seconds
        by_wall = (snapshot.taken_at - self._before.taken_at).total_seconds()
        seconds = by_wall if before is None or now is None else now - before
        longest = max(_GAP_SECONDS, _GAP_INTERVALS * self.interval_seconds)
        return seconds if seconds > 0 and max(seconds, by_wall) <= longest else 0.0


def _minute(at: datetime) -> int:
    return int(at.timestamp() // 60)


def _energy(before: Snapshot | None, now: Snapshot) -> Mapping[str, int]:
    """Return the energy used by GPUs between two samples; none if a counter was reset."""
    if before is None:
        return {}
    counters = {each.key: each.total_energy_mj for each in before.devices}
    return {
        each.key: each.total_energy_mj - counter
        for each in now.devices
        if each.total_energy_mj is not None
        and (counter := counters.get(each.key)) is not None
        and counter <= each.total_energy_mj
    }


class _Part(NamedTuple):
    """The processes of a job of one user on one device."""

    device: Device
    user: SafeText | None
    job: SafeText | None
    does: Does
    share: float
    """Of the GPU; the parts of a GPU add up to 1."""
    memory_bytes: int | None
    sm_percent: float | None
    """None if the driver does not report it."""


class _Spent:
    """The values of a `Use`, accumulated."""

    __slots__ = ("energy", "held", "idle", "peak", "share", "unknown")

    def __init__(self) -> None:
        self.held = self.share = self.idle = self.unknown = 0.0
        self.peak: int | None = None
        self.energy: float | None = None

    def add(self, parts: Sequence[_Part], seconds: float) -> None:
        """Add the time in which these parts of a GPU were held by a user, a job or anyone."""
        self.held += seconds
        self.share += seconds * sum(part.share for part in parts)
        does = _together(parts)
        if does == "idle":
            self.idle += seconds
        elif does == "unknown":
            self.unknown += seconds

    def add_memory(self, amount: int | None) -> None:
        """Keep the peak of the memory in use at one time."""
        if amount is not None:
            self.peak = max(self.peak or 0, amount)

    def add_energy(self, amount: float | None) -> None:
        """Add energy in mJ, None if unknown."""
        if amount is not None:
            self.energy = (self.energy or 0.0) + amount

    @property
    def values(self) -> tuple[float, float, float, float, int | None, float | None]:
        """The values in the order of `Use`."""
        seconds = [round(each, 3) for each in (self.held, self.share, self.idle, self.unknown)]
        energy = None if self.energy is None else round(self.energy)
        return seconds[0], seconds[1], seconds[2], seconds[3], self.peak, energy


class _DeviceSums:
    """The chart values of one device, and its holding times."""

    __slots__ = ("device", "rows", "seen", "spent")

    def __init__(self, device: Device) -> None:
        self.device = device
        self.rows: list[Row] = []
        self.seen, self.spent = 0.0, _Spent()

    def add(self, device: Device, seconds: float, energy: float | None) -> None:
        """Add a sample, and the time before it in which it is known whether it was held."""
        self.device = device
        self.rows.append(device_row(device))
        self.seen += seconds
        self.spent.add_memory(device.memory_used_bytes)
        self.spent.add_energy(energy)

    @property
    def columns(self) -> list[list[float]]:
        """The known values of each of `device_metrics`."""
        columns = zip(*self.rows, strict=True)
        return [[each for each in column if each is not None] for column in columns]

    def minute(self, positions: Mapping[str, int]) -> MinuteDevice:
        """Return the sums; `positions` are those of devices by key."""
        device = self.device
        return MinuteDevice(
            *self.spent.values,
            round(self.seen, 3),
            SafeText(device.key),
            device.label or SafeText(str(device.index)),
            device.name,
            positions.get(device.parent_uuid or ""),
        )


class _Sums:
    """The sums of one minute."""

    def __init__(self, first: Snapshot) -> None:
        self.host, self.taken_at = first.host.hostname, first.taken_at
        self._seconds = 0.0
        self._devices: dict[str, _DeviceSums] = {}
        self._users: dict[_Key, _Spent] = {}
        self._jobs: dict[_Key, _Spent] = {}
        self._findings: dict[tuple[str, FindingLevel, str | None], float] = {}

    def add(self, snapshot: Snapshot, seconds: float, energy: Mapping[str, int]) -> None:
        """Add a sample and the time before it; `energy` is that of GPUs by key."""
        self.taken_at = snapshot.taken_at
        self._seconds += seconds
        for device in snapshot.devices:
            sums = self._devices.get(device.key)
            if sums is None:
                sums = self._devices[device.key] = _DeviceSums(device)
            is_seen = not is_unlisted(device, snapshot)
            sums.add(device, seconds if is_seen else 0.0, energy.get(device.key))
        for gpu, parts in _parts(snapshot).items():
            self._add_gpu(gpu, parts, seconds, energy.get(gpu))
        for finding in snapshot.findings or () if seconds else ():
            for key in _concerned(finding, self._devices):
                what = finding.rule, finding.level, key
                self._findings[what] = self._findings.get(what, 0.0) + seconds

    def _add_gpu(
        self, gpu: str, parts: Sequence[_Part], seconds: float, energy: float | None
    ) -> None:
        """Add the holding of a GPU: to itself and its instances, to users and jobs."""
        devices = {**grouped((part.device.key, part) for part in parts), gpu: parts}
        for key, found in devices.items():
            self._devices[key].spent.add(found, seconds)
        known = [part.sm_percent for part in parts]
        total = 0 if None in known else sum_known(known)
        for sums, by_job in ((self._users, False), (self._jobs, True)):
            whose = grouped(
                ((gpu, part.user, part.job if by_job else None), part) for part in parts
            )
            for who, found in whose.items():
                spent = sums.get(who)
                if spent is None:
                    spent = sums[who] = _Spent()
                spent.add(found, seconds)
                spent.add_memory(sum_known(part.memory_bytes for part in found))
                if energy is not None:
                    weights = (
                        (part.sm_percent or 0) / total if total else part.share for part in found
                    )
                    spent.add_energy(energy * sum(weights))

    def minute(self) -> Minute:
        """Return the sums."""
        positions = {key: position for position, key in enumerate(self._devices)}
        devices = self._devices.values()
        of_each = zip(*(each.columns for each in devices), strict=True)
        columns = dict(zip(device_metrics(), of_each, strict=True)) if devices else {}
        known = {name: values for name, values in columns.items() if any(values)}
        return Minute(
            taken_at=self.taken_at,
            host=self.host,
            seconds=round(self._seconds, 3),
            devices=tuple(each.minute(positions) for each in devices),
            means=charted(known, rounded_mean),
            maxima=charted(known, highest),
            users=_uses(self._users, positions),
            jobs=_uses(self._jobs, positions),
            findings=tuple(
                MinuteFinding(
                    clean(rule), level, round(seconds, 3), None if key is None else positions[key]
                )
                for (rule, level, key), seconds in self._findings.items()
            ),
        )


def _uses(sums: Mapping[_Key, _Spent], positions: Mapping[str, int]) -> tuple[MinuteUse, ...]:
    return tuple(
        MinuteUse(*spent.values, positions[gpu], user, job)
        for (gpu, user, job), spent in sums.items()
        if spent.held
    )


class UserGpus(NamedTuple):
    """The GPUs that a user holds, counted as in minutes."""

    held: int = 0
    idle: int = 0
    unknown: int = 0
    """How many of these have an unknown activity."""
    shares: float = 0.0
    """The sum of the user's shares of GPUs."""


def gpus_of_users(snapshot: Snapshot) -> dict[SafeText | None, UserGpus]:
    """Return the holdings of each user that has any."""
    found: dict[SafeText | None, UserGpus] = {}
    for parts in _parts(examined(snapshot)).values():
        for user, own in grouped((part.user, part) for part in parts).items():
            held, idle, unknown, shares = found.get(user, UserGpus())
            does = _together(own)
            found[user] = UserGpus(
                held + 1,
                idle + (does == "idle"),
                unknown + (does == "unknown"),
                shares + sum(part.share for part in own),
            )
    return found


def held_gpus(snapshot: Snapshot) -> dict[str, Does]:
    """Return the keys of held GPUs, and what each does for all of its holders."""
    return {gpu: _together(parts) for gpu, parts in _parts(examined(snapshot)).items()}


def _together(parts: Iterable[_Part]) -> Does:
    """Return what a GPU does for the holder of these parts of it.

    A computing instance does not hide one that is held idle.
    """
    does = {part.does for part in parts}
    return "idle" if "idle" in does else "unknown" if "unknown" in does else "works"


def _parts(snapshot: Snapshot) -> dict[str, list[_Part]]:
    """Return by held GPU the holders of it and its instances, for each job of a user."""
    devices = {device.key: device for device in snapshot.devices}
    held: dict[str, dict[_Who, list[ProcessDevice]]] = {}
    for process in snapshot.processes:
        who = owner(process), None if process.job is None else clean(process.job.label)
        for share in process.devices:
            device = devices.get(share.uuid or "")
            if device is not None and is_holder(share, device):
                held.setdefault(device.key, {}).setdefault(who, []).append(share)
    states = statuses(snapshot)
    for key, device in devices.items():
        if key not in held and states[key] in TAKEN and not is_unlisted(device, snapshot):
            held[key] = {(None, None): []}
    gpus = {key: _gpu(devices[key], devices) for key in held}
    instances = Counter(gpus.values())
    found: dict[str, list[_Part]] = {}
    for key, by_who in held.items():
        work = does(devices[key], states[key])
        jobs = Counter([user for user, _ in by_who])
        found.setdefault(gpus[key], []).extend(
            _Part(
                devices[key],
                user,
                job,
                work,
                1 / instances[gpus[key]] / len(jobs) / jobs[user],
                sum_known(each.used_gpu_memory_bytes for each in shares),
                _sm_percent(shares),
            )
            for (user, job), shares in by_who.items()
        )
    return found


def _gpu(device: Device, devices: Mapping[str, object]) -> str:
    """Return the key of the GPU that a device is or belongs to, its own if that is absent."""
    parent = device.parent_uuid
    return device.key if parent is None or parent not in devices else parent


def _sm_percent(shares: Sequence[ProcessDevice]) -> int | None:
    """Return the SM use of processes, None if that of one is unknown."""
    known = [each.sm_utilization_percent for each in shares]
    return None if None in known else sum_known(known)


def does(device: AnyDevice, state: State) -> Does:
    """Return whether a held device computes, by its status."""
    if state is HELD:
        return "idle"
    return "unknown" if device.state != "ok" or load_percent(device) is None else "works"


def _concerned(finding: Finding, devices: Mapping[str, object]) -> list[str | None]:
    """Return the devices that a finding is about, by key; None for the host."""
    keys = [*finding.uuids, *(f"#{index}" for index in finding.indices)]
    return [key for key in keys if key in devices] or [None]
