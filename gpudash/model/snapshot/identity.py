"""What a device is, how it is doing and how much memory it has."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.model.fields import Group, metric
from gpudash.model.snapshot.fault import Fault
from gpudash.model.snapshot.holder import Holder
from gpudash.model.text import SafeText
from gpudash.model.units import Unit

DeviceState = Literal[
    "ok", "asleep", "resting", "not-answering", "lost", "reset-required", "failed"
]

_identity = partial(metric, Group.IDENTITY)
_state = partial(metric, Group.STATE)
_memory = partial(metric, Group.MEMORY)


class DeviceIdentity(Struct, frozen=True, kw_only=True):
    """The first part of a Device: identity, state and memory."""

    # fmt: off
    index: Annotated[int, _identity(Unit.NONE,
        "NVML's index, in PCI order; of a MIG instance its number within the parent.",
        nvml="nvmlDeviceGetIndex")]
    uuid: Annotated[SafeText | None, _identity(Unit.NONE,
        "Identity, stable over reboots; null only if the GPU was lost before it was read.",
        nvml="nvmlDeviceGetUUID")] = None
    parent_uuid: Annotated[SafeText | None, _identity(Unit.NONE,
        "The GPU that a MIG instance is part of, else null.")] = None
    name: Annotated[SafeText | None, _identity(Unit.NONE,
        "Product name.", nvml="nvmlDeviceGetName")] = None
    pci_bus_id: Annotated[SafeText | None, _identity(Unit.NONE,
        "PCI address as domain:bus:device.function.", nvml="nvmlDeviceGetPciInfo")] = None
    minor_number: Annotated[int | None, _identity(Unit.NONE,
        "N of the device node /dev/nvidiaN.", nvml="nvmlDeviceGetMinorNumber")] = None
    serial: Annotated[SafeText | None, _identity(Unit.NONE,
        "Serial number printed on the board; consumer boards have none.",
        nvml="nvmlDeviceGetSerial")] = None
    board_part_number: Annotated[SafeText | None, _identity(Unit.NONE,
        "Part number programmed into the board.", nvml="nvmlDeviceGetBoardPartNumber")] = None
    vbios_version: Annotated[SafeText | None, _identity(Unit.NONE,
        "Version of the VBIOS.", nvml="nvmlDeviceGetVbiosVersion")] = None
    architecture: Annotated[str | None, _identity(Unit.NONE,
        "Chip architecture by name.", nvml="nvmlDeviceGetArchitecture")] = None
    compute_capability: Annotated[str | None, _identity(Unit.NONE,
        "CUDA compute capability as major.minor.",
        nvml="nvmlDeviceGetCudaComputeCapability")] = None
    core_count: Annotated[int | None, _identity(Unit.COUNT,
        "Number of CUDA cores.", nvml="nvmlDeviceGetNumGpuCores")] = None

    state: Annotated[DeviceState, _state(Unit.NONE,
        "ok, asleep (powered down, not woken to be read), resting (left alone so that it can fall "
        "asleep), not-answering (a call to it has not come back), lost (off the bus), "
        "reset-required, or failed (its calls fail for another reason).")] = "ok"
    fault: Annotated[Fault | None, _state(Unit.NONE,
        "Why the state is not ok, null if it is or if asleep.")] = None

    memory_total_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Physical device memory.", nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_reserved_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Memory that driver and firmware keep for themselves.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_used_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Allocated memory; without the reserved part where the driver tells it apart.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_free_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Unallocated memory.", nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    memory_unaccounted_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Used memory that no listed process owns: contexts, other namespaces, orphans; null if "
        "the processes, their shares or the reserved part are not known.")] = None
    bar1_total_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Size of the BAR1 window through which CPU and peers reach the memory.",
        nvml="nvmlDeviceGetBAR1MemoryInfo")] = None
    bar1_used_bytes: Annotated[int | None, _memory(Unit.BYTE,
        "Mapped part of the BAR1 window.", nvml="nvmlDeviceGetBAR1MemoryInfo")] = None
    unified_memory: Annotated[bool | None, _memory(Unit.NONE,
        "Whether GPU and CPUs share one memory (Jetson, GB10): its sizes are then the host's.",
        nvml="nvmlDeviceGetMemoryInfo_v2")] = None
    addressing_mode: Annotated[str | None, _memory(Unit.NONE,
        "How the GPU reaches what programs allocate on the host: none, hmm or ats.",
        nvml="nvmlDeviceGetAddressingMode")] = None
    holders: Annotated[tuple[Holder, ...] | None, _memory(Unit.NONE,
        "Processes that have its node open although the driver lists them on no GPU; looked for "
        "only while much of its memory is unaccounted for.")] = None
    holders_complete: Annotated[bool | None, _memory(Unit.NONE,
        "Whether all processes of the host could be looked at for that; root outside of "
        "containers only.")] = None
    # fmt: on
