"""What exporters call their metrics and labels, as data; and which label names a host.

DCGM's exporter up to 4.8 and since 4.9, nvidia_gpu_exporter, nvitop-exporter and gpudash's own. The
names of DCGM follow from the declarations of `model.device`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import NamedTuple, get_args, get_type_hints

from gpudash.model.dcgm import XID, Generation, dcgm_metric
from gpudash.model.device import AnyDevice, device_fields
from gpudash.model.fleet import JobKind
from gpudash.model.text import NAME_BYTES, SafeText, clean

UTILIZATION = "gpu_utilization_percent"
ENGINE = "graphics_active_percent"
"""Stands in where utilization is not measured, as on MIG instances."""
MEMORY, MEMORY_TOTAL = "memory_used_bytes", "memory_total_bytes"
MEMORY_REST = ("memory_free_bytes", "memory_reserved_bytes")
"""Added to the used memory, they give the total; the reserved part may be unknown."""
POWER, POWER_LIMIT = "power_usage_mw", "enforced_power_limit_mw"
TEMPERATURE, CLOCK = "temperature_celsius", "sm_clock_mhz"
IDENTITY, USERS, XIDS, DATED_XIDS = "identity", "users", "xid", "dated xid"
"""Not fields: GPU labels, users, last XID error, times of XID errors."""
XID_LABEL = "xid"
WORN = "remapped_rows_failed"
"""Set for a GPU that needs replacing: its memory has no spare rows left."""

_TYPES = {name: get_args(kind) for name, kind in get_type_hints(AnyDevice).items()}
FIELDS = tuple(
    name
    for name, types in _TYPES.items()
    if (int in types or float in types) and name != "idle_seconds"
)
"""The fields read of a GPU: every number of `FleetDevice` that is not counted here."""
FRACTIONS = {ENGINE} | {name for name, types in _TYPES.items() if float in types}
"""Fields that may have fractions."""
_SERIES = tuple(dict.fromkeys((*FIELDS, ENGINE, *MEMORY_REST, WORN)))

_GENERATIONS: tuple[Generation, ...] = ("legacy", "4.9")
_EXPORTER = re.compile(r"(nvidia[-_])?(dcgm|gpu|nvitop|smi)[-_](gpu[-_])?exporter|gpudash")
_PORT = re.compile(r"(^[^:]*|\]):\d+$")
_ADDRESS = re.compile(r"\d+(\.\d+){3}|[\da-fA-F]*:[\da-fA-F:.]*")

HOST_LABELS = (
    *("hostname", "Hostname", "kubernetes_node", "node", "nodename", "node_name", "NodeName"),
    *("exported_instance", "instance"),
)
"""Labels that may name a host, by preference, addresses last; the exporter's own pod names none."""
_SPELLINGS = {"hostname": ("hostname", "Hostname"), "Hostname": ("Hostname", "hostname")}
"""One label in DCGM's exporter since 4.8.3 and before: the past of a host may have the other."""
CLUSTER_LABELS = ("cluster", "exported_cluster", "cluster_name", "k8s_cluster")
GROUP_LABELS = ("rack", "partition", "nodepool", "datacenter", "zone", "region")
INSTANCE_LABEL = "GPU_I_ID"
_TARGET_POD_LABELS = ("pod", "namespace")
"""Labels of a GPU's pod if the exporter's labels are honoured, else of the exporter's own pod."""
_POD_LABELS = (
    ("exported_pod", "exported_namespace"),
    ("pod_name", "pod_namespace"),
    _TARGET_POD_LABELS,
)

PERSON_LABELS = (
    "hpc_job",
    *dict.fromkeys(label for pair in _POD_LABELS for label in pair),
    *("job", "service"),
)
"""All labels that show who has a GPU."""

Labels = Mapping[str, str]


class Series(NamedTuple):
    """One metric of an exporter."""

    name: str
    field: str
    """A field of `Device`, or one of the extra values above."""
    factor: float
    """Multiplies its value to give the field's."""
    is_ratio: bool = False
    """Whether some versions report a percentage under this name."""


class Dialect(NamedTuple):
    """The names of one exporter's labels and metrics."""

    name: str
    series: tuple[Series, ...]
    """By field, the preferred name first."""
    device_label: str
    """Distinguishes the GPUs of a host: an index or a UUID."""
    uuid_label: str = "UUID"
    uuid_prefix: str = ""
    """The prefix that its UUIDs lack."""
    model_label: str = "modelName"
    driver_labels: tuple[str, ...] = ()
    index_label: str | None = None
    """For the identity series: NVML's index, if `device_label` is something else."""
    user_label: str | None = None
    """For the users series, which has one series per process."""

    def of(self, field: str) -> tuple[Series, ...]:
        """Return the metrics of a field, the preferred one first."""
        return tuple(each for each in self.series if each.field == field)


