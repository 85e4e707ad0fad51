"""Series as they arrive, the hosts and devices known from them, and the meaning of labels."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

from msgspec import DecodeError, Raw, Struct, field, json

from gpudash.analysis.activity import Rest
from gpudash.fleet.prometheus.catalog import Names
from gpudash.fleet.prometheus.dialects import CLUSTER_LABELS, XID_LABEL, Dialect, Labels, Person
from gpudash.fleet.prometheus.queries import FIRST_LABEL
from gpudash.model.text import NAME_BYTES, SafeText, clean

_K = TypeVar("_K", bound=Hashable)
_LABELS = json.Decoder(dict[str, str])
_LARGEST = 1e18
_MAX_DIGITS, _MAX_XID = 5, 1 << 16


class Row(Struct, gc=False):
    """A series of an instant vector; its labels are decoded only if they are new."""

    metric: Raw
    value: tuple[float, str] | None = None

    @property
    def number(self) -> float | None:
        """The value if it is finite and not negative, else None."""
        return None if self.value is None else finite(self.value[1])

    @property
    def labels(self) -> Labels:
        """The labels; empty if they are not strings in UTF-8."""
        try:
            return _LABELS.decode(self.metric)
        except (DecodeError, UnicodeDecodeError):
            return {}


class KnownDevice(Struct, eq=False):
    """A GPU or MIG instance: its identity, its last values, and since when it is idle or held."""

    host: KnownHost
    index: int
    instance: str
    uuid: SafeText | None = None
    """The GPU's UUID, also for a MIG instance."""
    name: SafeText | None = None
    profile: str = ""
    people: frozenset[Person] = frozenset()
    job: SafeText | None = None
    users: tuple[SafeText, ...] = ()
    seen_at: float = 0.0
    """The time of its newest known sample, 0 if there is none."""
    is_rough: bool = False
    """Whether there may be newer samples: a look back at all devices is coarse."""
    idle: Rest = field(default_factory=Rest)
    has_long_rested: bool = False
    """Whether it has been held idle for the whole look back, and maybe longer."""
    xid: int | None = None
    xid_at: float | None = None
    """When that error came, None while unknown, 0 before the look back.

    The negated time of the first sample if it came before that.
    """
    is_watched: bool = False
    """Whether its errors were read before, so that a different one is new."""
    past_xid: int | None = None
    """An error in the look back that needs a person, None if unknown."""
    returns: int = 0
    """How often it returned within a day to a host that stayed up, as far as is known."""
    is_worn: bool = False
    """Whether it needs to be replaced."""
    values: dict[str, float | None] = {}
    """Fields of a `FleetDevice` by name, None for values that have become unknown."""

    @property
    def gpu(self) -> str | int:
        """Its GPU's UUID, or its index if it has none.

        The driver assigns indices at each start: when a GPU is lost, those of the others change.
        """
        return self.uuid or self.index

    @property
    def identity(self) -> tuple[str | int, str]:
        """Its key within a host, independent of the host's name and, with a UUID, of the index."""
        return self.gpu, self.instance

    @property
    def full_uuid(self) -> SafeText | None:
        """Its UUID; for a MIG instance, the GPU's UUID and the instance, in CUDA's syntax."""
        if not self.instance or self.uuid is None:
            return self.uuid
        return clean(f"MIG-{self.uuid}/{self.instance}", NAME_BYTES)


