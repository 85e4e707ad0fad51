"""Which hosts and devices there are, and which of them a series belongs to."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

from gpudash.fleet.identity import are_of_one
from gpudash.fleet.prometheus.catalog import Catalog
from gpudash.fleet.prometheus.dialects import (
    HOST_LABELS,
    IDENTITY,
    INSTANCE_LABEL,
    Dialect,
    LabelChoice,
    Labels,
    Person,
    Series,
    choose_labels,
    dialects,
    held_by,
    is_address,
    known_series,
    named_by,
)
from gpudash.fleet.prometheus.known import (
    KnownDevice,
    KnownHost,
    Row,
    cluster_of,
    index_of,
    uuid_of,
)
from gpudash.model.text import NAME_BYTES, clean

_MAX_CACHED = 1 << 18
_NAME = b'"__name__":"'


_Labelled = tuple[Labels, float | None]
"""The labels of a series, and its value."""
Found = tuple[KnownDevice, Series | None]
"""The device of a series, and its metric; None for one computed from others."""


class Inventory:
    """All known hosts; series are looked up by the bytes of their labels."""

    def __init__(
        self, host_label: str | None = None, recorded: Mapping[str, str] | None = None
    ) -> None:
        self.catalog = Catalog(frozenset(), recorded=recorded or {})
        self._metrics = {own: metric for metric, own in self.catalog.recorded.items()}
        self.hosts: dict[tuple[str | None, str], KnownHost] = {}
        self.renamed: dict[tuple[str | None, str], KnownHost] = {}
        """The current hosts, by their earlier names."""
        self.has_unknown = False
        """Whether a series was of an unknown device, so that the labels must be read again."""
        self.has_ports = False
        """Whether ports distinguish hosts, or did before."""
        self._names: dict[tuple[str | None, str], tuple[str | None, str]] = {}
        """The keys of hosts, by the names that their other exporters use."""
        self._host_label = host_label
        self._ranked: tuple[str, ...] = ()
        """Labels that name hosts, in any dialect."""
        self._targets: dict[tuple[str, str, str], KnownHost] = {}
        self._found: dict[bytes, Found] = {}
        """By the labels of their series, without the name of the metric if it is found there."""
        self._series = {
            self.catalog.name_of(metric).encode(): series
            for metric, (_, series) in known_series().items()
        }
        self._learned: frozenset[int] = frozenset()
        """Hashes of the series learned: with all labels, they are long."""

    @property
    def size(self) -> int:
        """The number of devices."""
        return sum(len(host.devices) for host in self.hosts.values())

    def devices(self) -> Iterator[KnownDevice]:
        """Yield all devices."""
        for host in self.hosts.values():
            yield from host.devices.values()

    def set_names(self, names: Iterable[str]) -> None:
        """Set the metric names of the server; if it has none of the known ones, assume all."""
        there, known = set(names), known_series()
        found = frozenset(each for each in known if self.catalog.name_of(each) in there)
        self.catalog = self.catalog._replace(names=found or frozenset(known))

    def learn(self, rows: list[Row]) -> None:
        """Store the devices of these series, one series each with all labels, and who has them."""
        self.has_unknown = False
        learned = frozenset(hash(bytes(row.metric)) for row in rows)
        if learned == self._learned:
            return
        self._learned = learned
        people: dict[KnownDevice, set[Person]] = {}
        for device, dialect, (labels, _) in self._known(rows, is_past=False):
            person = self.catalog.choices[dialect.name].person(labels)
            people.setdefault(device, set()).update([] if person is None else [person])
        for device, persons in people.items():
            if device.people != persons:
                device.people = frozenset(persons)
                device.job, device.users = held_by(persons)

    def learn_gone(self, rows: list[Row]) -> None:
        """Add devices that are gone, with about when they left, to report them missing."""
        for device, dialect, (labels, at) in self._known(rows, is_past=True):
            if at is not None and at > device.seen_at:
                device.seen_at, device.is_rough = at, True
                person = self.catalog.choices[dialect.name].person(labels)
                device.people = frozenset(filter(None, [person]))
                device.job, device.users = held_by(device.people)

    def find(self, row: Row) -> Found | None:
        """Return the device and the metric of a series, None for an unknown device."""
        # All metrics of a device have the same labels but for their names.
        before, _, rest = bytes(row.metric).partition(_NAME)
        metric, _, after = rest.partition(b'"')
        raw = before + after
        found = self._found.get(raw)
        if found is None:
            labels = self._labels_of(row)
            device = self.device_of(labels)
            if device is None:
                self.has_unknown = True
                return None
            if len(self._found) >= _MAX_CACHED:
                self._found.clear()
            known = None if metric else known_series().get(labels.get("__name__", ""))
            found = self._found[raw] = device, None if known is None else known[1]
        return (found[0], self._series.get(metric)) if metric else found

    def devices_of(self, rows: Iterable[Row]) -> Iterator[tuple[KnownDevice, Row]]:
        """Yield the series of known devices, each with its device."""
        for row in rows:
            if (found := self.find(row)) is not None:
                yield found[0], row

    def hosts_of(self, rows: Iterable[Row]) -> Iterator[tuple[KnownHost, float, Labels]]:
        """Yield the known hosts of series with a value, with that value and the labels."""
        for row in rows:
            labels, value = row.labels, row.number
            host = None if value is None else self.host_of(labels)
            if host is not None and value is not None:
                yield host, value, labels

    def _labels_of(self, row: Row) -> Labels:
        """Return the labels of a series, with the metric's name at the exporter."""
        labels = row.labels
        metric = self._metrics.get(labels.get("__name__", ""))
        return labels if metric is None else {**labels, "__name__": metric}

    def host_of(self, labels: Labels) -> KnownHost | None:
        """Return the host of a series, or of its scrape target."""
        for label in self._ranked:
            name = named_by(label, labels, self.has_ports)
            if name is not None:
                key = self._key(labels, name)
                host = self.hosts.get(key) or self.renamed.get(key)
                if host is not None:
                    return host
        return self._targets.get(_target(labels)) if labels.get("instance") else None

    def device_of(self, labels: Labels) -> KnownDevice | None:
        """Return the device of a series."""
        host = self.host_of(labels)
        if host is None:
            return None
        instance = labels.get(INSTANCE_LABEL, "")
        for dialect in dialects():
            if dialect.name in self.catalog.choices:
                uuid, index = uuid_of(labels, dialect), index_of(labels, dialect)
                if uuid is not None or index is not None:
                    return host.device(uuid, index, instance)
        return None

    def index_of(self, labels: Labels) -> int | None:
        """Return the index in the labels of a series, None for none."""
        found = (index_of(labels, dialect) for dialect in dialects())
        return next((each for each in found if each is not None), None)

    def at_target(self, host: KnownHost) -> KnownHost | None:
        """Return the host that now has this host's exporter, None if it has no address."""
        return self._targets.get(host.target) if host.target[2] else None

    def instances_of(self, hosts: Container[KnownHost]) -> list[str]:
        """Return the addresses of all exporters of some hosts."""
        found = {target[2] for target, host in self._targets.items() if host in hosts}
        return sorted(found - {""})

    def rename(self, old: KnownHost, new: KnownHost) -> None:
        """Merge a host into its new name, with all that is known only under the old one."""
        old.ended_at = max(each.seen_at for each in old.devices.values())
        for device in old.devices.values():
            twin = new.device(device.uuid, device.index, device.instance)
            if twin is None:
                new.miss(device)
            else:
                twin.idle.follow(device.idle)
                if device.xid is not None:
                    twin.xid, twin.xid_at = device.xid, device.xid_at
        new.indices |= old.indices
        for each in (*old.before, old):
            self.renamed[each.key] = new
        new.before = (*old.before, old, *new.before)
        self._forget_host(old)

    def forget_names(self, oldest: float) -> None:
        """Forget names that hosts last had before an instant."""
        for key, host in list(self.renamed.items()):
            host.before = tuple(each for each in host.before if each.ended_at >= oldest)
            if all(each.key != key for each in host.before):
                del self.renamed[key]

    def drop(self, device: KnownDevice) -> None:
        """Forget a device, and its host if that was the last one."""
        host = device.host
        host.forget(device)
        self._found.clear()
        self._learned = frozenset()
        if not host.devices:
            self._forget_host(host)
            for each in host.before:
                self.renamed.pop(each.key, None)

    def _forget_host(self, host: KnownHost) -> None:
        del self.hosts[host.key]
        self._targets = {target: each for target, each in self._targets.items() if each is not host}
        self._found.clear()
        self._learned = frozenset()

    def _known(
        self, rows: list[Row], *, is_past: bool
    ) -> Iterator[tuple[KnownDevice, Dialect, _Labelled]]:
        """Yield the devices of series; for series of the present, choose the labels first."""
        by_dialect: dict[str, list[_Labelled]] = {}
        for row in rows:
            labels = self._labels_of(row)
            known = known_series().get(labels.get("__name__", ""))
            if known is not None:
                by_dialect.setdefault(known[0].name, []).append((labels, row.number))
        if not is_past:
            self._choose(by_dialect)
            self._join(by_dialect)
        for dialect in dialects():
            identity = {each.name for each in dialect.of(IDENTITY)}
            some = by_dialect.get(dialect.name, [])
            for each in sorted(some, key=lambda each: each[0]["__name__"] not in identity):
                device = self._device(each[0], dialect, is_past=is_past)
                if device is not None:
                    yield device, dialect, each

    def _choose(self, by_dialect: dict[str, list[_Labelled]]) -> None:
        choices = {
            name: choose_labels([labels for labels, _ in some], self._host_label)
            for name, some in by_dialect.items()
        }
        self.has_ports = self.has_ports or any(each.has_ports for each in choices.values())
        choices = {name: each._replace(has_ports=self.has_ports) for name, each in choices.items()}
        if choices != self.catalog.choices:
            self.catalog = self.catalog._replace(choices=choices)
            used = {label for choice in choices.values() for label in choice.hosts}
            self._ranked = tuple(each for each in (self._host_label, *HOST_LABELS) if each in used)
            self._found.clear()

    def _join(self, by_dialect: Mapping[str, Iterable[_Labelled]]) -> None:
        """Find hosts shown by several exporters under different names.

        The last exporter counts, and a name before an address. Clones in other clusters do not.
        """
        before, self._names = self._names, {}
        names: dict[tuple[str | None, str], dict[tuple[str | None, str], None]] = {}
        boards: dict[tuple[str | None, str], set[str]] = {}
        for dialect in (each for each in dialects() if each.name in by_dialect):
            choice = self.catalog.choices[dialect.name]
            for labels, _ in by_dialect[dialect.name]:
                cluster = cluster_of(labels)
                host, board = choice.host(labels), uuid_of(labels, dialect)
                if host is not None and board is not None:
                    key = cluster, host[1]
                    names.setdefault((cluster, board), {})[key] = None
                    boards.setdefault(key, set()).add(board)
        for (_, uuid), keys in names.items():
            if len(keys) == 1 and not before:
                continue
            last = boards[next(reversed(keys))]
            same = [key for key in keys if are_of_one(boards[key], last)]
            known = [before[key] for key in same if self._has(before.get(key), uuid)]
            found = sorted([*same, *known], key=lambda key: not is_address(key[1]))
            self._names.update((key, found[-1]) for key in found if key != found[-1])
        for key in self.hosts.keys() & self._names.keys():
            self._forget_host(self.hosts[key])

    def _has(self, key: tuple[str | None, str] | None, uuid: str) -> bool:
        host = None if key is None else self.hosts.get(key)
        return host is not None and any(each.uuid == uuid for each in host.devices.values())

    def _key(self, labels: Labels, name: str) -> tuple[str | None, str]:
        key = cluster_of(labels), name
        return self._names.get(key, key)

    def _named(self, labels: Labels, choice: LabelChoice) -> KnownHost | None:
        """Return the host that labels name, adding an unknown one; None for none."""
        named = choice.host(labels)
        if named is None:
            return None
        label, name = named
        cluster, own = key = self._key(labels, name)
        host = self.hosts.get(key)
        if host is None:
            return KnownHost(
                key,
                {label: labels[label]},
                clean(own, NAME_BYTES),
                None if cluster is None else clean(cluster, NAME_BYTES),
            )
        if name == own:
            host.labels[label] = labels[label]
        return host

    def _device(self, labels: Labels, dialect: Dialect, *, is_past: bool) -> KnownDevice | None:
        """Return the device of a series with all labels, adding it if it is new.

        A device of the past never replaces a present one.
        """
        choice = self.catalog.choices.get(dialect.name)
        host = None if choice is None else self._named(labels, choice)
        if choice is None or host is None:
            return None
        uuid, index = uuid_of(labels, dialect), index_of(labels, dialect)
        instance = labels.get(INSTANCE_LABEL, "")
        device = host.device(uuid, index, instance)
        if index is None:
            if device is None:
                return None
            index = device.index
        target = _target(labels)
        if host.key not in self.hosts:
            self.hosts[host.key] = host
            self.renamed.pop(host.key, None)
        if not is_past or target not in self._targets:
            self._targets[target] = host
        host.target = host.target if is_past and host.target[2] else target
        if target[1] and target[1] not in self.catalog.jobs:
            self.catalog = self.catalog._replace(jobs=self.catalog.jobs | {target[1]})
        if is_past:
            host.indices.add(index)
            if device is not None:
                return device
        device = device or KnownDevice(host, index, instance, uuid)
        if is_past:
            host.miss(device)
        elif host.place(device, index, uuid):
            # Labels without a UUID belong to another device than before.
            self._found.clear()
        _describe(device, labels, dialect)
        group = labels.get(choice.group) if choice.group else None
        host.group = clean(group, NAME_BYTES) if group else host.group
        return device


def _describe(device: KnownDevice, labels: Labels, dialect: Dialect) -> None:
    """Store what the labels of a series say about its device, and the driver of its host."""
    host, model = device.host, labels.get(dialect.model_label)
    device.name = clean(model, NAME_BYTES) if model else device.name
    device.profile = labels.get("GPU_I_PROFILE", "")
    driver = next((labels[each] for each in dialect.driver_labels if labels.get(each)), None)
    host.driver = clean(driver, NAME_BYTES) if driver else host.driver


def _target(labels: Labels) -> tuple[str, str, str]:
    return cluster_of(labels) or "", labels.get("job", ""), labels.get("instance", "")
