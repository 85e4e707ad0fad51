"""What is known of all hosts at one instant, assembled from answers as they arrive.

A lost GPU or a host that is down has no series. So each device is remembered, see `memory`, and
since when it has not computed, and since when it has held memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpudash.analysis.activity import Rest, notable
from gpudash.analysis.health.rules.reliability import DAY_SECONDS
from gpudash.fleet.prometheus.dialects import (
    ENGINE,
    FIELDS,
    MEMORY,
    MEMORY_TOTAL,
    POWER,
    POWER_LIMIT,
    TEMPERATURE,
    UTILIZATION,
    Labels,
    Person,
    Series,
    dialects,
    host_name,
)
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import KnownDevice, KnownHost, Row, cluster_of, number_of
from gpudash.fleet.prometheus.memory import PARTIAL_SECONDS, Memory
from gpudash.fleet.prometheus.queries import SCRAPED_SECONDS
from gpudash.fleet.prometheus.scale import are_percent, scaled
from gpudash.model.device import DeviceState, device_label
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob, HostState
from gpudash.model.state import UNKNOWN, UNUSABLE
from gpudash.model.text import NAME_BYTES, SafeText, clean
from gpudash.model.units import counted

STALE_SECONDS = 120.0
"""Age at which a host counts as stale, if it is scraped once a minute or so."""
_PATIENCE, _RARELY = 2.5, 30.0
"""How many scrapes of a rarely scraped host may be late; its interval if unknown."""
_MIN_SCRAPES = 2
_SOME = 20
LONG_SECONDS = 3600.0
"""How far to look back at all devices, to see which of them have been held idle."""
_FIELD_SECONDS = 600.0
"""Age at which a value is no longer shown: most are queried more rarely than the main one."""
_FROZEN_SECONDS = 300.0

_OF_BOARD = (TEMPERATURE, POWER, POWER_LIMIT)
"""Values of the GPU that each of its MIG instances repeats."""
_STATIC = frozenset((MEMORY_TOTAL, POWER_LIMIT))
"""Values that hardly ever change are not dropped for their age."""
_USERS = frozenset(dialect.user_label for dialect in dialects())
_STATUS = {True: UNUSABLE.id, False: UNKNOWN.id}
"""Status of a GPU by whether it needs to be replaced; any other is decided elsewhere."""


class Picture:
    """Takes answers, and returns hosts and jobs; `now` is the server's time of the newest one."""

    def __init__(
        self,
        host_label: str | None = None,
        look_back_seconds: float = DAY_SECONDS,
        recorded: Mapping[str, str] | None = None,
    ) -> None:
        self.inventory = Inventory(host_label, recorded)
        self.memory = Memory(self.inventory, look_back_seconds)
        self.now = 0.0
        self.wrong_values = 0
        """How many values of the last main answer were not numbers, or impossible."""
        self._down: dict[tuple[str | None, str], str] = {}
        self._without: set[KnownHost] = set()
        """Hosts whose exporters answer but show no GPU."""
        self._field_at: dict[str, float] = {}

    def take_main(
        self, rows: list[Row], at: float, *, is_partial: bool, may_doubt: bool = False
    ) -> bool:
        """Store the utilization of all present devices; devices left out are lost.

        Return whether the answer is doubted, and thus not stored.
        """
        found = list(scaled(self.inventory, rows))
        if may_doubt and self.memory.is_doubtful({device for device, _, _ in found}):
            return True
        self.now = at
        self.wrong_values = 0
        for device, series, value in found:
            is_use = series.field in (UTILIZATION, ENGINE)
            if not is_use and device.seen_at == at:
                continue
            device.seen_at, device.is_rough = at, False
            used = value if is_use else None
            device.values[UTILIZATION] = used
            self.wrong_values += value is None
            device.idle.use(used, at)
        self.memory.take_answer(at, is_partial=is_partial)
        self._forget()
        return False

    def take_field(self, field: str, rows: list[Row], at: float) -> None:
        """Store one field of all devices."""
        self._clear(field)
        for device, _, value in scaled(self.inventory, rows, Series("", field, 1)):
            device.values[field] = value
        self._field_at[field] = at
        if field == POWER:
            self._take_power(at)

    def resume(self) -> None:
        """Restart counting after a time without answers."""
        for device in self.inventory.devices():
            device.idle, device.is_watched = Rest(), False

    def take_idle(self, rows: Iterable[Row], since: float) -> None:
        """Note devices that have not computed since an instant."""
        for device, _ in self._devices_of(rows):
            device.idle.extend(idle_at=since)

    def take_held(self, rows: Iterable[Row], since: float) -> None:
        """Note devices whose memory has been held since an instant."""
        for device, _ in self._devices_of(rows):
            device.idle.extend(held_at=since)
            rests = device.idle.seconds(self.now) is not None
            device.has_long_rested = rests and self.now - since > LONG_SECONDS / 2

    def take_worn(self, rows: Iterable[Row], _at: float) -> None:
        """Note devices that need to be replaced."""
        worn = {device for device, _ in self._devices_of(rows)}
        for device in self.inventory.devices():
            device.is_worn = device in worn

    def take_users(self, rows: Iterable[Row], _at: float) -> None:
        """Store the users whose processes run on each device."""
        users: dict[KnownDevice, set[str]] = {}
        for device, row in self.inventory.devices_of(rows):
            names = (text for label, text in row.labels.items() if label in _USERS and text)
            users.setdefault(device, set()).update(names)
        # A device that is gone keeps its users.
        for device in self._present(self.inventory.devices()):
            if not device.people:
                names_of = sorted(users.get(device, ()))
                device.users = tuple(clean(name, NAME_BYTES) for name in names_of)

    def take_ages(self, rows: Iterable[Row], at: float) -> None:
        """Store the time of each host's newest sample."""
        newest: dict[KnownHost, float] = {}
        for host, value, _ in self.inventory.hosts_of(rows):
            newest[host] = max(value, newest.get(host, 0.0))
        for host, value in newest.items():
            host.lag = max(0.0, at - value)

    @property
    def is_late(self) -> bool:
        """Whether the newest samples of some hosts are old, as after a start of the server.

        One host in twenty may stay late for ever, and causes no more frequent queries.
        """
        hosts = self.inventory.hosts.values()
        late = sum((host.lag or 0.0) > _PATIENCE * (host.interval or _RARELY) for host in hosts)
        return _SOME * late > len(hosts)

    def take_scrapes(self, rows: Iterable[Row], _at: float) -> None:
        """Store how often the targets of each job were scraped in a span."""
        counts = {}
        for row in rows:
            labels = row.labels
            counts[cluster_of(labels) or "", labels.get("job", "")] = row.number or 0.0
        for host in self.inventory.hosts.values():
            count = counts.get(host.target[:2], 0.0)
            host.interval = SCRAPED_SECONDS / count if count >= _MIN_SCRAPES else 0.0

    def take_frozen(self, rows: Iterable[Row], _at: float) -> None:
        """Note hosts whose exporters repeat themselves."""
        for host, _, _ in self.inventory.hosts_of(rows):
            host.is_frozen = True

    def given(self) -> list[KnownDevice]:
        """Return some devices that rest and whose job has had them since an unknown time."""
        self._take_holds(self.now)
        return self.memory.given()

    def resting(self) -> list[KnownHost]:
        """Return hosts with devices that are not computing."""
        hosts = self.inventory.hosts.values()
        return [
            host
            for host in hosts
            if any(each.idle.seconds(self.now) is not None for each in host.devices.values())
        ]

    def silent_instances(self) -> list[str]:
        """Return the exporters of hosts without any series."""
        hosts = self.inventory.hosts.values()
        silent = (each for each in hosts if not self._present(each.devices.values()))
        return sorted({each.target[2] for each in silent if each.target[2]})

    def take_targets(
        self, failing: Iterable[tuple[Labels, str | None]], answering: Iterable[Labels] = ()
    ) -> None:
        """Store the labels of targets that do not answer, and why not if known.

        `answering` are those that do, possibly without any series.
        """
        self._down = {}
        for labels, why in failing:
            host, instance = self.inventory.host_of(labels), labels.get("instance", "")
            name = instance if self.inventory.has_ports else host_name(instance)
            key = (cluster_of(labels), name) if host is None else host.key
            if key[1]:
                self._down[key] = f"{instance} {why or 'does not answer the scrapes'}"
        found = map(self.inventory.host_of, answering)
        self._without = {each for each in found if each is not None}

    def percent_hosts(self) -> list[KnownHost]:
        """Return hosts whose ratios are percentages."""
        hosts = self.inventory.hosts.values()
        is_percent = are_percent(host.is_percent for host in hosts)
        return [host for host in hosts if is_percent[host.is_percent]]

    def hosts(self, now: float) -> tuple[FleetHost, ...]:
        """Return all hosts by name, as known at the server's time `now`; none before an answer."""
        if not self.now:
            return ()
        self._take_holds(now)
        known = [self._host(host, now) for host in self.inventory.hosts.values()]
        known += [
            FleetHost(
                name=clean(name, NAME_BYTES),
                cluster=None if cluster is None else clean(cluster, NAME_BYTES),
                state="down",
                message=clean(message),
            )
            for (cluster, name), message in self._down.items()
            if not {(cluster, name)} & (self.inventory.hosts.keys() | self.inventory.renamed.keys())
        ]
        return tuple(sorted(known, key=lambda host: (host.name, host.cluster or "")))

    def jobs(self) -> tuple[FleetJob, ...]:
        """Return the jobs and pods that devices are or were allocated to, the largest first."""
        found: dict[tuple[SafeText | None, Person], list[KnownDevice]] = {}
        for device in self.inventory.devices():
            if device.people and device.seen_at < self.now and _is_replaced(device):
                continue
            for person in device.people:
                found.setdefault((device.host.cluster, person), []).append(device)
        jobs = [
            FleetJob(
                id=clean(each.job, NAME_BYTES),
                kind=each.kind,
                cluster=cluster,
                name=clean(each.job.rpartition("/")[2], NAME_BYTES)
                if each.kind == "kubernetes"
                else None,
                user=None if each.user is None else clean(each.user, NAME_BYTES),
                hosts=tuple(sorted({device.host.name for device in devices})),
                devices=len(devices),
            )
            for (cluster, each), devices in found.items()
        ]
        return tuple(sorted(jobs, key=lambda job: (-job.devices, job.id, job.cluster or "")))

    def _present(self, devices: Iterable[KnownDevice]) -> list[KnownDevice]:
        """Return the devices seen since the last complete answer, at most `PARTIAL_SECONDS` ago."""
        oldest = max(self.memory.complete_at, self.now - PARTIAL_SECONDS)
        return [device for device in devices if device.seen_at >= oldest]

    def _there(self, host: KnownHost) -> list[KnownDevice]:
        """Return a host's present devices, or its last ones for a moment: one scrape may fail."""
        devices = host.devices.values()
        there = self._present(devices)
        host.is_away = host.is_away and not there
        if there or host.is_away or host in self._without:
            return there
        oldest = self.now - _PATIENCE * host.interval
        last = max(oldest, *(each.seen_at for each in devices))
        there = [each for each in devices if each.seen_at >= last and not each.is_rough]
        host.is_away = not there
        return there

    def _host(self, host: KnownHost, now: float) -> FleetHost:
        devices = host.devices.values()
        there = self._there(host)
        seen_at = max(each.seen_at for each in devices)
        # The server's data for an answer are older than the answer.
        age: float | None = max(0.0, now - seen_at + (host.lag or 0.0))
        state, message = self._state(host, age or 0.0, is_there=bool(there))
        is_old = seen_at < self.now
        is_rough = is_old and any(each.is_rough and each.seen_at == seen_at for each in devices)
        is_age_known = seen_at > 0 and not is_rough and (host.lag is not None or not there)
        if host.is_frozen and there:
            age = None if host.changed_at is None else now - host.changed_at
        if len(there) == len(devices) and not any(each.instance for each in there):
            built = [self._built(each, now) for each in sorted(there, key=lambda each: each.index)]
        else:
            built = list(self._groups(host, there, now))
        return FleetHost(
            name=host.name,
            cluster=host.cluster,
            group=host.group,
            state=state,
            message=None if message is None else clean(message),
            age_seconds=age if is_age_known else None,
            expected_devices=host.gpu_count,
            losses=host.losses or None,
            former_name=next((e.name for e in host.before[::-1] if e.name != host.name), None),
            driver_version=host.driver,
            devices=tuple(built),
        )

    def _state(
        self, host: KnownHost, age: float, *, is_there: bool
    ) -> tuple[HostState, str | None]:
        if not is_there:
            why = self._down.get(host.key)
            if why is None and host in self._without:
                return "no-gpus", f"it had {counted(host.gpu_count, 'GPU')}"
            if why is None and not any(map(self.memory.is_missing, host.devices.values())):
                return "stale", "the answers of the server are partial and leave it out"
            return "down", why or "its series have ended"
        if age > max(STALE_SECONDS, _PATIENCE * host.interval):
            return "stale", "its samples are old"
        if host.is_frozen:
            return "stale", "its exporter repeats the same values: even the power never changes"
        return "ok", None

    def _groups(
        self, host: KnownHost, present: list[KnownDevice], now: float
    ) -> Iterator[FleetDevice]:
        """Yield GPUs by index, missing ones as lost, each followed by its MIG instances."""
        by_gpu: dict[str | int, list[KnownDevice]] = {}
        # At the same index, a GPU that is gone follows its successor.
        for device in sorted(host.devices.values(), key=lambda each: (each.index, -each.seen_at)):
            by_gpu.setdefault(device.gpu, []).append(device)
        for group in by_gpu.values():
            there = [each for each in group if each in present]
            instances = sorted((each for each in there if each.instance), key=_instance)
            if not there:
                is_host_there = bool(present) or host in self._without
                is_lost = is_host_there and any(map(self.memory.is_missing, group))
                state: DeviceState = "lost" if is_lost else "ok"
                last = max(group, key=lambda each: each.seen_at)
                is_known = is_lost and last.seen_at and not last.is_rough
                age = now - last.seen_at if is_known else None
                yield FleetDevice(
                    index=last.index,
                    label=device_label(last.index),
                    uuid=last.uuid,
                    name=last.name,
                    state=state,
                    users=() if last.instance else last.users,
                    job=None if last.instance else last.job,
                    age_seconds=age,
                    losses=self.memory.losses(last) if is_lost else None,
                )
                for each in sorted(group, key=_instance):
                    if each.instance and each.seen_at == last.seen_at:
                        yield _gone(each, state, age)
            elif instances:
                yield _parent(instances)
                yield from (self._built(each, now) for each in instances)
            else:
                yield self._built(there[0], now)

    def _built(self, device: KnownDevice, now: float) -> FleetDevice:
        known: dict[str, Any] = device.values
        index, uuid, parent, name = device.index, device.uuid, None, device.name
        label, is_new = device_label(index), device.seen_at >= self.now
        if device.instance:
            index, parent, uuid = _instance(device), uuid, device.full_uuid
            label = device_label(index, device.index)
            name = _instance_name(device)
            known = {field: value for field, value in known.items() if field not in _OF_BOARD}
        xid, xid_seconds = self.memory.recent_xid(device, now)
        return FleetDevice(
            index=index,
            label=label,
            status=_STATUS[device.is_worn],
            uuid=uuid,
            parent_uuid=parent,
            name=name,
            xid=xid,
            xid_seconds=xid_seconds,
            users=device.users,
            job=device.job,
            idle_seconds=device.idle.seconds(now),
            age_seconds=None if is_new else now - device.seen_at,
            losses=device.returns or None if is_new else self.memory.losses(device),
            **known,
        )

    def _take_holds(self, now: float) -> None:
        """Decide which devices are held, from all answers so far.

        A job there from the first may be as old as its device's idle time; notable memory needs
        the proof of an answer.
        """
        for device in self.inventory.devices():
            used = device.values.get(MEMORY)
            if used is not None:
                is_full = notable(used, device.values.get(MEMORY_TOTAL))
                is_held = is_full or device.job is not None or bool(device.users)
                device.idle.hold(now, is_held=is_held, since=None if is_full else 0.0)

    def _take_power(self, at: float) -> None:
        for host in self.inventory.hosts.values():
            each_of = [each.values for each in host.devices.values()]
            shown = tuple([(each.get(POWER), each.get(UTILIZATION)) for each in each_of])
            if len(shown) == len(host.shown):
                # Values left out of a partial answer have not changed.
                pairs = zip(shown, host.shown, strict=True)
                shown = tuple([(_known(p, q), _known(u, v)) for (p, u), (q, v) in pairs])
            if shown != host.shown:
                if host.shown:
                    host.is_frozen, host.changed_at = False, at
                host.shown, host.shown_at = shown, at
            elif any(power for power, _ in shown):
                patience = max(_FROZEN_SECONDS, _PATIENCE * host.interval)
                host.is_frozen = host.is_frozen or at - host.shown_at >= patience

    def _clear(self, field: str) -> None:
        for device in self.inventory.devices():
            device.values[field] = None

    def _forget(self) -> None:
        """Drop values that are too old, and devices long missing or repartitioned."""
        for field, at in list(self._field_at.items()):
            if self.now - at > _FIELD_SECONDS and field not in _STATIC:
                del self._field_at[field]
                self._clear(field)
        self.memory.forget(self.now)

    def _devices_of(self, rows: Iterable[Row]) -> Iterator[tuple[KnownDevice, float | None]]:
        """Yield devices with values, except for devices whose index has passed to another."""
        for row in rows:
            found = self.inventory.find(row)
            if found and self.inventory.index_of(row.labels) in (None, found[0].index):
                yield found[0], row.number


