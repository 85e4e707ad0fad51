"""A snapshot in Prometheus' text format: every metric by gpudash's name, the usual ones by DCGM's.

Meant for node_exporter's textfile collector, so there is no port and no listener. Dashboards made
for dcgm-exporter read the DCGM names. Processes are left out: their labels would never end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import get_args

from gpudash.model.device import Device, DeviceState, device_fields
from gpudash.model.errors import ExitStatus
from gpudash.model.fields import Field
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import Unit

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_IDENTITY = frozenset({"index", "minor_number", "gpu_instance_id", "compute_instance_id"})
_DCGM_UNITS = {Unit.BYTE: (1 << 20, "in MiB"), Unit.MILLIWATT: (1000, "in W")}
"""What a value is divided by for DCGM, which has units of its own, and the note in its help."""
_DCGM_RATIO = (100, "as a ratio")
"""The same for what DCGM profiles: percentages here, 0 to 1 there."""
_UP = "# HELP gpudash_up Whether the driver answered.\n# TYPE gpudash_up gauge\ngpudash_up "

DOWN = f"{_UP}0\n"
"""The document of a host whose driver does not answer."""


def render(snapshot: Snapshot) -> str:
    """Return all metrics, each under its help and type; what is not known is left out."""
    labels = {device.key: _labels(device, snapshot) for device in snapshot.devices}
    codes = {fault.code for fault in snapshot.errors if fault.source == "nvml"}
    lines = [f"{_UP}{int(codes <= {ExitStatus.NO_GPU})}", *_states(snapshot, labels)]
    for field in device_fields().values():
        lines += _native(field, snapshot, labels)
        lines += _dcgm(field, snapshot, labels)
    return "".join(f"{line}\n" for line in lines)


def _states(snapshot: Snapshot, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield one line per state of each device: a GPU that hangs must not look like an idle one."""
    yield "# HELP gpudash_gpu_state Whether the device is in this state."
    yield "# TYPE gpudash_gpu_state gauge"
    for device in snapshot.devices:
        for state in get_args(DeviceState):
            is_in = int(device.state == state)
            yield f'gpudash_gpu_state{{{labels[device.key]},state="{state}"}} {is_in}'


def _native(field: Field, snapshot: Snapshot, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a metric under gpudash's own name, in its own unit.

    What counts up is a gauge too: the name of a counter has to end in `_total`, and some readers
    append that where it is missing.
    """
    values = _values(field, snapshot)
    if values and field.name not in _IDENTITY:
        name = f"gpudash_{field.name}"
        yield from _heading(name, field.help, "gauge")
        for device, value in values:
            yield f"{name}{{{labels[device.key]}}} {value:.17g}"


def _dcgm(field: Field, snapshot: Snapshot, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield a metric as dcgm-exporter does, in DCGM's unit; nothing if DCGM has no such metric."""
    name, values = field.dcgm, _values(field, snapshot)
    if name is None or not values:
        return
    is_profiled = name.startswith("DCGM_FI_PROF_")
    divisor, unit = _DCGM_RATIO if is_profiled else _DCGM_UNITS.get(field.unit, (1, ""))
    note = f" ({unit})" if unit else ""
    yield from _heading(
        name, field.help.removesuffix(".") + note + ".", "counter" if field.counter else "gauge"
    )
    for device, value in values:
        yield f"{name}{{{labels[device.key]}}} {value / divisor:.17g}"


def _values(field: Field, snapshot: Snapshot) -> list[tuple[Device, float]]:
    """Return the numbers of a metric; what is not known, or is text, is left out."""
    values = ((device, getattr(device, field.name)) for device in snapshot.devices)
    return [(device, float(value)) for device, value in values if isinstance(value, int | float)]


def _heading(name: str, help: str, type: str) -> tuple[str, str]:
    return f"# HELP {name} {help.translate(_ESCAPES)}", f"# TYPE {name} {type}"


def _labels(device: Device, snapshot: Snapshot) -> str:
    pairs = {
        "gpu": str(device.index),
        "UUID": device.uuid,
        "pci_bus_id": device.pci_bus_id,
        "modelName": device.name,
        "hostname": snapshot.host.hostname,
        "GPU_I_ID": None if device.gpu_instance_id is None else str(device.gpu_instance_id),
        "DCGM_FI_DRIVER_VERSION": snapshot.host.driver_version,
    }
    return ",".join(
        f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs.items() if value
    )
