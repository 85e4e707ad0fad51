"""Lists in nvidia-smi -q of a GPU: processes, clocks, retired pages, samples."""

from __future__ import annotations

from collections.abc import Sequence
from time import ctime
from typing import NamedTuple

from gpudash.analysis.usage import is_unlisted
from gpudash.model.device import Device
from gpudash.model.records import SampleBuffer
from gpudash.model.snapshot import Snapshot
from gpudash.output.smi_table import by_instance_and_pid, mebibytes, program

ABSENT = "N/A"


class Node(NamedTuple):
    """A line's result; without a value it is a heading, without nodes an empty list."""

    label: str
    element: str
    value: str | None
    nodes: tuple[Node, ...] = ()


def supported_clocks(_snapshot: Snapshot, device: Device) -> Sequence[Node] | None:
    """Return the available clocks, by that of the memory; None if none are known."""
    if not device.supported_clocks:
        return None
    return [
        Node(
            "",
            "supported_mem_clock",
            None,
            (
                Node(
                    "Memory",
                    "value",
                    f"{clocks.memory_clock_mhz} MHz",
                    tuple(
                        Node("Graphics", "supported_graphics_clock", f"{graphics} MHz")
                        for graphics in clocks.graphics_clocks_mhz
                    ),
                ),
            ),
        )
        for clocks in device.supported_clocks
    ]


def processes(snapshot: Snapshot, device: Device) -> Sequence[Node] | None:
    """Return the processes on a GPU by instance and PID; None if unknown."""
    uses = snapshot.uses_of(device)
    if not uses and is_unlisted(device, snapshot):
        return None
    found = []
    for process, share in sorted(uses, key=by_instance_and_pid):
        size = _number(mebibytes(share.used_gpu_memory_bytes), " MiB")
        below = (
            Node("Type", "type", share.type or ABSENT),
            Node("Name", "process_name", program(process) or "[Not Found]"),
            Node("Used GPU Memory", "used_memory", size),
        )
        lines = (
            Node("GPU instance ID", "gpu_instance_id", _number(share.gpu_instance_id)),
            Node("Compute instance ID", "compute_instance_id", _number(share.compute_instance_id)),
            Node("Process ID", "pid", str(process.pid), below),
        )
        found.append(Node("", "process_info", None, lines))
    return found


def accounted_processes(_snapshot: Snapshot, device: Device) -> Sequence[Node] | None:
    """Return the driver's records of processes; None if it keeps none."""
    if not device.accounted_processes:
        return None if device.accounting_mode is None else ()
    found = []
    for process in device.accounted_processes:
        size = _number(mebibytes(process.max_gpu_memory_bytes), " MiB")
        below = (
            Node("GPU Utilization", "gpu_util", _number(process.gpu_utilization_percent, " %")),
            Node(
                "Memory Utilization",
                "memory_util",
                _number(process.memory_utilization_percent, " %"),
            ),
            Node("Max memory usage", "max_memory_usage", size),
            Node("Time", "time", f"{(process.active_seconds or 0) * 1000:.0f} ms"),
            Node("Is Running", "is_running", str(int(process.is_running))),
        )
        line = Node("Process ID", "pid", str(process.pid), below)
        found.append(Node("", "accounted_process_info", None, (line,)))
    return found


def retired_pages(device: Device, cause: str) -> Sequence[Node] | None:
    """Return the pages retired for a cause; None if unknown."""
    if device.retired_pages is None:
        return None
    found = []
    for page in device.retired_pages:
        if page.cause == cause:
            lines = [Node("", "retired_page_address", f"0x{page.address:016x}")]
            if page.retired_at is not None:
                lines.append(Node("", "retired_page_timestamp", ctime(page.retired_at)))
            found.append(Node("", "retired_page", None, tuple(lines)))
    return found


def samples(device: Device, name: str, form: str) -> Sequence[Node]:
    """Return a summary of the driver's samples of a measure, formatted by `form`."""
    buffers: Sequence[SampleBuffer] = getattr(device, "sample_buffers", None) or ()
    found = [each for each in buffers if each.name == name]
    if not found:
        labels = "Duration", "Number of Samples", "Max", "Min", "Avg"
        return [Node(label, "", ABSENT) for label in labels]
    buffer = found[0]
    scale = 1000 if name == "power" else 1
    # Integers are truncated, not rounded.
    average = buffer.average / 1000 if name == "power" else int(buffer.average)
    return [
        Node("Duration", "", f"{buffer.seconds:.2f} sec"),
        Node("Number of Samples", "", str(buffer.count)),
        Node("Max", "", form.format(buffer.max / scale)),
        Node("Min", "", form.format(buffer.min / scale)),
        Node("Avg", "", form.format(average)),
    ]


def _number(value: int | str | None, unit: str = "") -> str:
    return ABSENT if value is None else f"{value}{unit}"
