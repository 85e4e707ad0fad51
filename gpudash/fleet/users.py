"""The users of GPUs of many hosts, added up: of all hosts, or of what a filter leaves of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from gpudash.analysis.usage import Holdings
from gpudash.fleet.summary import gpu_of, worse
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, FleetUser
from gpudash.model.state import BUSY, HELD
from gpudash.model.text import SafeText

Price = Callable[[str | None], float | None]
"""Returns the price of an hour of a GPU by its name, None if none is configured."""


class Prices:
    """A `Price` by parts of names."""

    def __init__(self, by_part: Mapping[str, float] | None = None) -> None:
        self._prices = [(part.casefold(), price) for part, price in (by_part or {}).items()]
        # The longest part that fits is the most precise one.
        self._prices.sort(key=lambda each: -len(each[0]))
        self._known: dict[str | None, float | None] = {}

    def __call__(self, name: str | None) -> float | None:
        """Return the price of an hour of a GPU by its name, None if none is configured."""
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
    """Return the users of these devices of hosts, who wastes most first, with their jobs."""
    totals: dict[SafeText, _User] = {}
    for number, (host, devices) in enumerate(hosts):
        divided = {each.parent_uuid for each in host.devices if each.parent_uuid is not None}
        for device in devices:
            if device.parent_uuid is None and device.uuid in divided:
                continue
            gpu = number, gpu_of(device)
            for name in device.users:
                user = totals.get(name)
                if user is None:
                    user = totals[name] = _User()
                user.add_device(host, device, gpu, price)
    for job in jobs:
        if job.user is not None and job.user in totals:
            totals[job.user].jobs.add(job.id)
    users = [user.total(name) for name, user in totals.items()]
    return tuple(sorted(users, key=_waste))


def _waste(user: FleetUser) -> tuple[float, int, int, str]:
    """Return what the user who wastes most has least of."""
    return -(user.idle_gpu_hours or 0.0), -user.held_idle, -user.devices, user.name or ""


class _User(Holdings):
    """The GPUs of one user over all hosts, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts = 0
        self._host: FleetHost | None = None
        self._does: dict[Hashable, str] = {}
        self._idle: dict[Hashable, tuple[float, float | None]] = {}
        """Of the GPUs that they hold idle, for how many seconds and at which price of an hour."""

    def add_device(self, host: FleetHost, device: FleetDevice, gpu: Hashable, price: Price) -> None:
        """Add a GPU, or a MIG instance: those of one GPU count once, by the worst of them."""
        memory = device.memory_used_bytes if len(device.users) == 1 else None
        is_first = self.add(gpu, memory, device.job)
        self._does[gpu] = device.status if is_first else worse(self._does[gpu], device.status)
        if device.status == HELD.id:
            seconds, longest = device.idle_seconds or 0.0, self._idle.get(gpu)
            if longest is None or seconds > longest[0]:
                self._idle[gpu] = seconds, price(device.name)
        if host is not self._host:
            self._host = host
            self.hosts += 1

    def total(self, name: SafeText) -> FleetUser:
        """Return the sums."""
        does = Counter(self._does.values())
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
        )
