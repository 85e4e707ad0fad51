"""Everything gpudash knows about a host at one instant, frozen; no I/O.

Each field is declared once, with its group, unit, help sentence and NVML call; JSON, its schema,
the detail screen and the reference tables follow from that. A field that is None is a value the
device does not have, the driver did not give or the caller may not see; 0 means zero.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Annotated, Literal

from msgspec import Meta, Struct

from gpudash.metric import Group, metric
from gpudash.units import Unit

SCHEMA = 1
"""Version of the document; it only grows: fields are added, never renamed or removed."""

DeviceState = Literal["ok", "asleep", "lost", "reset-required", "failed"]
P2PStatus = Literal["X", "OK", "CNS", "GNS", "TNS", "DR", "NS", "U"]
JobKind = Literal["container", "pod", "slurm", "unit"]


class Fault(Struct, frozen=True, kw_only=True):
    """Why something could not be read, in one line for people."""

    source: Annotated[str, metric(Group.STATE, Unit.NONE, "What failed: nvml, host or processes.")]
    message: Annotated[str, metric(Group.STATE, Unit.NONE, "What failed and what to do, one line.")]
    code: Annotated[
        int | None, metric(Group.STATE, Unit.NONE, "NVML's return value, null for other sources.")
    ] = None
    uuid: Annotated[
        str | None, metric(Group.STATE, Unit.NONE, "The device it concerns, null for the host.")
    ] = None


class Device(Struct, frozen=True, kw_only=True):
    """A GPU, or a MIG instance of one, at one instant."""

    # Identity
    index: Annotated[
        int,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "NVML's index, in PCI order; of a MIG instance its number within the parent.",
            nvml="nvmlDeviceGetIndex",
        ),
    ]
    uuid: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "Identity, stable over reboots; null only if the GPU was lost before it was read.",
            nvml="nvmlDeviceGetUUID",
        ),
    ] = None
    parent_uuid: Annotated[
        str | None,
        metric(Group.IDENTITY, Unit.NONE, "The GPU that a MIG instance is part of, else null."),
    ] = None
    name: Annotated[
        str | None,
        metric(Group.IDENTITY, Unit.NONE, "Product name.", nvml="nvmlDeviceGetName"),
    ] = None
    pci_bus_id: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "PCI address as domain:bus:device.function.",
            nvml="nvmlDeviceGetPciInfo",
        ),
    ] = None
    minor_number: Annotated[
        int | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "N of the device node /dev/nvidiaN.",
            nvml="nvmlDeviceGetMinorNumber",
        ),
    ] = None
    serial: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "Serial number printed on the board; consumer boards have none.",
            nvml="nvmlDeviceGetSerial",
        ),
    ] = None
    board_part_number: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "Part number programmed into the board.",
            nvml="nvmlDeviceGetBoardPartNumber",
        ),
    ] = None
    vbios_version: Annotated[
        str | None,
        metric(
            Group.IDENTITY, Unit.NONE, "Version of the VBIOS.", nvml="nvmlDeviceGetVbiosVersion"
        ),
    ] = None
    architecture: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "Chip architecture by name.",
            nvml="nvmlDeviceGetArchitecture",
        ),
    ] = None
    compute_capability: Annotated[
        str | None,
        metric(
            Group.IDENTITY,
            Unit.NONE,
            "CUDA compute capability as major.minor.",
            nvml="nvmlDeviceGetCudaComputeCapability",
        ),
    ] = None
    core_count: Annotated[
        int | None,
        metric(
            Group.IDENTITY, Unit.COUNT, "Number of CUDA cores.", nvml="nvmlDeviceGetNumGpuCores"
        ),
    ] = None

    # State
    state: Annotated[
        DeviceState,
        metric(
            Group.STATE,
            Unit.NONE,
            "ok, asleep (powered down, not woken to be read), lost (off the bus), reset-required, "
            "or failed (its calls fail for another reason).",
        ),
    ] = "ok"
    fault: Annotated[
        Fault | None,
        metric(Group.STATE, Unit.NONE, "Why the state is not ok, null if it is or if asleep."),
    ] = None

    # Memory
    memory_total_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY, Unit.BYTE, "Physical device memory.", nvml="nvmlDeviceGetMemoryInfo_v2"
        ),
    ] = None
    memory_reserved_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY,
            Unit.BYTE,
            "Memory that driver and firmware keep for themselves.",
            nvml="nvmlDeviceGetMemoryInfo_v2",
        ),
    ] = None
    memory_used_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY,
            Unit.BYTE,
            "Allocated memory; without the reserved part where the driver tells it apart.",
            nvml="nvmlDeviceGetMemoryInfo_v2",
        ),
    ] = None
    memory_free_bytes: Annotated[
        int | None,
        metric(Group.MEMORY, Unit.BYTE, "Unallocated memory.", nvml="nvmlDeviceGetMemoryInfo_v2"),
    ] = None
    memory_unaccounted_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY,
            Unit.BYTE,
            "Used memory that no listed process owns: contexts, other namespaces, orphans; null if "
            "the processes or their shares are not known.",
        ),
    ] = None
    bar1_total_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY,
            Unit.BYTE,
            "Size of the BAR1 window through which CPU and peers reach the memory.",
            nvml="nvmlDeviceGetBAR1MemoryInfo",
        ),
    ] = None
    bar1_used_bytes: Annotated[
        int | None,
        metric(
            Group.MEMORY,
            Unit.BYTE,
            "Mapped part of the BAR1 window.",
            nvml="nvmlDeviceGetBAR1MemoryInfo",
        ),
    ] = None

    # Utilization
    gpu_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION,
            Unit.PERCENT,
            "Share of the last sample period in which at least one kernel ran; 100 % may be one "
            "block on one SM.",
            nvml="nvmlDeviceGetUtilizationRates",
        ),
    ] = None
    memory_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION,
            Unit.PERCENT,
            "Share of the last sample period in which memory was read or written: bandwidth, not "
            "space.",
            nvml="nvmlDeviceGetUtilizationRates",
        ),
    ] = None
    encoder_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION,
            Unit.PERCENT,
            "Video encoder.",
            nvml="nvmlDeviceGetEncoderUtilization",
        ),
    ] = None
    decoder_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION,
            Unit.PERCENT,
            "Video decoder.",
            nvml="nvmlDeviceGetDecoderUtilization",
        ),
    ] = None
    jpeg_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION, Unit.PERCENT, "JPEG decoder.", nvml="nvmlDeviceGetJpgUtilization"
        ),
    ] = None
    ofa_utilization_percent: Annotated[
        int | None,
        metric(
            Group.UTILIZATION,
            Unit.PERCENT,
            "Optical flow accelerator.",
            nvml="nvmlDeviceGetOfaUtilization",
        ),
    ] = None

    # Temperature
    temperature_celsius: Annotated[
        int | None,
        metric(Group.TEMPERATURE, Unit.CELSIUS, "GPU die.", nvml="nvmlDeviceGetTemperatureV"),
    ] = None
    memory_temperature_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Memory, on boards that measure it.",
            nvml="NVML_FI_DEV_MEMORY_TEMP",
        ),
    ] = None
    temperature_margin_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Degrees left before the chip slows itself down (Ada and newer).",
            nvml="nvmlDeviceGetMarginTemperature",
        ),
    ] = None
    shutdown_temperature_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Where the GPU turns itself off.",
            nvml="nvmlDeviceGetTemperatureThreshold",
        ),
    ] = None
    slowdown_temperature_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Where hardware slows the clocks down.",
            nvml="nvmlDeviceGetTemperatureThreshold",
        ),
    ] = None
    max_operating_temperature_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Where software starts to slow the clocks down.",
            nvml="nvmlDeviceGetTemperatureThreshold",
        ),
    ] = None
    max_memory_temperature_celsius: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.CELSIUS,
            "Highest memory temperature at full speed.",
            nvml="nvmlDeviceGetTemperatureThreshold",
        ),
    ] = None
    fan_speed_percent: Annotated[
        int | None,
        metric(
            Group.TEMPERATURE,
            Unit.PERCENT,
            "Intended speed of the fan, of several the fastest; may exceed 100.",
            nvml="nvmlDeviceGetFanSpeed",
        ),
    ] = None
    fan_speeds_percent: Annotated[
        tuple[int, ...] | None,
        metric(
            Group.TEMPERATURE,
            Unit.PERCENT,
            "Intended speed of each fan.",
            nvml="nvmlDeviceGetFanSpeed_v2",
        ),
    ] = None

    # Power
    power_usage_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "Board power as nvidia-smi prints it: an average over 1 s since Ampere, else instant.",
            nvml="nvmlDeviceGetPowerUsage",
        ),
    ] = None
    power_instant_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "Board power at this instant.",
            nvml="NVML_FI_DEV_POWER_INSTANT",
        ),
    ] = None
    power_average_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "Board power averaged over 1 s.",
            nvml="NVML_FI_DEV_POWER_AVERAGE",
        ),
    ] = None
    enforced_power_limit_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "The limit in force, the lowest of all that apply.",
            nvml="nvmlDeviceGetEnforcedPowerLimit",
        ),
    ] = None
    power_limit_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "The limit that an administrator set.",
            nvml="nvmlDeviceGetPowerManagementLimit",
        ),
    ] = None
    default_power_limit_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "The limit after a reboot.",
            nvml="nvmlDeviceGetPowerManagementDefaultLimit",
        ),
    ] = None
    min_power_limit_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "The lowest limit that can be set.",
            nvml="nvmlDeviceGetPowerManagementLimitConstraints",
        ),
    ] = None
    max_power_limit_mw: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIWATT,
            "The highest limit that can be set.",
            nvml="nvmlDeviceGetPowerManagementLimitConstraints",
        ),
    ] = None
    total_energy_mj: Annotated[
        int | None,
        metric(
            Group.POWER,
            Unit.MILLIJOULE,
            "Energy since the driver was loaded.",
            nvml="nvmlDeviceGetTotalEnergyConsumption",
        ),
    ] = None

    # Clocks
    graphics_clock_mhz: Annotated[
        int | None,
        metric(Group.CLOCKS, Unit.MEGAHERTZ, "Graphics clock.", nvml="nvmlDeviceGetClockInfo"),
    ] = None
    sm_clock_mhz: Annotated[
        int | None,
        metric(Group.CLOCKS, Unit.MEGAHERTZ, "SM clock.", nvml="nvmlDeviceGetClockInfo"),
    ] = None
    memory_clock_mhz: Annotated[
        int | None,
        metric(Group.CLOCKS, Unit.MEGAHERTZ, "Memory clock.", nvml="nvmlDeviceGetClockInfo"),
    ] = None
    video_clock_mhz: Annotated[
        int | None,
        metric(
            Group.CLOCKS,
            Unit.MEGAHERTZ,
            "Video encoder and decoder clock.",
            nvml="nvmlDeviceGetClockInfo",
        ),
    ] = None
    max_graphics_clock_mhz: Annotated[
        int | None,
        metric(
            Group.CLOCKS,
            Unit.MEGAHERTZ,
            "Highest graphics clock.",
            nvml="nvmlDeviceGetMaxClockInfo",
        ),
    ] = None
    max_sm_clock_mhz: Annotated[
        int | None,
        metric(Group.CLOCKS, Unit.MEGAHERTZ, "Highest SM clock.", nvml="nvmlDeviceGetMaxClockInfo"),
    ] = None
    max_memory_clock_mhz: Annotated[
        int | None,
        metric(
            Group.CLOCKS, Unit.MEGAHERTZ, "Highest memory clock.", nvml="nvmlDeviceGetMaxClockInfo"
        ),
    ] = None
    max_video_clock_mhz: Annotated[
        int | None,
        metric(
            Group.CLOCKS, Unit.MEGAHERTZ, "Highest video clock.", nvml="nvmlDeviceGetMaxClockInfo"
        ),
    ] = None
    performance_state: Annotated[
        int | None,
        metric(
            Group.CLOCKS,
            Unit.NONE,
            "P-state, 0 the fastest to 15.",
            nvml="nvmlDeviceGetPerformanceState",
        ),
    ] = None
    clocks_event_reasons: Annotated[
        tuple[str, ...] | None,
        metric(
            Group.CLOCKS,
            Unit.NONE,
            "Why the clocks are not higher, by name; empty when nothing holds them.",
            nvml="nvmlDeviceGetCurrentClocksEventReasons",
        ),
    ] = None

    # PCIe
    pcie_link_generation: Annotated[
        int | None,
        metric(
            Group.PCIE,
            Unit.NONE,
            "PCIe generation now; drops at idle to save power.",
            nvml="nvmlDeviceGetCurrPcieLinkGeneration",
        ),
    ] = None
    max_pcie_link_generation: Annotated[
        int | None,
        metric(
            Group.PCIE,
            Unit.NONE,
            "Highest PCIe generation of GPU and slot together.",
            nvml="nvmlDeviceGetMaxPcieLinkGeneration",
        ),
    ] = None
    pcie_link_width: Annotated[
        int | None,
        metric(Group.PCIE, Unit.COUNT, "PCIe lanes now.", nvml="nvmlDeviceGetCurrPcieLinkWidth"),
    ] = None
    max_pcie_link_width: Annotated[
        int | None,
        metric(
            Group.PCIE,
            Unit.COUNT,
            "Most PCIe lanes of GPU and slot together.",
            nvml="nvmlDeviceGetMaxPcieLinkWidth",
        ),
    ] = None
    pcie_replay_count: Annotated[
        int | None,
        metric(
            Group.PCIE,
            Unit.COUNT,
            "PCIe packets sent again since the driver was loaded.",
            nvml="nvmlDeviceGetPcieReplayCounter",
        ),
    ] = None

    # Reliability
    ecc_mode: Annotated[
        bool | None,
        metric(
            Group.RELIABILITY,
            Unit.NONE,
            "Whether ECC protects the memory.",
            nvml="nvmlDeviceGetEccMode",
        ),
    ] = None
    pending_ecc_mode: Annotated[
        bool | None,
        metric(
            Group.RELIABILITY,
            Unit.NONE,
            "Whether ECC will protect it after a reboot.",
            nvml="nvmlDeviceGetEccMode",
        ),
    ] = None
    ecc_corrected_volatile_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Corrected memory errors since the driver was loaded.",
            nvml="nvmlDeviceGetTotalEccErrors",
        ),
    ] = None
    ecc_uncorrected_volatile_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Uncorrected memory errors since the driver was loaded.",
            nvml="nvmlDeviceGetTotalEccErrors",
        ),
    ] = None
    ecc_corrected_aggregate_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Corrected memory errors in the life of the board.",
            nvml="nvmlDeviceGetTotalEccErrors",
        ),
    ] = None
    ecc_uncorrected_aggregate_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Uncorrected memory errors in the life of the board.",
            nvml="nvmlDeviceGetTotalEccErrors",
        ),
    ] = None
    retired_pages_single_bit_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Pages retired for many corrected errors (before Ampere).",
            nvml="nvmlDeviceGetRetiredPages",
        ),
    ] = None
    retired_pages_double_bit_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Pages retired for an uncorrected error (before Ampere).",
            nvml="nvmlDeviceGetRetiredPages",
        ),
    ] = None
    retired_pages_pending: Annotated[
        bool | None,
        metric(
            Group.RELIABILITY,
            Unit.NONE,
            "Whether pages wait for a reboot to be retired.",
            nvml="nvmlDeviceGetRetiredPagesPendingStatus",
        ),
    ] = None
    remapped_rows_corrected_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Memory rows replaced for corrected errors (Ampere and newer).",
            nvml="nvmlDeviceGetRemappedRows",
        ),
    ] = None
    remapped_rows_uncorrected_count: Annotated[
        int | None,
        metric(
            Group.RELIABILITY,
            Unit.COUNT,
            "Memory rows replaced for uncorrected errors (Ampere and newer).",
            nvml="nvmlDeviceGetRemappedRows",
        ),
    ] = None
    remapped_rows_pending: Annotated[
        bool | None,
        metric(
            Group.RELIABILITY,
            Unit.NONE,
            "Whether rows wait for a GPU reset to be replaced.",
            nvml="nvmlDeviceGetRemappedRows",
        ),
    ] = None
    remapped_rows_failed: Annotated[
        bool | None,
        metric(
            Group.RELIABILITY,
            Unit.NONE,
            "Whether replacing a row has failed: the board is worn out.",
            nvml="nvmlDeviceGetRemappedRows",
        ),
    ] = None

    # Settings
    compute_mode: Annotated[
        str | None,
        metric(
            Group.SETTINGS,
            Unit.NONE,
            "default, exclusive-thread, prohibited or exclusive-process.",
            nvml="nvmlDeviceGetComputeMode",
        ),
    ] = None
    persistence_mode: Annotated[
        bool | None,
        metric(
            Group.SETTINGS,
            Unit.NONE,
            "Whether the driver keeps the GPU ready when nobody uses it.",
            nvml="nvmlDeviceGetPersistenceMode",
        ),
    ] = None
    display_active: Annotated[
        bool | None,
        metric(
            Group.SETTINGS,
            Unit.NONE,
            "Whether a display is driven from this GPU.",
            nvml="nvmlDeviceGetDisplayActive",
        ),
    ] = None
    display_attached: Annotated[
        bool | None,
        metric(
            Group.SETTINGS,
            Unit.NONE,
            "Whether a monitor is plugged in.",
            nvml="nvmlDeviceGetDisplayMode",
        ),
    ] = None
    driver_model: Annotated[
        str | None,
        metric(
            Group.SETTINGS,
            Unit.NONE,
            "WDDM, TCC or MCDM; Windows only.",
            nvml="nvmlDeviceGetDriverModel",
        ),
    ] = None

    # MIG
    mig_mode: Annotated[
        bool | None,
        metric(
            Group.MIG,
            Unit.NONE,
            "Whether the GPU is split into MIG instances.",
            nvml="nvmlDeviceGetMigMode",
        ),
    ] = None
    pending_mig_mode: Annotated[
        bool | None,
        metric(
            Group.MIG,
            Unit.NONE,
            "MIG mode after the next reset.",
            nvml="nvmlDeviceGetMigMode",
        ),
    ] = None
    gpu_instance_id: Annotated[
        int | None,
        metric(
            Group.MIG,
            Unit.NONE,
            "GPU instance of this MIG device.",
            nvml="nvmlDeviceGetGpuInstanceId",
        ),
    ] = None
    compute_instance_id: Annotated[
        int | None,
        metric(
            Group.MIG,
            Unit.NONE,
            "Compute instance of this MIG device.",
            nvml="nvmlDeviceGetComputeInstanceId",
        ),
    ] = None
    multiprocessor_count: Annotated[
        int | None,
        metric(
            Group.MIG,
            Unit.COUNT,
            "SMs that belong to this MIG device.",
            nvml="nvmlDeviceGetAttributes_v2",
        ),
    ] = None

    @property
    def key(self) -> str:
        """Identity within a host: the UUID, or the index of a GPU lost before it could tell."""
        return self.uuid or f"#{self.index}"

    @property
    def is_mig(self) -> bool:
        """Whether this is a MIG instance of another device."""
        return self.parent_uuid is not None


class ProcessDevice(Struct, frozen=True, kw_only=True):
    """What one process does on one device."""

    index: Annotated[
        int, metric(Group.PROCESS, Unit.NONE, "Index of the GPU, of a MIG instance its parent's.")
    ]
    uuid: Annotated[
        str | None,
        metric(Group.PROCESS, Unit.NONE, "The device, a MIG instance where one is used."),
    ] = None
    type: Annotated[
        str,
        metric(
            Group.PROCESS,
            Unit.NONE,
            "C compute, G graphics, M client of an MPS server, or joined: C+G.",
            nvml="nvmlDeviceGetComputeRunningProcesses_v3",
        ),
    ] = "C"
    used_gpu_memory_bytes: Annotated[
        int | None,
        metric(
            Group.PROCESS,
            Unit.BYTE,
            "Device memory it holds, with its context.",
            nvml="nvmlDeviceGetComputeRunningProcesses_v3",
        ),
    ] = None
    sm_utilization_percent: Annotated[
        int | None,
        metric(
            Group.PROCESS,
            Unit.PERCENT,
            "SM time sampled while it was active; a guess when several share the GPU.",
            nvml="nvmlDeviceGetProcessUtilization",
        ),
    ] = None
    memory_utilization_percent: Annotated[
        int | None,
        metric(
            Group.PROCESS,
            Unit.PERCENT,
            "Memory bandwidth time sampled while it was active.",
            nvml="nvmlDeviceGetProcessUtilization",
        ),
    ] = None
    encoder_utilization_percent: Annotated[
        int | None,
        metric(
            Group.PROCESS, Unit.PERCENT, "Video encoder.", nvml="nvmlDeviceGetProcessUtilization"
        ),
    ] = None
    decoder_utilization_percent: Annotated[
        int | None,
        metric(
            Group.PROCESS, Unit.PERCENT, "Video decoder.", nvml="nvmlDeviceGetProcessUtilization"
        ),
    ] = None
    gpu_instance_id: Annotated[
        int | None, metric(Group.PROCESS, Unit.NONE, "MIG GPU instance, null outside MIG.")
    ] = None
    compute_instance_id: Annotated[
        int | None, metric(Group.PROCESS, Unit.NONE, "MIG compute instance, null outside MIG.")
    ] = None


class Job(Struct, frozen=True, kw_only=True):
    """What a process belongs to: the innermost container, pod, Slurm job or systemd unit."""

    kind: Annotated[JobKind, metric(Group.PROCESS, Unit.NONE, "container, pod, slurm or unit.")]
    id: Annotated[
        str,
        metric(Group.PROCESS, Unit.NONE, "Container id, pod uid, Slurm job id or unit name."),
    ]
    step: Annotated[str | None, metric(Group.PROCESS, Unit.NONE, "Step of a Slurm job.")] = None
    runtime: Annotated[
        str | None, metric(Group.PROCESS, Unit.NONE, "docker, cri-containerd, libpod, ...")
    ] = None
    container: Annotated[
        str | None, metric(Group.PROCESS, Unit.NONE, "Container id within a pod or Slurm job.")
    ] = None

    @property
    def label(self) -> str:
        """The job in one short word: `docker:1f3a0c5b2d4e`, `slurm:1392969.0`, `ollama.service`."""
        if self.kind == "unit":
            return self.id
        if self.kind == "slurm":
            return f"slurm:{self.id}" + (f".{self.step}" if self.step else "")
        return f"{self.runtime or self.kind}:{self.id[:12]}"


class Process(Struct, frozen=True, kw_only=True):
    """A process that uses at least one device: one entry, however many devices it uses."""

    pid: Annotated[int, metric(Group.PROCESS, Unit.NONE, "Process id as the driver tells it.")]
    devices: Annotated[
        tuple[ProcessDevice, ...],
        metric(Group.PROCESS, Unit.NONE, "The devices it uses, in the order of their indices."),
    ]
    username: Annotated[
        str | None, metric(Group.PROCESS, Unit.NONE, "Owner, or the uid if it has no name.")
    ] = None
    name: Annotated[str | None, metric(Group.PROCESS, Unit.NONE, "Name of the executable.")] = None
    command_line: Annotated[
        tuple[str, ...] | None,
        metric(Group.PROCESS, Unit.NONE, "Program and arguments, cleaned of control characters."),
    ] = None
    cpu_percent: Annotated[
        float | None,
        metric(
            Group.PROCESS,
            Unit.PERCENT,
            "CPU time, 100 is one core: since the last sample, or over its life in a first one.",
        ),
    ] = None
    resident_memory_bytes: Annotated[
        int | None, metric(Group.PROCESS, Unit.BYTE, "Host memory it holds.")
    ] = None
    create_time: Annotated[
        float | None,
        metric(
            Group.PROCESS, Unit.SECOND, "When it started, Unix time; with the PID its identity."
        ),
    ] = None
    status: Annotated[
        str | None,
        metric(Group.PROCESS, Unit.NONE, "running, sleeping, disk-sleep, stopped, zombie, ..."),
    ] = None
    parent_pid: Annotated[int | None, metric(Group.PROCESS, Unit.NONE, "Its parent.")] = None
    job: Annotated[
        Job | None,
        metric(Group.PROCESS, Unit.NONE, "Container, pod, Slurm job or unit that it is part of."),
    ] = None
    hidden_reason: Annotated[
        str | None,
        metric(
            Group.PROCESS,
            Unit.NONE,
            "Why owner and command line are not known, null if they are.",
        ),
    ] = None

    @property
    def key(self) -> tuple[int, float | None]:
        """Identity: a PID alone may be reused."""
        return self.pid, self.create_time

    @property
    def used_gpu_memory_bytes(self) -> int | None:
        """Device memory over all its devices; None if no share is known."""
        shares = [d.used_gpu_memory_bytes for d in self.devices]
        known = [share for share in shares if share is not None]
        return sum(known) if known else None

    @property
    def type(self) -> str:
        """The types of all its devices, joined: `C`, `C+G`."""
        types = {part for device in self.devices for part in device.type.split("+")}
        return "+".join(part for part in ("M", "C", "G") if part in types)


class Host(Struct, frozen=True, kw_only=True):
    """The machine and its driver."""

    hostname: Annotated[str, metric(Group.HOST, Unit.NONE, "Name of the host.")]
    simulated: Annotated[
        bool, metric(Group.HOST, Unit.NONE, "Whether all this is made up (--demo).")
    ] = False
    driver_version: Annotated[
        str | None,
        metric(Group.HOST, Unit.NONE, "NVIDIA driver.", nvml="nvmlSystemGetDriverVersion"),
    ] = None
    nvml_version: Annotated[
        str | None, metric(Group.HOST, Unit.NONE, "NVML.", nvml="nvmlSystemGetNVMLVersion")
    ] = None
    cuda_driver_version: Annotated[
        str | None,
        metric(
            Group.HOST,
            Unit.NONE,
            "Highest CUDA that the driver supports.",
            nvml="nvmlSystemGetCudaDriverVersion_v2",
        ),
    ] = None
    cpu_count: Annotated[int | None, metric(Group.HOST, Unit.COUNT, "Logical CPUs.")] = None
    cpu_percent: Annotated[
        float | None,
        metric(
            Group.HOST,
            Unit.PERCENT,
            "All CPUs together, 0 to 100: since the last sample, or since boot in a first one.",
        ),
    ] = None
    memory_total_bytes: Annotated[int | None, metric(Group.HOST, Unit.BYTE, "Host memory.")] = None
    memory_used_bytes: Annotated[
        int | None, metric(Group.HOST, Unit.BYTE, "Host memory in use, without caches.")
    ] = None
    memory_available_bytes: Annotated[
        int | None, metric(Group.HOST, Unit.BYTE, "Host memory that can be had without swapping.")
    ] = None
    swap_total_bytes: Annotated[int | None, metric(Group.HOST, Unit.BYTE, "Swap space.")] = None
    swap_used_bytes: Annotated[int | None, metric(Group.HOST, Unit.BYTE, "Swap space in use.")] = (
        None
    )
    load_average: Annotated[
        tuple[float, float, float] | None,
        metric(Group.HOST, Unit.NONE, "Runnable tasks over 1, 5 and 15 minutes."),
    ] = None
    uptime_seconds: Annotated[float | None, metric(Group.HOST, Unit.SECOND, "Time since boot.")] = (
        None
    )


class Topology(Struct, frozen=True, kw_only=True):
    """How the GPUs are connected: matrices and lists in the order of `uuids`."""

    uuids: Annotated[
        tuple[str, ...],
        metric(Group.TOPOLOGY, Unit.NONE, "The GPUs, in the order of their indices."),
    ]
    indices: Annotated[
        tuple[int, ...], metric(Group.TOPOLOGY, Unit.NONE, "Their NVML indices, for headings.")
    ]
    links: Annotated[
        tuple[tuple[str | None, ...], ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "Link of each pair: X self, NV# that many NVLinks, PSB, PIX, PXB, PHB, NODE, SYS.",
            nvml="nvmlDeviceGetTopologyCommonAncestor, nvmlDeviceGetNvLinkRemotePciInfo_v2",
        ),
    ]
    p2p_read: Annotated[
        tuple[tuple[P2PStatus | None, ...], ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "Whether the row's GPU may read the column's memory.",
            nvml="nvmlDeviceGetP2PStatus",
        ),
    ]
    p2p_write: Annotated[
        tuple[tuple[P2PStatus | None, ...], ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "Whether the row's GPU may write the column's memory.",
            nvml="nvmlDeviceGetP2PStatus",
        ),
    ]
    p2p_atomics: Annotated[
        tuple[tuple[P2PStatus | None, ...], ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "Whether atomic operations reach from row to column.",
            nvml="nvmlDeviceGetP2PStatus",
        ),
    ]
    cpu_affinity: Annotated[
        tuple[str | None, ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "CPUs next to each GPU, as a list of ranges.",
            nvml="nvmlDeviceGetCpuAffinity",
        ),
    ]
    numa_affinity: Annotated[
        tuple[str | None, ...],
        metric(
            Group.TOPOLOGY,
            Unit.NONE,
            "Host NUMA nodes next to each GPU, as a list of ranges.",
            nvml="nvmlDeviceGetMemoryAffinity",
        ),
    ]

    def peer_access(self, row: int, column: int) -> bool | None:
        """Whether frameworks would print Y for the pair: itself, or reading and writing both OK."""
        if row == column:
            return True
        statuses = self.p2p_read[row][column], self.p2p_write[row][column]
        return None if None in statuses else statuses == ("OK", "OK")


class Snapshot(Struct, frozen=True, kw_only=True):
    """One host at one instant: the document that gpudash prints, pipes, records and shows."""

    schema: Annotated[
        int, metric(Group.DOCUMENT, Unit.NONE, "Version of this document; fields are only added.")
    ] = SCHEMA
    taken_at: Annotated[
        datetime,
        Meta(tz=True),
        metric(Group.DOCUMENT, Unit.NONE, "When it was taken, RFC 3339 in UTC."),
    ]
    host: Annotated[Host, metric(Group.DOCUMENT, Unit.NONE, "The machine and its driver.")]
    devices: Annotated[
        tuple[Device, ...],
        metric(Group.DOCUMENT, Unit.NONE, "GPUs by index, each followed by its MIG instances."),
    ] = ()
    processes: Annotated[
        tuple[Process, ...],
        metric(Group.DOCUMENT, Unit.NONE, "Processes on any device, the largest holder first."),
    ] = ()
    topology: Annotated[
        Topology | None,
        metric(Group.DOCUMENT, Unit.NONE, "Links between the GPUs, null where NVML cannot tell."),
    ] = None
    errors: Annotated[
        tuple[Fault, ...],
        metric(Group.DOCUMENT, Unit.NONE, "What could not be read beyond a single device."),
    ] = ()


EMPTY = Snapshot(host=Host(hostname=""), taken_at=datetime(1970, 1, 1, tzinfo=timezone.utc))
"""The snapshot before the first one: no host, no devices."""
