"""What is told of a driver whose calls do not come back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from gpudash.snapshot import Device, Fault
from gpudash.sources.nvml.bus import Bus
from gpudash.sources.nvml.library import call_under_way
from gpudash.sources.nvml.tasks import Task
from gpudash.text import SafeText, clean
from gpudash.units import duration

_LONG_SECONDS = 100.0


def silence(task: Task[Any]) -> SafeText:
    """Return for how long a task is out, and in which call."""
    call, seconds = call_under_way(task.thread), task.seconds
    span = f"{seconds:.0f} s" if seconds < _LONG_SECONDS else duration(seconds)
    return clean(f"driver not answering {span}" + (f", in {call}" if call else ""))


def seen_by_kernel(bus: Bus, addresses: Iterable[str], fault: Fault) -> tuple[Device, ...]:
    """Return the GPUs as the kernel shows them, who all share a fault."""
    return tuple(
        Device(
            index=index,
            pci_bus_id=clean(address),
            state="not-answering",
            fault=fault,
            **asdict(bus.identity(address)),
        )
        for index, address in enumerate(addresses)
    )