class KnownHost(Struct, eq=False):
    """A host: its identity, and what is known of its exporter."""

    key: tuple[str | None, str]
    """Its cluster and name, as in the labels."""
    labels: dict[str, str]
    """The labels that name it, and their values in its series."""
    name: SafeText
    cluster: SafeText | None
    group: SafeText | None = None
    driver: SafeText | None = None
    devices: dict[tuple[str | int, str], KnownDevice] = {}
    """By `identity`."""
    numbered: dict[tuple[int, str], KnownDevice] = {}
    """Which device has an index, or had it last, by index and GPU instance id."""
    indices: set[int] = field(default_factory=set)
    """All indices that its GPUs have had: it had this many at once."""
    lag: float | None = None
    """Age of its newest sample when last asked for, None before."""
    interval: float = 0.0
    """Seconds between two scrapes of it, 0 if unknown."""
    target: tuple[str, str, str] = "", "", ""
    """Cluster, job and instance of its exporter."""
    before: tuple[KnownHost, ...] = ()
    """Its earlier names, the newest last."""
    ended_at: float = 0.0
    """When an earlier name was last seen."""
    is_frozen: bool = False
    shown: tuple[tuple[float | None, float | None], ...] = ()
    """Power and utilization of its devices, to detect an exporter that repeats itself."""
    shown_at: float = 0.0
    """Since when they have had these values."""
    changed_at: float | None = None
    """When its values last changed, None if unknown."""
    is_away: bool = False
    """Whether it was found to be gone, and has not been seen since."""
    losses: int = 0
    """How often it went away in a day, as far as is known."""
    is_percent: bool | None = None
    """Whether its ratios are percentages; None while undecided."""

    @property
    def gpu_count(self) -> int:
        """How many GPUs it has, or had."""
        return len({device.gpu for device in self.devices.values()})

    def device(self, uuid: str | None, index: int | None, instance: str) -> KnownDevice | None:
        """Return its device by UUID, or by index if the UUID of either is unknown.

        An index that another GPU has, or had last, does not match an unknown UUID.
        """
        found = None if uuid is None else self.devices.get((uuid, instance))
        if found is None and index is not None:
            found = self.numbered.get((index, instance))
            if found is not None and None not in (uuid, found.uuid):
                return None
        return found

    def place(self, device: KnownDevice, index: int, uuid: SafeText | None) -> bool:
        """Set the current index of a device, and its UUID if known.

        Return whether the index was free or had another device.
        """
        before = self.numbered.get((index, device.instance))
        self.forget(device)
        device.index, device.uuid = index, uuid or device.uuid
        self.devices[device.identity] = self.numbered[index, device.instance] = device
        self.indices.add(index)
        return before is not device

    def miss(self, device: KnownDevice) -> None:
        """Add a device that the host had but that is not there now."""
        device.host = self
        self.devices[device.identity] = device
        self.numbered.setdefault((device.index, device.instance), device)

    def without_uuid(self, index: int, instance: str) -> KnownDevice:
        """Return the device of an index that has no UUID, adding it if it is new."""
        found = self.devices.get((index, instance))
        if found is None:
            found = KnownDevice(self, index, instance)
            self.miss(found)
        return found

    def forget(self, device: KnownDevice) -> None:
        """Remove a device if it is one of this host's."""
        self.devices.pop(device.identity, None)
        if self.numbered.get((device.index, device.instance)) is device:
            del self.numbered[device.index, device.instance]


def last_times(rows: Iterable[tuple[_K, Row]]) -> dict[_K, float]:
    """Return the last time in the series of each key.

    The time of a first sample counts only if there is no other: an earlier one may have had
    another name.
    """
    found, first = dict[_K, float](), dict[_K, float]()
    for key, row in rows:
        if (at := row.number) is not None:
            if FIRST_LABEL in row.labels:
                first[key] = min(at, first.get(key, at))
            else:
                found[key] = max(at, found.get(key, at))
    return {**first, **found}


def uuid_of(labels: Labels, dialect: Dialect) -> SafeText | None:
    """Return the UUID as the driver writes it, None for none."""
    uuid = labels.get(dialect.uuid_label) or ""
    prefix = "" if uuid.startswith(dialect.uuid_prefix) else dialect.uuid_prefix
    return clean(prefix + uuid, NAME_BYTES) if uuid else None


def index_of(labels: Labels, dialect: Dialect) -> int | None:
    """Return NVML's index, None if the labels lack it."""
    return number_of(labels.get(dialect.index_label or dialect.device_label, ""))


def finite(text: str) -> float | None:
    """Return a value as Prometheus writes it, None if it is not a finite, nonnegative number."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= _LARGEST else None


def number_of(text: str) -> int | None:
    """Return a small number in decimal, None for anything else."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS
    return int(text) if is_number else None


def xid_of(labels: Labels, value: float, *, is_dated: bool) -> int | None:
    """Return the code of an XID error, None for none: a label if it is dated, else the value."""
    code = number_of(labels.get(XID_LABEL, "")) if is_dated else int(value)
    return code if code is not None and 0 < code < _MAX_XID else None


def cluster_of(labels: Labels) -> str | None:
    """Return the cluster of a series or a target, None if no label names it."""
    for label in CLUSTER_LABELS:
        if name := labels.get(label):
            return name
    return None


def names_by_label(hosts: Iterable[KnownHost]) -> Names:
    """Return the names of hosts, earlier ones too, by the label that has them, to query them."""
    names: Names = {}
    for host in hosts:
        for each in (host, *host.before):
            for label, value in each.labels.items():
                names.setdefault((label, each.key[0]), []).append(value)
    return names


def named(devices: Iterable[KnownDevice]) -> tuple[Names, set[int]]:
    """Return the hosts of devices by label, and the indices of these devices, to query them."""
    found = list(devices)
    return names_by_label({each.host for each in found}), {each.index for each in found}
