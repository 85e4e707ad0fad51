"""The users of GPUs added up over many hosts, or over those that a filter leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from gpudash.analysis.usage import Holdings
from gpudash.fleet.jobs import known_key
from gpudash.fleet.lasting import Bound
from gpudash.fleet.summary import gpu_of, worse
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetUser, JobKey
from gpudash.model.state import BUSY, HELD
from gpudash.model.text import SafeText
from gpudash.model.units import sum_known

_KEPT = (
    Bound("tensor_active_percent", below=1.0),
    Bound("dram_active_percent", below=2.0),
    Bound("gpu_utilization_percent", 90.0),
)
_KEPT_POWER = 0.4
"""Of the power limit."""
Price = Callable[[str | None], float | None]
"""Returns the hourly price of a GPU by its name, None if none is configured."""


def looks_kept_busy(device: FleetDevice) -> bool:
    """Whether a busy GPU is fully utilized but does next to no work.

    One sample cannot prove it: some programs do work like this.
    """
    is_busy = device.status == BUSY.id and device.parent_uuid is None
    # Hardly any busy GPU passes the first bound.
    is_kept = is_busy and all(bound.holds(device) for bound in _KEPT)
    return is_kept and all(bound.holds(device) for bound in kept_busy_within(device))


def kept_busy_within(device: FleetDevice) -> tuple[Bound, ...]:
    """Return the bounds of a GPU that looks kept busy; few exporters report a power limit."""
    limit = device.enforced_power_limit_mw
    if not limit or device.power_usage_mw is None:
        return _KEPT
    return (*_KEPT, Bound("power_usage_mw", below=_KEPT_POWER * limit))


class Prices:
    """A `Price` that matches parts of names."""

    def __init__(self, by_part: Mapping[str, float] | None = None) -> None:
        self._prices = [(part.casefold(), price) for part, price in (by_part or {}).items()]
        # The longest matching part is the most specific.
        self._prices.sort(key=lambda each: -len(each[0]))
        self._known: dict[str | None, float | None] = {}

    def __call__(self, name: str | None) -> float | None:
        """Return the hourly price of a GPU by its name, None if none is configured."""
        if name not in self._known:
            text = (name or "").casefold()
            found = (price for part, price in self._prices if part in text)
            self._known[name] = next(found, None)
        return self._known[name]


def users_of(
    hosts: Iterable[tuple[FleetHost, Sequence[FleetDevice]]],
    jobs: Iterable[FleetJob],
    price: Price,
) -> tuple[FleetUser, ...]:
    """Return the users of these devices, with their jobs, the most wasteful first."""
    totals: dict[SafeText, _User] = {}
    jobs = tuple(jobs)
    known = {job.key for job in jobs}
    for number, (host, devices) in enumerate(hosts):
        divided = {each.parent_uuid for each in host.devices if each.parent_uuid is not None}
        for device in devices:
            if device.parent_uuid is None and device.uuid in divided:
                continue
            gpu = number, gpu_of(device)
            own = None if device.job is None else known_key(host, device.job, known)
            for name in device.users:
                user = totals.get(name)
                if user is None:
                    user = totals[name] = _User()
                user.add_device(host, device, gpu, own, price)
    for job in jobs:
        if job.user is not None and job.user in totals:
            totals[job.user].jobs.add(job.key)
    users = [user.total(name) for name, user in totals.items()]
    return tuple(sorted(users, key=_waste))


def _waste(user: FleetUser) -> tuple[float, int, int, int, str]:
    """Return a sort key that puts the most wasteful user first."""
    idle, held, kept = user.idle_gpu_hours or 0.0, user.held_idle, user.kept_busy
    return -idle, -held, -kept, -user.devices, user.name or ""


class _User(Holdings):
    """The GPUs of one user added up over all hosts."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts = 0
        self._host: FleetHost | None = None
        self._does: dict[Hashable, str] = {}
        self._idle: dict[Hashable, tuple[float, float | None]] = {}
        """For GPUs held idle: the seconds, and the hourly price."""
        self._kept: list[float | None] = []
        """The hourly price of each GPU that looks kept busy."""

    def add_device(
        self,
        host: FleetHost,
        device: FleetDevice,
        gpu: Hashable,
        job: JobKey | None,
        price: Price,
    ) -> None:
        """Add a GPU or a MIG instance: each GPU counts once, by the worst of its instances."""
        memory = device.memory_used_bytes if len(device.users) == 1 else None
        is_first = self.add(gpu, memory, job)
        self._does[gpu] = device.status if is_first else worse(self._does[gpu], device.status)
        if device.status == HELD.id:
            seconds, longest = device.idle_seconds or 0.0, self._idle.get(gpu)
            if longest is None or seconds > longest[0]:
                self._idle[gpu] = seconds, price(device.name)
        if looks_kept_busy(device):
            self._kept.append(price(device.name))
        if host is not self._host:
            self._host = host
            self.hosts += 1

    def total(self, name: SafeText) -> FleetUser:
        """Return the sums."""
        does, kept = Counter(self._does.values()), sum_known(self._kept)
        costs = [hour * idle / 3600 for idle, hour in self._idle.values() if hour is not None]
        idle_seconds = sum(seconds for seconds, _ in self._idle.values())
        return FleetUser(
            name=name,
            devices=self.devices,
            memory_used_bytes=self.memory_used_bytes,
            jobs=len(self.jobs),
            hosts=self.hosts,
            busy=does[BUSY.id],
            held_idle=does[HELD.id],
            idle_gpu_hours=round(idle_seconds / 3600, 2),
            idle_cost=round(sum(costs), 2) if costs else None,
            kept_busy=len(self._kept),
            kept_cost_per_hour=None if kept is None else round(kept, 2),
        )
