"""A snapshot in Prometheus' text format: all metrics by gpudash's names, common ones by DCGM's.

For `gpudash serve`, and for node_exporter's textfile collector. Dashboards made for dcgm-exporter
read the DCGM names. Processes are left out, as their labels would be endless; their totals per user
are included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from gpudash.analysis.health.findings import findings
from gpudash.analysis.labels import short_name
from gpudash.analysis.minutes import Does, UserGpus, gpus_of_users, held_gpus
from gpudash.analysis.usage import is_unlisted, users
from gpudash.model.dcgm import XID, Generation, dcgm_metric
from gpudash.model.device import Device, DeviceState, device_fields
from gpudash.model.errors import ExitStatus
from gpudash.model.fields import Field
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.model.text import SafeText

DcgmNames = Literal["legacy", "4.9", "both"]
"""Names and units of dcgm-exporter: up to 4.8, since 4.9, or both."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_HELP_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n"})
_IDENTITY = frozenset({"index", "minor_number", "gpu_instance_id", "compute_instance_id"})
Labels = Mapping[str, str | None]


class _Metric(NamedTuple):
    """A name with its samples: labels and a value."""

    name: str
    help: str
    samples: Sequence[tuple[str, float]]
    type: str = "gauge"

    def lines(self) -> Iterator[str]:
        """Yield help and type, then a line per sample; nothing without samples."""
        if self.samples:
            yield f"# HELP {self.name} {self.help.translate(_HELP_ESCAPES)}"
            yield f"# TYPE {self.name} {self.type}"
        for labels, value in self.samples:
            braces = f"{{{labels}}}" if labels else ""
            yield f"{self.name}{braces} {value:.17g}"


def is_up(snapshot: Snapshot) -> bool:
    """Return whether the driver answered, even if there is no GPU."""
    codes = {fault.code for fault in snapshot.errors if fault.source == "nvml"}
    return codes <= {ExitStatus.NO_GPU}


def down() -> str:
    """Return the document of a host whose driver does not answer."""
    return _text([_up(False)])


def render(snapshot: Snapshot, names: DcgmNames = "legacy") -> str:
    """Return all metrics, each with help and type; unknown values are left out."""
    labels = {device.key: _labels(device, snapshot, "gpudash") for device in snapshot.devices}
    metrics: list[_Metric] = [
        _up(is_up(snapshot)),
        _Metric(
            "gpudash_sample_timestamp_seconds",
            "When these values were read, Unix time.",
            [("", snapshot.taken_at.timestamp())],
        ),
        _states(snapshot, labels),
        *(_native(field, snapshot, labels) for field in device_fields().values()),
        _held(snapshot, labels),
        _findings(snapshot),
        *_users(snapshot),
    ]
    if names != "4.9":
        metrics += _dcgm(snapshot, "legacy")
    if names != "legacy":
        # A metric with the same name in both may occur only once.
        known = {metric.name for metric in metrics}
        metrics += (each for each in _dcgm(snapshot, "4.9") if each.name not in known)
    return _text(metrics)


def _text(metrics: Iterable[_Metric]) -> str:
    return "".join(f"{line}\n" for metric in metrics for line in metric.lines())


def _up(answered: bool) -> _Metric:
    return _Metric("gpudash_up", "Whether the driver answered.", [("", answered)])


def _states(snapshot: Snapshot, labels: Mapping[str, str]) -> _Metric:
    """Return a sample per state of each device: a hanging GPU must not look idle."""
    samples = [
        (f'{labels[device.key]},state="{state}"', device.state == state)
        for device in snapshot.devices
        for state in get_args(DeviceState)
    ]
    return _Metric("gpudash_gpu_state", "Whether the device is in this state.", samples)


def _held(snapshot: Snapshot, labels: Mapping[str, str]) -> _Metric:
    """Return a sample per activity of each GPU for which it is known whether it is held.

    A report of many hosts is based on these.
    """
    held = held_gpus(snapshot)
    samples = [
        (f'{labels[gpu.key]},activity="{does}"', float(held.get(gpu.key) == does))
        for gpu in whole_gpus(snapshot)
        if not is_unlisted(gpu, snapshot)
        for does in get_args(Does)
    ]
    text = "Whether the GPU is held and is idle, works, or which of both is unknown."
    return _Metric("gpudash_gpu_held", text, samples)


def _native(field: Field, snapshot: Snapshot, labels: Mapping[str, str]) -> _Metric:
    """Return a metric under gpudash's own name, in its own unit.

    Counters are gauges too: the name of a counter must end in `_total`, and some readers append
    that if it is missing.
    """
    values = [] if field.name in _IDENTITY else _values(field, snapshot)
    samples = [(labels[device.key], value) for device, value in values]
    return _Metric(f"gpudash_{field.name}", field.help, samples)


