"""A process on one or several devices, and the job that it belongs to."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from msgspec import Struct

from gpudash.model.fields import Amount, Group, Index, Natural, Seconds, metric
from gpudash.model.text import SafeText
from gpudash.model.units import ABSENT, Unit, duration, mean_known, short_size, sum_known

JobKind = Literal["container", "pod", "slurm", "unit"]

EXITED = "exited"
"""The `hidden_reason` of a process that has ended."""

_process = partial(metric, Group.PROCESS)


class ProcessDevice(Struct, frozen=True, kw_only=True):
    """What one process does on one device."""

    # fmt: off
    index: Annotated[Index, _process(Unit.NONE,
        "Index of the GPU, of a MIG instance its parent's.")]
    uuid: Annotated[str | None, _process(Unit.NONE,
        "The device, a MIG instance where one is used.")] = None
    type: Annotated[str, _process(Unit.NONE,
        "C compute, G graphics, M client of an MPS server, or joined: C+G.",
        nvml="nvmlDeviceGetComputeRunningProcesses_v3")] = "C"
    list_position: Annotated[Index | None, _process(Unit.NONE,
        "Its position among the GPU's processes as the driver lists them, from 0.",
        nvml="nvmlDeviceGetComputeRunningProcesses_v3")] = None
    used_gpu_memory_bytes: Annotated[Natural | None, _process(Unit.BYTE,
        "Device memory it holds, with its context.",
        nvml="nvmlDeviceGetComputeRunningProcesses_v3")] = None
    sm_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Share of time in which it ran kernels, sampled while it was active; an estimate when "
        "several share the GPU.", nvml="nvmlDeviceGetProcessUtilization",
        label="Utilization")] = None
    memory_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Memory bandwidth time sampled while it was active.",
        nvml="nvmlDeviceGetProcessUtilization")] = None
    encoder_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Utilization of the video encoder.", nvml="nvmlDeviceGetProcessUtilization")] = None
    decoder_utilization_percent: Annotated[Natural | None, _process(Unit.PERCENT,
        "Utilization of the video decoder.", nvml="nvmlDeviceGetProcessUtilization")] = None
    gpu_instance_id: Annotated[Index | None, _process(Unit.NONE,
        "MIG GPU instance, null outside MIG.")] = None
    compute_instance_id: Annotated[Index | None, _process(Unit.NONE,
        "MIG compute instance, null outside MIG.")] = None
    # fmt: on


class Job(Struct, frozen=True, kw_only=True):
    """What a process belongs to: the innermost container, pod, Slurm job or systemd unit."""

    # fmt: off
    kind: Annotated[JobKind, _process(Unit.NONE, "container, pod, slurm or unit.")]
    id: Annotated[SafeText, _process(Unit.NONE,
        "Container id, pod uid, Slurm job id or unit name.")]
    step: Annotated[SafeText | None, _process(Unit.NONE, "Step of a Slurm job.")] = None
    runtime: Annotated[SafeText | None, _process(Unit.NONE,
        "docker, cri-containerd, libpod, ...")] = None
    container: Annotated[SafeText | None, _process(Unit.NONE,
        "Container id within a pod or Slurm job.")] = None
    # fmt: on

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

    # fmt: off
    pid: Annotated[Index, _process(Unit.NONE, "Process id as the driver reports it.")]
    devices: Annotated[tuple[ProcessDevice, ...], _process(Unit.NONE,
        "The devices it uses, in the order of their indices.")]
    username: Annotated[SafeText | None, _process(Unit.NONE,
        "Owner, or the uid if it has no name.")] = None
    name: Annotated[SafeText | None, _process(Unit.NONE, "Name of the executable.")] = None
    command_line: Annotated[tuple[SafeText, ...] | None, _process(Unit.NONE,
        "Program and arguments, made printable, 4096 bytes of them at most; secrets masked "
        "unless asked for.")] = None
    cpu_percent: Annotated[Amount | None, _process(Unit.PERCENT,
        "CPU time, 100 is one core: since the last sample, in the first one since it "
        "started.")] = None
    resident_memory_bytes: Annotated[Natural | None, _process(Unit.BYTE,
        "Host memory it holds.")] = None
    create_time: Annotated[Seconds | None, _process(Unit.SECOND,
        "When it started, Unix time; moves when the wall clock is set.")] = None
    start_ticks: Annotated[Natural | None, _process(Unit.COUNT,
        "When it started in clock ticks since boot; with the PID its identity.")] = None
    idle_seconds: Annotated[Seconds | None, _process(Unit.SECOND,
        "How long it has used none of its devices, at least; null while it uses one or where that "
        "is not known.")] = None
    status: Annotated[str | None, _process(Unit.NONE,
        "running, sleeping, disk-sleep, stopped, zombie, ...")] = None
    parent_pid: Annotated[Index | None, _process(Unit.NONE, "Its parent.")] = None
    job: Annotated[Job | None, _process(Unit.NONE,
        "Container, pod, Slurm job or unit that it belongs to.")] = None
    hidden_reason: Annotated[str | None, _process(Unit.NONE,
        "Why owner and command line are not known, null if they are.")] = None
    # fmt: on

    @property
    def key(self) -> tuple[int, float | None]:
        """Identity: a PID alone may be reused."""
        return self.pid, self.create_time if self.start_ticks is None else self.start_ticks

    @property
    def used_gpu_memory_bytes(self) -> int | None:
        """Memory on all its devices; None if no share is known."""
        devices = self.devices
        if len(devices) == 1:
            # Nearly all use a single one, and this is called several times a tick.
            return devices[0].used_gpu_memory_bytes
        return sum_known(share.used_gpu_memory_bytes for share in devices)

    @property
    def sm_utilization_percent(self) -> float | None:
        """Share of time in which it ran kernels, the mean over its devices; None if unknown."""
        devices = self.devices
        if len(devices) == 1:
            return devices[0].sm_utilization_percent
        return mean_known(share.sm_utilization_percent for share in devices)

    @property
    def memory_utilization_percent(self) -> float | None:
        """Memory bandwidth time, the mean over its devices; None if no share is known."""
        return mean_known(share.memory_utilization_percent for share in self.devices)

    @property
    def type(self) -> str:
        """The types of all its devices, joined: `C`, `C+G`."""
        types = {part for device in self.devices for part in device.type.split("+")}
        return "+".join(part for part in ("M", "C", "G") if part in types)


class AnyUser(Struct, frozen=True, kw_only=True):
    """An owner of processes or jobs on GPUs, by what is known on one host and among many alike."""

    # fmt: off
    name: Annotated[SafeText | None, _process(Unit.NONE,
        "User, or namespace in Kubernetes; null for processes whose owner is not known.")]
    devices: Annotated[Natural, _process(Unit.COUNT,
        "GPUs with their processes or jobs; by whatever of its MIG instances, a GPU counts "
        "once.")] = 0
    memory_used_bytes: Annotated[Natural | None, _process(Unit.BYTE,
        "Device memory of their processes; among many hosts, where only that of whole devices is "
        "known, memory in use on those that no other user has.")] = None
    jobs: Annotated[Natural, _process(Unit.COUNT, "Jobs with GPUs.")] = 0
    # fmt: on


_memory = partial(metric, Group.MEMORY)


class Holder(Struct, frozen=True, kw_only=True):
    """A process that has the device node of a GPU open although the driver lists it on no GPU."""

    # fmt: off
    pid: Annotated[Index, _memory(Unit.NONE, "Process id, as /proc shows it.")]
    start_ticks: Annotated[Natural | None, _memory(Unit.COUNT,
        "When it started in clock ticks since boot; with the PID its identity.")] = None
    username: Annotated[SafeText | None, _memory(Unit.NONE,
        "Owner, or the uid if it has no name.")] = None
    command_line: Annotated[tuple[SafeText, ...] | None, _memory(Unit.NONE,
        "Program and first arguments, 256 bytes of them at most.")] = None
    # fmt: on

    def __str__(self) -> str:
        program = (self.command_line or ("?",))[0].rpartition("/")[2]
        return f"{self.pid} {self.username or '?'} {program}"


_state = partial(metric, Group.STATE)


class LastProcess(Struct, frozen=True, kw_only=True):
    """A process that used a GPU when it was last read, and that still runs."""

    # fmt: off
    pid: Annotated[Index, _state(Unit.NONE, "Process id.")]
    start_ticks: Annotated[Natural | None, _state(Unit.COUNT,
        "When it started in clock ticks since boot; with the PID its identity.")] = None
    username: Annotated[SafeText | None, _state(Unit.NONE,
        "Owner, or the uid if it has no name.")] = None
    name: Annotated[SafeText | None, _state(Unit.NONE, "Name of the executable.")] = None
    used_gpu_memory_bytes: Annotated[Natural | None, _state(Unit.BYTE,
        "Memory of the GPU that it held then.")] = None
    # fmt: on

    def __str__(self) -> str:
        size = short_size(self.used_gpu_memory_bytes)
        return f"{self.username or ABSENT} {self.name or ABSENT} (PID {self.pid}, {size})"


class LastRead(Struct, frozen=True, kw_only=True):
    """The memory of a GPU that does not answer, and who held it, as they were last read."""

    # fmt: off
    age_seconds: Annotated[Seconds, _state(Unit.SECOND, "How long ago that was.")]
    memory_used_bytes: Annotated[Natural | None, _state(Unit.BYTE,
        "Allocated memory, then.")] = None
    memory_total_bytes: Annotated[Natural | None, _state(Unit.BYTE,
        "Physical device memory.")] = None
    processes: Annotated[tuple[LastProcess, ...], _state(Unit.NONE,
        "The processes that used it then and still run, the largest first, 16 at most.")] = ()
    # fmt: on

    @property
    def ago(self) -> str:
        """The time since it was read: `12s ago`."""
        return f"{duration(self.age_seconds)} ago"

    @property
    def memory(self) -> str:
        """The memory in use then: `32.2G/80.0G`."""
        return f"{short_size(self.memory_used_bytes)}/{short_size(self.memory_total_bytes)}"

    def __str__(self) -> str:
        by = ", by " + ", ".join(map(str, self.processes)) if self.processes else ""
        return f"{self.ago}: {self.memory} in use{by}"


_lease = partial(metric, Group.LEASE)


class Lease(Struct, frozen=True, kw_only=True):
    """An advisory reservation of one GPU by a process; the driver does not know of it."""

    # fmt: off
    uuid: Annotated[str, _lease(Unit.NONE, "The GPU.")]
    index: Annotated[Index, _lease(Unit.NONE, "Its index.")]
    pid: Annotated[Index | None, _lease(Unit.NONE,
        "The process that took it, null if it is in another PID namespace; without start_ticks "
        "it has ended, and the PID may be another's.")] = None
    start_ticks: Annotated[Natural | None, _lease(Unit.COUNT,
        "When that process started in clock ticks since boot, null if it has ended.")] = None
    create_time: Annotated[Seconds | None, _lease(Unit.SECOND,
        "When it started, Unix time; it took the lease soon after.")] = None
    username: Annotated[SafeText | None, _lease(Unit.NONE, "Its owner.")] = None
    name: Annotated[SafeText | None, _lease(Unit.NONE,
        "Its executable, null if it has ended: a child of it holds the lease.")] = None
    is_used: Annotated[bool | None, _lease(Unit.NONE,
        "Whether it or a descendant uses the GPU, null if that cannot be seen.")] = None
    # fmt: on
