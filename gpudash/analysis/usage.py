"""Counts of a snapshot's devices by state, totals, and users."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from gpudash.analysis.health.findings import acknowledged_gpus, examined, statuses
from gpudash.analysis.health.levels import works_on_cpu
from gpudash.analysis.labels import gpu_ranges, index_ranges, mig_labels, owner
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import AnyUser, Process, ProcessDevice
from gpudash.model.snapshot import Snapshot, gpus_unknown, whole_gpus
from gpudash.model.state import ACKNOWLEDGED, COUNTED, State, lists_processes
from gpudash.model.text import SafeText
from gpudash.model.units import counted, grouped, mean_known, short_size, sum_known, watts


def is_unlisted(device: Device, snapshot: Snapshot) -> bool:
    """Whether the processes of a device are unknown."""
    return not lists_processes(device, unlisted_uuids(snapshot.errors))


def no_processes_text(snapshot: Snapshot) -> str:
    """Return the text for an empty list of processes: none, or unknown."""
    gpus = whole_gpus(snapshot)
    unlisted = [device.index for device in gpus if is_unlisted(device, snapshot)]
    if gpus_unknown(snapshot) or (gpus and len(unlisted) == len(gpus)):
        return "Which processes run is not known"
    if not unlisted:
        return "No running processes found"
    return f"No running processes found; those on GPU {index_ranges(unlisted)} are not known"


def no_gpus_text(snapshot: Snapshot) -> str:
    """Return the text for an empty list of GPUs: none, or unknown."""
    return "The GPUs are not known" if gpus_unknown(snapshot) else "There is no GPU"


class Tally(NamedTuple):
    """The parts of the summary: `8 GPUs`, and the number of devices in each state."""

    opening: str
    counts: list[tuple[int, State]]


def tally(
    snapshot: Snapshot,
    found: Mapping[str, State] | None = None,
    shown: Sequence[Device] | None = None,
) -> Tally:
    """Return the parts of the summary, with each word counted as in the STATUS column.

    `found` are the states of the devices by key, if known; `shown` are the devices to count, all
    for None. Acknowledged faults have a word of their own.
    """
    if gpus_unknown(snapshot):
        return Tally("GPUs unknown", [])
    found = statuses(snapshot) if found is None else found
    shown = snapshot.devices if shown is None else shown
    known = acknowledged_gpus(snapshot)
    words = Counter(
        ACKNOWLEDGED
        if found[device.key].is_problem and device.index in known and not device.is_mig
        else found[device.key]
        for device in shown
    )
    counts = [(words[state], state) for state in COUNTED if words[state]]
    instances = sum(device.is_mig for device in shown)
    gpus = len(shown) - instances
    parts = [counted(gpus, "GPU")] if gpus else []
    parts += [f"{instances} MIG"] if instances else []
    return Tally(", ".join(parts) or "No GPUs", counts)


def summary(parts: Tally) -> str:
    """Return `8 GPUs: 3 busy, 4 held idle, 1 free`."""
    return _sentence(*parts)


def shorter_summaries(parts: Tally, mark: str) -> list[str]:
    """Return the summary with fewer and fewer states, in order; `mark` stands for omitted ones.

    Healthy states are omitted first, then warnings; free and critical ones never.
    """
    opening, counts = parts
    texts, left_out = [_sentence(opening, counts)], set[State]()
    optional = [state for state in COUNTED if not state.is_free and state.level != "critical"]
    for state in sorted(optional, key=lambda state: (state.is_problem, state.level == "warn")):
        shown = {each for _, each in counts} - left_out
        if state in shown and len(shown) > 1:
            left_out.add(state)
            texts.append(_sentence(opening, counts, left_out, mark))
    return texts


def _sentence(
    opening: str,
    counts: Sequence[tuple[int, State]],
    left_out: Collection[State] = (),
    mark: str = "",
) -> str:
    texts = [mark if state in left_out else f"{count} {state.word}" for count, state in counts]
    parts = ", ".join(text for text, _ in groupby(texts))
    return f"{opening}: {parts}" if parts else opening


def totals(snapshot: Snapshot) -> str:
    """Return memory and power of all GPUs: `412G of 640G, 4105W`; unknown values are left out."""
    gpus = whole_gpus(snapshot)
    used = sum_known(gpu.memory_used_bytes for gpu in gpus)
    total = sum_known(gpu.memory_total_bytes for gpu in gpus)
    power = sum_known(gpu.power_usage_mw for gpu in gpus)
    memory = None if used is None else f"{short_size(used)} of {short_size(total)}"
    return ", ".join(filter(None, (memory, None if power is None else watts(power))))


class Holdings:
    """A user's holdings, added up over devices of one host or many."""

    def __init__(self) -> None:
        self._gpus: set[Hashable] = set()
        self.memory_used_bytes: int | None = None
        self.jobs: set[Hashable] = set()

    def add(self, gpu: Hashable, memory: int | None, job: Hashable | None) -> bool:
        """Add their use of a GPU, or of a MIG instance of it; return whether it is new."""
        is_new = gpu not in self._gpus
        self._gpus.add(gpu)
        if memory is not None:
            self.memory_used_bytes = (self.memory_used_bytes or 0) + memory
        if job is not None:
            self.jobs.add(job)
        return is_new

    @property
    def devices(self) -> int:
        """How many GPUs they have, each counted once."""
        return len(self._gpus)