def _dcgm_series() -> Iterable[Series]:
    # Some names never changed.
    found: dict[str, Series] = {}
    for generation in _GENERATIONS:
        found[XID[generation]] = Series(XID[generation], XIDS, 1)
        for field in _SERIES:
            metric = dcgm_metric(device_fields()[field], generation)
            if metric is not None:
                is_ratio = metric.name.endswith("_RATIO") and metric.name.startswith("DCGM_FI_DEV")
                series = Series(metric.name, field, 1 / metric.factor, is_ratio)
                found.setdefault(metric.name, series)
    # Not exported by default.
    for name in ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT"):
        found[name] = Series(name, POWER_LIMIT, 1e3)
    return found.values()


_MIB = float(1 << 20)
_SMI = {
    UTILIZATION: ("utilization_gpu_ratio", 100.0),
    MEMORY: ("memory_used_bytes", 1.0),
    MEMORY_TOTAL: ("memory_total_bytes", 1.0),
    TEMPERATURE: ("temperature_gpu", 1.0),
    POWER: ("power_draw_watts", 1e3),
    POWER_LIMIT: ("enforced_power_limit_watts", 1e3),
    CLOCK: ("clocks_current_sm_clock_hz", 1e-6),
    IDENTITY: ("gpu_info", 1.0),
    DATED_XIDS: ("xid_last_timestamp_seconds", 1.0),
}
_NVITOP = {
    UTILIZATION: ("gpu_utilization_Percentage", 1.0),
    MEMORY: ("gpu_memory_used_MiB", _MIB),
    MEMORY_TOTAL: ("gpu_memory_total_MiB", _MIB),
    TEMPERATURE: ("gpu_temperature_C", 1.0),
    POWER: ("gpu_power_usage_W", 1e3),
    POWER_LIMIT: ("gpu_power_limit_W", 1e3),
    CLOCK: ("gpu_clock_sm_MHz", 1.0),
    USERS: ("process_gpu_memory_MiB", 1.0),
}


@cache
def dialects() -> tuple[Dialect, ...]:
    """Return all; for a host with several exporters, the last of them counts."""
    return (
        Dialect(
            "nvidia_gpu_exporter",
            tuple(Series(f"nvidia_smi_{n}", field, by) for field, (n, by) in _SMI.items()),
            device_label="uuid",
            uuid_label="uuid",
            uuid_prefix="GPU-",
            model_label="name",
            driver_labels=("driver_version",),
            index_label="index",
        ),
        Dialect(
            "nvitop-exporter",
            tuple(Series(name, field, by) for field, (name, by) in _NVITOP.items()),
            device_label="index",
            uuid_label="uuid",
            model_label="devicename",
            user_label="username",
        ),
        Dialect(
            "dcgm-exporter",
            tuple(_dcgm_series()),
            device_label="gpu",
            driver_labels=("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION"),
        ),
        Dialect(
            "gpudash",
            tuple(Series(f"gpudash_{field}", field, 1) for field in _SERIES),
            device_label="gpu",
            driver_labels=("DCGM_FI_DRIVER_VERSION",),
        ),
    )


@cache
def known_series() -> Mapping[str, tuple[Dialect, Series]]:
    """Return every known metric, by name."""
    return {each.name: (dialect, each) for dialect in dialects() for each in dialect.series}


class Person(NamedTuple):
    """Who a GPU is allocated to, by its labels."""

    user: str | None
    job: str
    kind: JobKind


def held_by(people: Iterable[Person]) -> tuple[SafeText | None, tuple[SafeText, ...]]:
    """Return the job and the users of a GPU from those who have it."""
    job = min((each.job for each in people), default=None)
    users = sorted({clean(each.user, NAME_BYTES) for each in people if each.user})
    return None if job is None else clean(job, NAME_BYTES), tuple(users)


class LabelChoice(NamedTuple):
    """Which labels of a dialect name hosts, clusters, groups and pods, as found in its series."""

    hosts: tuple[str, ...]
    cluster: str | None
    group: str | None
    exporters: frozenset[str] = frozenset()
    """The prefixes of the names of the exporters' own pods."""
    has_instances: bool = False
    """Whether there are MIG instances."""
    has_ports: bool = False
    """Whether ports distinguish hosts at one address, such as tunnels."""
    has_bare: bool = False
    """Whether devices may lack the metrics that others are known by, such as the utilization."""

    def host(self, labels: Labels) -> tuple[str, str] | None:
        """Return the label that names the host of a series, and the name; None if none does."""
        for label in self.hosts:
            name = named_by(label, labels, self.has_ports)
            if name is not None:
                return label, name
        return None

    def person(self, labels: Labels) -> Person | None:
        """Return who has the GPU; None if unallocated, or if the labels describe the exporter."""
        job = labels.get("hpc_job")
        if job:
            return Person(None, job, "slurm")
        named = next((each for each in _POD_LABELS if labels.get(each[0])), None)
        if named is None:
            return None
        pod, space = labels[named[0]], labels.get(named[1], "")
        is_own = named == _TARGET_POD_LABELS and _stem(pod) in self.exporters
        if is_own or _is_exporter(pod, labels):
            return None
        return Person(space or None, f"{space}/{pod}" if space else pod, "kubernetes")


