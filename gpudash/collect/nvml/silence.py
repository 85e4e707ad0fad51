"""What is told of a driver whose calls do not come back, or could not be made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import Bus
from gpudash.collect.nvml.library import call_under_way
from gpudash.collect.nvml.tasks import Task
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.model.units import duration

_LONG_SECONDS = 100.0


def excuse(task: Task[Any], whom: str) -> Fault:
    """Return for how long a task is out, and in which call, or that it could not be begun.

    `whom` it asks begins the sentence of one that was not begun.
    """
    if task.has_no_thread:
        message = f"{whom} cannot be asked: the system gives no thread; ulimit -a shows the limits"
        return Fault(source="nvml", code=codes.INSUFFICIENT_RESOURCES, message=clean(message))
    # A thread whose task is back may be in another GPU's call by now.
    call = call_under_way(task.thread) if task.is_out else None
    seconds = task.seconds
    span = f"{seconds:.0f} s" if seconds < _LONG_SECONDS else duration(seconds)
    message = f"driver not answering {span}" + (f", in {call}" if call else "")
    return Fault(source="nvml", code=codes.TIMEOUT, message=clean(message))


def state_by(fault: Fault) -> DeviceState:
    """Return the state of a GPU with such an excuse: one that was not asked is not silent."""
    return "not-answering" if fault.code == codes.TIMEOUT else "failed"


def seen_by_kernel(bus: Bus, addresses: Iterable[str], fault: Fault) -> tuple[Device, ...]:
    """Return the GPUs as the kernel shows them, who all share a fault."""
    return tuple(
        Device(
            index=index,
            pci_bus_id=clean(address),
            state=state_by(fault),
            fault=fault,
            **asdict(bus.identity(address)),
        )
        for index, address in enumerate(addresses)
    )