class User(AnyUser, frozen=True, kw_only=True):
    """An owner of processes, or all owners together; None is a value that no process reports."""

    gpus: str
    process_count: int
    gpu_memory_percent: float | None
    """Of the memory of the GPUs that they use."""
    idle_memory_bytes: int | None
    """Memory of idle processes; part of the memory above."""
    idle_seconds: float | None
    """The longest idle time of these."""
    utilization_percent: float | None
    """Time in which any of the processes ran kernels, the mean of the GPUs that they use."""
    cpu_percent: float | None
    resident_memory_bytes: int | None
    job_labels: tuple[str, ...]


def users(snapshot: Snapshot) -> tuple[User, ...]:
    """Return the owners, the largest holder of GPU memory first.

    Processes of unknown owners are one user without a name; exited ones are another.
    """
    snapshot = examined(snapshot)
    groups = grouped((owner(process), process) for process in snapshot.processes)
    found = [_user(name, group, snapshot) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda user: (-(user.memory_used_bytes or 0), user.name or "")))


def all_users(snapshot: Snapshot) -> User:
    """Return the processes of all users together."""
    snapshot = examined(snapshot)
    return _user(SafeText("all"), snapshot.processes, snapshot)


def unowned_memory_bytes(snapshot: Snapshot) -> int | None:
    """Return the GPU memory owned by no listed process, None if no GPU reports it."""
    return sum_known(gpu.memory_unaccounted_bytes for gpu in whole_gpus(snapshot))


def _user(name: SafeText | None, processes: Sequence[Process], snapshot: Snapshot) -> User:
    shares = _distinct(processes)
    held = Holdings()
    for process in processes:
        job = None if process.job is None else process.job.id
        for share in process.devices:
            held.add(share.index, share.used_gpu_memory_bytes, job)
    memory = held.memory_used_bytes
    sizes = {device.key: device.memory_total_bytes for device in snapshot.devices}
    idle = [process for process in processes if _is_idle(process)]
    spans = [process.idle_seconds for process in idle if process.idle_seconds is not None]
    return User(
        name=name,
        devices=held.devices,
        memory_used_bytes=memory,
        jobs=len(held.jobs),
        gpus=gpu_ranges(shares, mig_labels(snapshot.devices)),
        process_count=len(processes),
        gpu_memory_percent=memory_percent(memory, memory_of(shares, sizes)),
        idle_memory_bytes=_idle_memory(processes, idle),
        idle_seconds=max(spans, default=None),
        utilization_percent=_utilization_percent(processes),
        cpu_percent=sum_known(process.cpu_percent for process in processes),
        resident_memory_bytes=sum_known(process.resident_memory_bytes for process in processes),
        job_labels=tuple(sorted({process.job.label for process in processes if process.job})),
    )


def memory_of(shares: Iterable[ProcessDevice], sizes: Mapping[str, int | None]) -> int | None:
    """Return the memory of all devices of processes, None if one is unknown.

    `sizes` are those of devices by key.
    """
    capacities = [sizes.get(share.uuid or "") for share in shares]
    known = [capacity for capacity in capacities if capacity]
    return sum(known) if known and len(known) == len(capacities) else None


def memory_percent(used: int | None, total: int | None) -> float | None:
    """Return the used part of devices' memory, None if either is unknown."""
    return None if used is None or total is None else 100 * used / total


def _utilization_percent(processes: Sequence[Process]) -> float | None:
    by_device: dict[object, list[int | None]] = defaultdict(list)
    for process in processes:
        for share in process.devices:
            by_device[share.index, share.uuid].append(share.sm_utilization_percent)
    sums = map(sum_known, by_device.values())
    # Estimates sampled one after the other may add up to more than the whole time.
    return mean_known(None if each is None else min(each, 100) for each in sums)


def _distinct(processes: Sequence[Process]) -> list[ProcessDevice]:
    """Return one share for each device, however many processes use it."""
    shares = {(d.index, d.uuid): d for process in processes for d in process.devices}
    return [shares[key] for key in sorted(shares, key=lambda key: (key[0], key[1] or ""))]


def _is_idle(process: Process) -> bool:
    return process.idle_seconds is not None and not works_on_cpu(process)


def _idle_memory(processes: Sequence[Process], idle: Sequence[Process]) -> int | None:
    """Return the memory of idle processes; None if no process reports its utilization."""
    if all(process.sm_utilization_percent is None for process in processes):
        return None
    return sum_known(process.used_gpu_memory_bytes for process in idle) or 0
