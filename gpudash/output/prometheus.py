"""A snapshot in Prometheus' text format: every metric by gpudash's name, the usual ones by DCGM's.

Meant for node_exporter's textfile collector, so there is no port and no listener. Dashboards made
for dcgm-exporter read the DCGM names. Processes are not told: their labels would never end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, get_args

from gpudash.model.device import Device, DeviceState, device_fields
from gpudash.model.fields import Field
from gpudash.model.snapshot import Snapshot

_MIB = 1 << 20
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_IDENTITY = frozenset({"index", "minor_number", "gpu_instance_id", "compute_instance_id"})


class _Dcgm(NamedTuple):
    """A metric as dcgm-exporter names it."""

    name: str
    help: str
    value: Callable[[Device], float | None]


def _scaled(key: str, divisor: float) -> Callable[[Device], float | None]:
    def value(device: Device) -> float | None:
        number = getattr(device, key)
        return None if number is None else number / divisor

    return value


_DCGM = (
    _Dcgm("GPU_UTIL", "GPU utilization (in %).", lambda d: d.gpu_utilization_percent),
    _Dcgm("MEM_COPY_UTIL", "Memory utilization (in %).", lambda d: d.memory_utilization_percent),
    _Dcgm("ENC_UTIL", "Encoder utilization (in %).", lambda d: d.encoder_utilization_percent),
    _Dcgm("DEC_UTIL", "Decoder utilization (in %).", lambda d: d.decoder_utilization_percent),
    _Dcgm("FB_USED", "Frame buffer used (in MiB).", _scaled("memory_used_bytes", _MIB)),
    _Dcgm("FB_FREE", "Frame buffer free (in MiB).", _scaled("memory_free_bytes", _MIB)),
    _Dcgm("FB_RESERVED", "Frame buffer reserved (in MiB).", _scaled("memory_reserved_bytes", _MIB)),
    _Dcgm("GPU_TEMP", "GPU temperature (in C).", lambda d: d.temperature_celsius),
    _Dcgm("MEMORY_TEMP", "Memory temperature (in C).", lambda d: d.memory_temperature_celsius),
    _Dcgm("POWER_USAGE", "Power draw (in W).", _scaled("power_usage_mw", 1000)),
    _Dcgm("TOTAL_ENERGY_CONSUMPTION", "Energy since boot (in mJ).", lambda d: d.total_energy_mj),
    _Dcgm("SM_CLOCK", "SM clock frequency (in MHz).", lambda d: d.sm_clock_mhz),
    _Dcgm("MEM_CLOCK", "Memory clock frequency (in MHz).", lambda d: d.memory_clock_mhz),
    _Dcgm("PCIE_REPLAY_COUNTER", "PCIe retries.", lambda d: d.pcie_replay_count),
    _Dcgm(
        "CORRECTABLE_REMAPPED_ROWS",
        "Rows remapped for correctable errors.",
        lambda d: d.remapped_rows_corrected_count,
    ),
    _Dcgm(
        "UNCORRECTABLE_REMAPPED_ROWS",
        "Rows remapped for uncorrectable errors.",
        lambda d: d.remapped_rows_uncorrected_count,
    ),
    _Dcgm("ROW_REMAP_FAILURE", "Whether remapping failed.", lambda d: d.remapped_rows_failed),
)
_PROFILE = (
    _Dcgm("SM_ACTIVE", "Share of time SMs were active.", _scaled("sm_active_percent", 100)),
    _Dcgm("SM_OCCUPANCY", "Share of warps resident.", _scaled("sm_occupancy_percent", 100)),
    _Dcgm("PIPE_TENSOR_ACTIVE", "Share of time.", _scaled("tensor_active_percent", 100)),
    _Dcgm("DRAM_ACTIVE", "Share of time.", _scaled("dram_active_percent", 100)),
    _Dcgm("PIPE_FP64_ACTIVE", "Share of time.", _scaled("fp64_active_percent", 100)),
    _Dcgm("PIPE_FP32_ACTIVE", "Share of time.", _scaled("fp32_active_percent", 100)),
    _Dcgm("PIPE_FP16_ACTIVE", "Share of time.", _scaled("fp16_active_percent", 100)),
)


_UP = "# HELP gpudash_up Whether the driver answered.\n# TYPE gpudash_up gauge\ngpudash_up "
_NO_GPU = 6

DOWN = f"{_UP}0\n"
"""The document of a host whose driver does not answer."""


def render(snapshot: Snapshot) -> str:
    """Return all metrics, each under its help and type; what is not known is left out."""
    labels = {device.key: _labels(device, snapshot) for device in snapshot.devices}
    troubles = {fault.code for fault in snapshot.errors if fault.source == "nvml"}
    lines = [f"{_UP}{int(troubles <= {_NO_GPU})}", *_states(snapshot, labels)]
    for field in device_fields().values():
        lines += _native(field, snapshot, labels)
    for prefix, metrics in (("DCGM_FI_DEV_", _DCGM), ("DCGM_FI_PROF_", _PROFILE)):
        for metric in metrics:
            values = ((device, metric.value(device)) for device in snapshot.devices)
            lines += _block(prefix + metric.name, metric.help, values, labels)
    return "".join(f"{line}\n" for line in lines)


def _states(snapshot: Snapshot, labels: dict[str, str]) -> Iterator[str]:
    """Yield one line per state of each device: a GPU that hangs must not look like an idle one."""
    yield "# HELP gpudash_gpu_state Whether the device is in this state."
    yield "# TYPE gpudash_gpu_state gauge"
    for device in snapshot.devices:
        for state in get_args(DeviceState):
            is_in = int(device.state == state)
            yield f'gpudash_gpu_state{{{labels[device.key]},state="{state}"}} {is_in}'


def _native(field: Field, snapshot: Snapshot, labels: dict[str, str]) -> Iterator[str]:
    if field.name in _IDENTITY:
        return
    values = ((device, getattr(device, field.name)) for device in snapshot.devices)
    yield from _block(f"gpudash_{field.name}", field.help, values, labels)


def _block(
    name: str,
    help: str,
    values: Iterator[tuple[Device, object]],
    labels: dict[str, str],
) -> Iterator[str]:
    told = [(d, value) for d, value in values if isinstance(value, int | float)]
    if not told:
        return
    yield f"# HELP {name} {help.translate(_ESCAPES)}"
    # Also for what counts up: a counter's name would have to end in _total.
    yield f"# TYPE {name} gauge"
    for device, value in told:
        yield f"{name}{{{labels[device.key]}}} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, bool) else f"{value:.17g}"


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