def choose_labels(rows: Sequence[Labels], host_label: str | None = None) -> LabelChoice:
    """Return the labels to use for series with these labels; `host_label` overrides."""
    names = frozenset(chain.from_iterable(rows))
    if host_label is not None:
        ranked: tuple[str, ...] = (host_label,)
    else:
        there = (label for label in HOST_LABELS if label in names)
        naming = (label for label in there if _names_hosts(label, rows))
        ranked = tuple(sorted(naming, key=lambda label: _are_addresses(label, rows)))
    by = [next((each for each in ranked if named_by(each, row)), None) for row in rows]
    used = {*by}
    hosts = tuple(label for label in ranked if label in used) or ranked[:1] or ("instance",)
    if host_label is None:
        spellings = (_SPELLINGS.get(label, (label,)) for label in hosts)
        hosts = tuple(dict.fromkeys(chain.from_iterable(spellings)))
    kinds = {(row.get("__name__", ""), INSTANCE_LABEL in row) for row in rows}
    own, (theirs, older, _) = _TARGET_POD_LABELS[0], (label for label, _ in _POD_LABELS)
    return LabelChoice(
        hosts,
        next((label for label in CLUSTER_LABELS if label in names), None),
        next((label for label in GROUP_LABELS if label in names), None),
        # If a GPU's pod has labels of its own, the target's pod is the exporter's.
        frozenset(
            _stem(row[own]) for row in rows if row.get(own) and (row.get(theirs) or row.get(older))
        ),
        INSTANCE_LABEL in names,
        _need_ports(row for row, label in zip(rows, by, strict=True) if label == "instance"),
        any(_is_bare(*each) for each in kinds),
    )


@lru_cache(maxsize=1 << 16)
def host_name(instance: str) -> str:
    """Return the host of `host:port`; called for each new series."""
    return _PORT.sub(r"\1", instance).removeprefix("[").removesuffix("]") or instance


def named_by(label: str, labels: Labels, has_ports: bool = False) -> str | None:
    """Return the host that one label names, None for none or for an exporter's own pod.

    With `has_ports`, a target's host is its whole address.
    """
    value = labels.get(label, "")
    if not value or _EXPORTER.match(value):
        return None
    return host_name(value) if label.endswith("instance") and not has_ports else value


def _names_hosts(label: str, rows: Sequence[Labels]) -> bool:
    """Whether a label distinguishes hosts: one value for several targets does not.

    Unless these have the same GPUs: then they are several exporters of one host.
    """
    having = [row for row in rows if named_by(label, row)]
    values = {row[label] for row in having}
    if len(values) != 1:
        return len(values) > 1
    gpus: dict[str | None, set[str | None]] = {}
    for row in having:
        gpus.setdefault(row.get("instance"), set()).add(row.get("UUID") or row.get("uuid"))
    first, *others = gpus.values()
    return all(each == first and None not in each for each in others)


def _need_ports(rows: Iterable[Labels]) -> bool:
    """Whether one address has several GPUs with the same index."""
    gpus: dict[tuple[str | None, ...], str] = {}
    for row in rows:
        index, uuid = row.get("gpu") or row.get("index"), row.get("UUID") or row.get("uuid")
        instance = row.get("instance")
        if instance and index and uuid:
            clusters = map(row.get, CLUSTER_LABELS)
            if gpus.setdefault((host_name(instance), index, *clusters), uuid) != uuid:
                return True
    return False


def _are_addresses(label: str, rows: Sequence[Labels]) -> bool:
    """Whether a label has only addresses, as nvitop-exporter's `hostname` by default."""
    return all(map(is_address, filter(None, (named_by(label, row) for row in rows))))


def is_address(name: str) -> bool:
    """Whether a host's name is only an address."""
    return _ADDRESS.fullmatch(name) is not None


def _is_bare(metric: str, is_instance: bool) -> bool:
    """Whether a series of a device or MIG instance is not one of those that most have."""
    known = known_series().get(metric)
    if known is None:
        return False
    return known[1].field in (MEMORY, TEMPERATURE, POWER, *(() if is_instance else (ENGINE,)))


def _stem(pod: str) -> str:
    """Return the name of a pod without the suffix that distinguishes it from its replicas."""
    return pod.rpartition("-")[0] or pod


def _is_exporter(pod: str, labels: Labels) -> bool:
    names = (labels.get("job", ""), labels.get("service", ""))
    return bool(_EXPORTER.match(pod)) or any(name and pod.startswith(name) for name in names)
