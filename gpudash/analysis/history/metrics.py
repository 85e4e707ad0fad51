"""Which numbers are kept for charts, and how they are taken from a snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from gpudash.model.device import Device, device_fields
from gpudash.model.snapshot import Host
from gpudash.model.units import Unit

Row = Sequence[float | None]

_charted = [field for field in device_fields().values() if field.chart]
DEVICE_METRICS = tuple(
    field.name for field in sorted(_charted, key=lambda field: field.unit is not Unit.PERCENT)
)
"""What is kept of a device, the percentages first."""

PROCESS_METRICS = ("used_gpu_memory_bytes", "sm_utilization_percent", "cpu_percent")
"""What is kept of a process, over all its devices."""

HOST_METRICS = ("cpu_percent", "memory_used_bytes", "swap_used_bytes", "load_average")
"""What is kept of a host; of its load averages the one over a minute."""

_device_row = attrgetter(*DEVICE_METRICS)


def device_row(device: Device) -> Row:
    """Return the values of DEVICE_METRICS."""
    row: Row = _device_row(device)
    return row


def host_row(host: Host) -> Row:
    """Return the values of HOST_METRICS."""
    load = host.load_average[0] if host.load_average else None
    return host.cpu_percent, host.memory_used_bytes, host.swap_used_bytes, load
