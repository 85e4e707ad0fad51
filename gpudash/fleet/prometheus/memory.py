"""What was there: devices that are gone, and since when errors have been as they are.

Fed by the answers about the present, as they arrive, and about the past: a coarse look back at
all devices, and a detailed one at the few hosts that need it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence, Set
from math import inf

from gpudash.analysis.activity import is_rest
from gpudash.analysis.health.rules.reliability import is_recent, needs_person
from gpudash.fleet.identity import home_of
from gpudash.fleet.lasting import RESTS, Lasted
from gpudash.fleet.prometheus.catalog import Names
from gpudash.fleet.prometheus.dates import Dates
from gpudash.fleet.prometheus.dialects import DATED_XIDS, XID_LABEL
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import (
    KnownDevice,
    KnownHost,
    Row,
    last_times,
    names_by_label,
    number_of,
    xid_of,
)
from gpudash.fleet.prometheus.queries import FIRST_LABEL, HOST_MARK, glance_of, is_change_of_now

_MAX_LOOKED_UP = 50
"""Hosts, or GPUs with an error, whose samples of a whole day are read at once."""
_MAX_RESTED = 200
"""GPUs held idle that are looked up at once: this reads fewer instants."""
PARTIAL_SECONDS = 300.0
"""How long a device that partial answers leave out is kept."""
_MIN_SIBLINGS = 3
_LONG = 0.95
"""Of the look back: an error present at all of its instants has lasted for longer."""
_NO_XID: tuple[int | None, float | None] = None, None


class Memory:
    """Remembers the devices of an inventory; those missing for `look_back_seconds` are dropped."""

    def __init__(self, inventory: Inventory, look_back_seconds: float) -> None:
        self.look_back_seconds = look_back_seconds
        self.complete_at = 0.0
        """The instant of the last answer that was not partial."""
        self.answered_at = 0.0
        """The instant of the last answer."""
        self._known_seconds = _LONG * look_back_seconds
        self.dates = Dates(inventory, self._known_seconds)
        self._inventory = inventory
        self._began_at = 0.0
        self._lost: list[KnownHost] = []
        self._frozen: list[KnownHost] = []
        self._looked_up: set[KnownHost] = set()
        """Hosts already looked up; those in the two lists above are being looked up."""
        self._unsteady: set[KnownHost] = set()
        """Hosts that lost GPUs since the start or often before, or have one that needs a person."""
        self._silent: set[KnownHost] = set()
        """Hosts without any of their GPUs."""
        self._doubtful: list[KnownHost] = []
        """Hosts that may have gone away, or lost GPUs, more than once, the likeliest first."""
        self._undated: list[KnownDevice] = []
        self._rested: list[KnownDevice] = []
        self._long_rested: set[KnownDevice] = set()
        """Devices that were already resting at the beginning of the look back."""
        self._given: list[KnownDevice] = []

    def is_doubtful(self, there: Set[KnownDevice]) -> bool:
        """Whether an answer with these devices may have them under wrong names.

        A device that vanished may have another name: its exporter was upgraded, or it was divided.
        One that is back may be a different one: the driver assigned new indices.
        """
        last = self.answered_at
        return bool(last) and any(
            (each.seen_at == last) if each not in there else each.seen_at and self.is_missing(each)
            for each in self._inventory.devices()
        )

    def take_answer(self, at: float, *, is_partial: bool) -> None:
        """Note an answer about an instant."""
        self.answered_at = at
        if not is_partial:
            self.complete_at = at

    def is_missing(self, device: KnownDevice) -> bool:
        """Whether a complete answer left a device out.

        An omission in a partial answer means nothing, unless earlier partial ones had the device
        and this one has others of its host: a part that never answers would not come and go.
        """
        if device.seen_at < self.complete_at:
            return True
        at = self.answered_at
        return self.complete_at < device.seen_at < at - PARTIAL_SECONDS and any(
            each.seen_at >= at for each in device.host.devices.values()
        )

    def forget(self, now: float) -> None:
        """Drop devices that have been missing for too long."""
        self._began_at = self._began_at or now
        oldest = now - self.look_back_seconds
        self._inventory.forget_names(oldest)
        for device in [each for devices in self._gone().values() for each in devices]:
            # A device never seen is known only by its labels.
            if (device.seen_at or self._began_at) < oldest:
                self._inventory.drop(device)
        self._explain()

    def _explain(self) -> None:
        """Drop devices that are gone and need not be missed."""
        if gone := self._gone():
            self._follow(gone)
            self._forget_exchanged(self._gone())
            self._forget_removed(self._gone())
            gone = self._gone()
        silent = {each for each in gone if len(gone[each]) >= len(each.devices)}
        self._unsteady |= gone.keys() - silent
        self._doubtful += self._silent - silent
        self._silent = silent

    def _gone(self) -> dict[KnownHost, list[KnownDevice]]:
        """Return the missing devices by host; called at each refresh."""
        gone, at, is_missing = {}, self.answered_at, self.is_missing
        for host in self._inventory.hosts.values():
            devices = [e for e in host.devices.values() if e.seen_at < at and is_missing(e)]
            if devices:
                gone[host] = devices
        return gone

    def _follow(self, gone: Mapping[KnownHost, Sequence[KnownDevice]]) -> None:
        """Drop missing devices that live on elsewhere; a host whose GPUs all do was renamed.

        Not if its GPUs live on both here and there.
        """
        uuids = {each.uuid for devices in gone.values() for each in devices if each.uuid}
        there: dict[Hashable, KnownHost] = {
            each.identity: each.host
            for each in self._inventory.devices()
            if each.uuid in uuids and not self.is_missing(each)
        }
        for host, devices in gone.items():
            homes = [(each, there[each.identity]) for each in devices if each.identity in there]
            new = self._inventory.at_target(host)
            if any(each.uuid for each in devices):
                new = home_of([each.identity for each in devices], there)
            is_whole = len(devices) == len(host.devices)
            if is_whole and new is not None and new is not host:
                self._inventory.rename(host, new)
                continue
            for device, _ in homes:
                self._inventory.drop(device)

    def _forget_exchanged(self, gone: Mapping[KnownHost, Sequence[KnownDevice]]) -> None:
        """Drop devices that others have replaced: a host never has more GPUs than indices."""
        for host, devices in gone.items():
            there = {each.gpu for each in host.devices.values() if not self.is_missing(each)}
            # One without a UUID may have come back with a UUID and another index.
            first = sorted(devices, key=lambda each: (each.uuid is not None, each.seen_at))
            absent = [each for each in first if each.gpu not in there]
            gpus = list(dict.fromkeys(each.gpu for each in absent))
            excess = max(0, len(there) + len(gpus) - len(host.indices)) if there else 0
            for device in (each for each in absent if each.gpu in gpus[:excess]):
                self._inventory.drop(device)

    def _forget_removed(self, gone: Mapping[KnownHost, Sequence[KnownDevice]]) -> None:
        """Drop missing devices of a host with as many GPUs left as others of its model.

        Hosts that miss some themselves are not compared with.
        """
        sizes: dict[object, Counter[int]] = {}
        for host in self._inventory.hosts.values():
            if host not in gone:
                devices = host.devices.values()
                sizes.setdefault(_kind(devices), Counter())[_gpus(devices)] += 1
        for host, missed in gone.items():
            there = [each for each in host.devices.values() if not self.is_missing(each)]
            usual = sizes.get(_kind(there))
            if not there or usual is None:
                continue
            size, count = usual.most_common(1)[0]
            if count >= _MIN_SIBLINGS and 2 * count > usual.total() and size == _gpus(there):
                for device in missed:
                    self._inventory.drop(device)

    def take_gone(self, rows: list[Row], _at: float) -> None:
        """Add devices that are gone, with about when they were last there."""
        self._inventory.learn_gone(rows)
        self._explain()
        self._looked_up.clear()

    def lost(self) -> dict[int, list[KnownDevice]]:
        """Return some devices whose last sample is not known exactly.

        Grouped by the number of the glance that saw them, as for `queries.last_seen`.
        """
        self._lost = self._sought(each.host for each in self._inventory.devices() if each.is_rough)
        found: dict[int, list[KnownDevice]] = {}
        for device in (each for host in self._lost for each in host.devices.values()):
            if device.is_rough:
                age = self.answered_at - device.seen_at
                glance = glance_of(age, self.look_back_seconds)
                found.setdefault(glance, []).append(device)
        return found

    def take_last_seen(self, rows: Iterable[Row], _at: float) -> None:
        """Store the time of the newest sample of devices, which may be gone since then."""
        self._looked_up.update(self._lost)
        for device, row in self._inventory.devices_of(rows):
            device.seen_at, device.is_rough = max(device.seen_at, row.number or 0.0), False

    def names_of_frozen(self) -> Names:
        """Return some hosts that repeat their values since an unknown time."""
        hosts = self._inventory.hosts.values()
        self._frozen = self._sought(h for h in hosts if h.is_frozen and h.changed_at is None)
        return names_by_label(self._frozen)

    def take_changes(self, rows: Iterable[Row], at: float) -> None:
        """Store when values of hosts last changed: for some, only the power had stayed the same."""
        self._looked_up.update(self._frozen)
        for host, value, _ in self._inventory.hosts_of(rows):
            host.changed_at = max(value, host.changed_at or 0.0)
            host.is_frozen = not is_change_of_now(host.changed_at, at, self.look_back_seconds)

    def _sought(self, hosts: Iterable[KnownHost]) -> list[KnownHost]:
        return list(set(hosts) - self._looked_up)[:_MAX_LOOKED_UP]

    def rested(self) -> list[KnownDevice]:
        """Return some devices that have been held idle for longer than is known."""
        found = [each for each in self._inventory.devices() if each.has_long_rested]
        self._rested = found[:_MAX_RESTED]
        return self._rested

    def take_last_used(self, rows: Iterable[Row], at: float) -> None:
        """Store when devices last computed, last were not held, or had their first sample."""
        times = last_times(self._inventory.devices_of(rows))
        for device in self._rested:
            device.has_long_rested = False
            device.idle.extend(idle_at=times.get(device), held_at=times.get(device))
            self._take_rest(device, times.get(device, at), at)

    def given(self) -> list[KnownDevice]:
        """Return some devices that rest and whose job has had them since an unknown time."""
        found = [
            each
            for each in self._inventory.devices()
            if each.people and each.idle.is_held_long
            if is_rest(each.idle.seconds(self.answered_at))
        ]
        self._given = found[:_MAX_RESTED]
        return self._given

    def take_given(self, rows: Iterable[Row], at: float) -> None:
        """Store when devices last computed, or were first allocated to their current holders.

        Devices not found at any sampled instant were allocated less than a step ago.
        """
        choices = self._inventory.catalog.choices.values()
        used, began = dict[KnownDevice, float](), dict[KnownDevice, float]()
        for device, row in self._inventory.devices_of(rows):
            labels, time = row.labels, row.number or 0.0
            if FIRST_LABEL not in labels:
                used[device] = max(time, used.get(device, time))
            elif device.people & {choice.person(labels) for choice in choices}:
                began[device] = min(time, began.get(device, time))
        for device in self._given:
            since = max(used.get(device, 0.0), began.get(device, at))
            device.idle.begin(since)
            self._take_rest(device, since, at)

    def _take_rest(self, device: KnownDevice, since: float, at: float) -> None:
        if since <= at - self._known_seconds:
            self._long_rested.add(device)
        else:
            self._long_rested.discard(device)

    def lasted(self, now: float) -> Lasted:
        """Return for how long findings have lasted, where known."""
        found, hosts = dict(self.dates.lasted(now)), self._inventory.hosts
        for device in list(self._long_rested):
            host = device.host
            if hosts.get(host.key) is not host or device.identity not in host.devices:
                self._long_rested.discard(device)
            elif device.full_uuid and (device.idle.seconds(now) or 0.0) >= self._known_seconds:
                found[RESTS, device.full_uuid] = inf
        return found

    def take_xids(self, rows: Iterable[Row], at: float) -> None:
        """Store last XID errors, and the times of errors where available."""
        codes: dict[KnownDevice, tuple[int | None, float | None]] = {}
        for device, last, moment in self._xids(rows):
            if device not in codes or (moment or 0.0) > (codes[device][1] or 0.0):
                codes[device] = last, moment
        for device in self._inventory.devices():
            if self.is_missing(device):
                device.is_watched = False
                continue
            code, time = codes.get(device, _NO_XID)
            if time is not None:
                device.xid_at = time
            elif code != device.xid:
                device.xid_at = at if device.is_watched else None
            device.xid, device.is_watched = code, True

    def unsteady(self) -> list[KnownHost]:
        """Return some hosts that may have lost GPUs more than once."""
        there = {*self._inventory.hosts.values()}
        for device in self._inventory.devices():
            if device.xid is not None and needs_person(device.xid):
                self._unsteady.add(device.host)
        self._unsteady &= there
        known = sorted(self._unsteady, key=lambda host: host.name)
        others = [e for e in dict.fromkeys(self._doubtful) if e in there - self._unsteady]
        return [*known, *others][:_MAX_LOOKED_UP]

    def take_shrinks(self, rows: Iterable[Row], _at: float) -> None:
        """Store how often the number of an exporter's series changed in a day.

        For some it always does: they show processes too.
        """
        found: dict[KnownHost, float] = {}
        for host, count, _ in self._inventory.hosts_of(rows):
            found[host] = min(count, found.get(host, inf))
        self._doubtful += sorted(found, key=lambda host: found[host])

    def take_losses(self, rows: Sequence[Row], _at: float) -> None:
        """Store how often devices came back, and how often hosts went away.

        For a host with several exporters, the lowest number counts.
        """
        for device in self._inventory.devices():
            device.returns = device.host.losses = 0
        mark, went = HOST_MARK.encode(), dict[KnownHost, int]()
        of_hosts = (each for each in rows if mark in bytes(each.metric))
        for host, value, _ in self._inventory.hosts_of(of_hosts):
            went[host] = min(int(value), went.get(host, int(value)))
        for each, count in went.items():
            each.losses = count
            self._unsteady |= {each} if count else set()
        of_devices = (each for each in rows if mark not in bytes(each.metric))
        for device, row in self._inventory.devices_of(of_devices):
            device.returns = 0 if device.instance else int(row.number or 0)
            self._unsteady |= {device.host} if device.returns else set()
        # The others need no further query.
        self._doubtful.clear()

    def take_past_xids(self, rows: Iterable[Row], _at: float) -> None:
        """Store which errors devices had."""
        for device in self._inventory.devices():
            device.past_xid = None
        for device, row in self._inventory.devices_of(rows):
            code = number_of(row.labels.get(XID_LABEL, ""))
            if code is not None and needs_person(code):
                device.past_xid = code

    def losses(self, device: KnownDevice) -> int | None:
        """Return how often a device was lost in a day, as far as is known; None for never."""
        return device.returns + self.is_missing(device) or None

    def undated(self) -> dict[int, list[KnownDevice]]:
        """Return some devices with errors of unknown time, by error code."""
        found: dict[int, list[KnownDevice]] = {}
        for device in self._inventory.devices():
            if device.xid is not None and device.xid_at is None:
                found.setdefault(device.xid, []).append(device)
        some = {code: devices[:_MAX_LOOKED_UP] for code, devices in found.items()}
        self._undated = [each for devices in some.values() for each in devices]
        return some

    def take_xid_times(self, rows: Iterable[Row], _at: float) -> None:
        """Store when devices last had another error than now, or none.

        An error in all samples of a device may be older than the first one.
        """
        times: dict[tuple[KnownDevice, int | None], float] = {}
        for device, row in self._inventory.devices_of(rows):
            if (value := row.number) is not None:
                key = device, number_of(row.labels.get(XID_LABEL, ""))
                time = -value if FIRST_LABEL in row.labels else value
                times[key] = max(time, times.get(key, time))
        for device in self._undated:
            if device.xid_at is None:
                device.xid_at = times.get((device, device.xid), 0.0)

    def recent_xid(self, device: KnownDevice, now: float) -> tuple[int | None, float | None]:
        """Return the last error of a device and how long ago it was, if that is recent.

        If it has none, return an error of the look back that needs a person, without its age.

        An error that needs a person counts as recent even if it may be older than all samples,
        which do not go back far.
        """
        if device.xid is None:
            return device.past_xid, None
        if device.xid_at is None:
            return _NO_XID
        if device.xid_at < 0:
            is_young = now + device.xid_at < self._known_seconds
            return (device.xid, None) if is_young and needs_person(device.xid) else _NO_XID
        seconds = max(0.0, now - device.xid_at)
        is_of_now = is_recent(device.xid, seconds, self.look_back_seconds)
        return (device.xid, seconds) if is_of_now else _NO_XID

    def _xids(self, rows: Iterable[Row]) -> Iterator[tuple[KnownDevice, int, float | None]]:
        """Yield devices with error codes, and with their times from series that have them."""
        for row in rows:
            found, value = self._inventory.find(row), row.number
            if found is None or value is None:
                continue
            device, series = found
            is_dated = series is not None and series.field == DATED_XIDS
            code = xid_of(row.labels, value, is_dated=is_dated)
            if code is not None:
                yield device, code, value if is_dated else None


def _kind(devices: Iterable[KnownDevice]) -> object:
    """Return what hosts of one kind have in common: cluster and model."""
    return next(((each.host.cluster, each.name) for each in devices), None)


def _gpus(devices: Iterable[KnownDevice]) -> int:
    return len({each.gpu for each in devices})