def _instance(device: KnownDevice) -> int:
    """Return the GPU instance id of a MIG instance, 0 for a GPU."""
    return number_of(device.instance) or 0


def _is_replaced(device: KnownDevice) -> bool:
    """Whether its GPU has since been seen without it: as a whole, or in other instances."""
    others = device.host.devices.values()
    return any(each.gpu == device.gpu and each.seen_at > device.seen_at for each in others)


def _gone(device: KnownDevice, state: DeviceState, age: float | None) -> FleetDevice:
    """Return a MIG instance of a GPU that is gone, with its last job and users."""
    index = _instance(device)
    return FleetDevice(
        index=index,
        label=device_label(index, device.index),
        uuid=device.full_uuid,
        parent_uuid=device.uuid,
        name=_instance_name(device),
        state=state,
        users=device.users,
        job=device.job,
        age_seconds=age,
    )


def _instance_name(device: KnownDevice) -> SafeText | None:
    return None if device.name is None else clean(f"{device.name} MIG {device.profile}".rstrip())


def _parent(instances: list[KnownDevice]) -> FleetDevice:
    """Return the GPU of MIG instances that has no series of its own.

    Their memory adds up; the values of the board are repeated on each.
    """
    first = instances[0]
    values: dict[str, Any] = {}
    for field in FIELDS:
        known = [value for each in instances if (value := each.values.get(field)) is not None]
        if known and not field.endswith("percent"):
            values[field] = sum(known) if field in (MEMORY, MEMORY_TOTAL) else max(known)
    return FleetDevice(
        index=first.index,
        label=device_label(first.index),
        status=_STATUS[any(each.is_worn for each in instances)],
        uuid=first.uuid,
        name=first.name,
        **values,
    )


def _known(value: float | None, before: float | None) -> float | None:
    return before if value is None else value