def _findings(snapshot: Snapshot) -> _Metric:
    """Return the findings by rule and GPU; without a GPU if it is about the host."""
    samples = {
        _joined({"rule": found.rule, "level": found.level, "gpu": str(index)}): 1.0
        for found in findings(snapshot)
        for index in found.indices or ("",)
    }
    text = "What is wrong, a sample for each GPU that it concerns."
    return _Metric("gpudash_finding", text, list(samples.items()))


def _users(snapshot: Snapshot) -> Iterator[_Metric]:
    """Yield the holdings of each user; one sample is for all unknown users."""
    found = {user.name: user for user in users(snapshot)}
    totals = {
        "gpudash_user_gpus": ("GPUs that processes of this user are on.", "devices"),
        "gpudash_user_memory_bytes": ("GPU memory that they hold.", "memory_used_bytes"),
        "gpudash_user_idle_memory_bytes": (
            "The part of it that is held by processes that run nothing.",
            "idle_memory_bytes",
        ),
    }
    for name, (text, attribute) in totals.items():
        values = [(user, getattr(each, attribute)) for user, each in found.items()]
        yield _of_users(name, text, [each for each in values if each[1] is not None])
    # A GPU may be held by something that no process list has.
    held = dict.fromkeys(found, UserGpus()) | gpus_of_users(snapshot)
    parts = {
        "gpudash_user_held_gpus": ("GPUs that this user holds.", "held"),
        "gpudash_user_idle_gpus": ("GPUs that this user holds idle.", "idle"),
        "gpudash_user_unknown_gpus": (
            "GPUs that this user holds of which it is not known whether they compute.",
            "unknown",
        ),
        "gpudash_user_gpu_shares": (
            "GPUs that this user holds, each divided among all who hold it.",
            "shares",
        ),
    }
    for name, (text, attribute) in parts.items():
        yield _of_users(
            name, text, [(user, getattr(each, attribute)) for user, each in held.items()]
        )


def _of_users(name: str, text: str, values: Iterable[tuple[SafeText | None, float]]) -> _Metric:
    return _Metric(name, text, [(_joined({"user": user or ""}), value) for user, value in values])


def _dcgm(snapshot: Snapshot, dialect: Generation) -> Iterator[_Metric]:
    """Yield metrics as dcgm-exporter does, in its units."""
    labels = {device.key: _labels(device, snapshot, dialect) for device in snapshot.devices}
    for field in device_fields().values():
        metric = dcgm_metric(field, dialect)
        if metric is None:
            continue
        note = f" ({metric.note})" if metric.note else ""
        samples = [
            (labels[device.key], value * metric.factor)
            for device, value in _values(field, snapshot)
        ]
        text = f"{field.help.removesuffix('.')}{note}."
        yield _Metric(metric.name, text, samples, "counter" if field.counter else "gauge")
    samples = []
    for device in snapshot.devices:
        if device.xid_events is not None and not device.is_mig:
            code = next((event.code for event in reversed(device.xid_events) if event.code), 0)
            samples.append((f'{labels[device.key]},err_code="{code}"', float(code)))
    yield _Metric(XID[dialect], "The last XID error since gpudash started, 0 for none.", samples)


def _values(field: Field, snapshot: Snapshot) -> list[tuple[Device, float]]:
    """Return the numbers of a metric; unknown values and texts are left out."""
    values = ((device, getattr(device, field.name)) for device in snapshot.devices)
    return [(device, float(value)) for device, value in values if isinstance(value, int | float)]


def _labels(device: Device, snapshot: Snapshot, dialect: str) -> str:
    """Return the labels of a device; those of a MIG instance name its GPU, as DCGM's do."""
    indices = {gpu.uuid: gpu.index for gpu in whole_gpus(snapshot)}
    gpu = indices.get(device.parent_uuid, device.index) if device.is_mig else device.index
    minor = device.minor_number
    instance = device.gpu_instance_id
    version = "DCGM_FI_SYSTEM_DRIVER_VERSION" if dialect == "4.9" else "DCGM_FI_DRIVER_VERSION"
    return _joined(
        {
            "gpu": str(gpu),
            "UUID": device.uuid,
            "pci_bus_id": device.pci_bus_id,
            "device": None if minor is None else f"nvidia{minor}",
            "modelName": device.name,
            "Hostname" if dialect == "legacy" else "hostname": snapshot.host.hostname,
            "GPU_I_PROFILE": short_name(device).removeprefix("MIG ") if device.is_mig else None,
            "GPU_I_ID": None if instance is None else str(instance),
            version: snapshot.host.driver_version,
        }
    )


def _joined(labels: Labels) -> str:
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"'
        for name, value in labels.items()
        if value is not None
    )
