"""What the GPUs of a snapshot are doing and for whom: states, the header's counts, users."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from gpudash.analysis.health.findings import findings_by_device
from gpudash.analysis.health.levels import notable, temperature_level, works_on_cpu
from gpudash.analysis.health.rules import RULES_BY_ID
from gpudash.analysis.labels import gpu_ranges, index_ranges, mig_labels
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import unlisted_uuids
from gpudash.model.process import Process, ProcessDevice
from gpudash.model.snapshot import Finding, Snapshot, gpus_unknown
from gpudash.model.state import STATES, Level, State, is_suspended_on_purpose, unreadable_state
from gpudash.model.units import counted, short_size, sum_known, watts

IdleSeconds = Callable[[Process], float | None]
"""How long a process has held memory without running anything, None if that is not known."""


def device_states(
    snapshot: Snapshot, findings: Mapping[str, Sequence[Finding]] | None = None
) -> dict[str, State]:
    """Return the state of each device by its key; `findings` are those by device, if known.

    A GPU that slows itself down is hot even if it is busy. One at 0 % is held idle by a finding, in
    use where a process computes there, notable memory is used or the process list is unavailable,
    and else free or leased; in MIG mode it needs an instance to be either. A utilization that is
    not known is not taken for 0 %, except where the driver never reports one: of a MIG instance and
    of a GPU in MIG mode.
    """
    concerned = findings_by_device(snapshot) if findings is None else findings
    used = {share.uuid for p in snapshot.processes for share in p.devices if share.type != "G"}
    # Their process list is unavailable: empty does not mean unused.
    used |= unlisted_uuids(snapshot.errors)
    divided = {device.parent_uuid for device in snapshot.devices if device.is_mig}
    leased: set[str | None] = {lease.uuid for lease in snapshot.leases}
    for taken in (used, leased):
        taken |= {d.parent_uuid for d in snapshot.devices if d.is_mig and d.uuid in taken}
    held = {
        uuid
        for device in snapshot.devices
        if not device.gpu_utilization_percent
        and _is_found(states.HELD, concerned.get(device.key, ()))
        for uuid in (device.key, device.parent_uuid)
    }
    return {
        device.key: _state(
            device,
            concerned.get(device.key, ()),
            is_held=device.key in held,
            is_used=device.uuid in used,
            is_leased=device.uuid in leased,
            is_divided=device.uuid in divided,
        )
        for device in snapshot.devices
    }


def _state(
    device: Device,
    findings: Sequence[Finding],
    *,
    is_held: bool,
    is_used: bool,
    is_leased: bool,
    is_divided: bool,
) -> State:
    unreadable = unreadable_state(device)
    if unreadable is not None:
        return unreadable
    if _is_found(states.HOT, findings) or temperature_level(device) == "critical":
        return states.HOT
    utilization, memory = device.gpu_utilization_percent, device.memory_used_bytes
    if utilization:
        return states.BUSY
    if is_held and utilization == 0:
        return states.HELD
    if is_held or is_used or notable(device, memory):
        return states.IN_USE
    reports_none = device.is_mig or bool(device.mig_mode)
    if memory is None or (utilization is None and not reports_none):
        return states.UNKNOWN
    if device.mig_mode and not device.is_mig and not is_divided:
        return states.NO_INSTANCES
    return states.LEASED if is_leased else states.FREE


def _is_found(state: State, findings: Sequence[Finding]) -> bool:
    rules = (RULES_BY_ID.get(finding.rule) for finding in findings)
    return any(rule is not None and rule.status is state for rule in rules)


def status(state: State, findings: Iterable[Finding]) -> tuple[str, Level]:
    """Return the word of the column STATUS and how bad it is.

    It is that of the worst finding about the device that has a word, else that of its state.
    `findings` are those that concern the device, the worst first.
    """
    level = state.level
    for finding in findings if state.wire is None else ():
        rule = RULES_BY_ID.get(finding.rule)
        if rule is None or not rule.status:
            continue
        if isinstance(rule.status, State):
            if rule.status is state and finding.level != "info":
                level = finding.level
            if rule.status is state:
                break
        elif finding.level != "info":
            return rule.word, finding.level
        elif rule.is_shown_as_info:
            return rule.word, "ok"
    return state.word, level


def is_unlisted(device: Device, snapshot: Snapshot) -> bool:
    """Whether the processes of a device are not known; those of one that is out of order never are.

    A sleeping device has none.
    """
    if device.state != "ok" and not is_suspended_on_purpose(device):
        return True
    return not unlisted_uuids(snapshot.errors).isdisjoint({device.uuid, device.parent_uuid})


def no_processes_text(snapshot: Snapshot) -> str:
    """Return the text for an empty list of processes: none, or not known."""
    gpus = whole_gpus(snapshot)
    unlisted = [device.index for device in gpus if is_unlisted(device, snapshot)]
    if gpus_unknown(snapshot) or (gpus and len(unlisted) == len(gpus)):
        return "Which processes run is not known"
    if not unlisted:
        return "No running processes found"
    return f"No running processes found; those on GPU {index_ranges(unlisted)} are not known"


def no_gpus_text(snapshot: Snapshot) -> str:
    """Return the text for an empty list of GPUs: none, or not known."""
    return "The GPUs are not known" if gpus_unknown(snapshot) else "There is no GPU"


def whole_gpus(snapshot: Snapshot) -> list[Device]:
    """Return the GPUs without the MIG instances."""
    return [device for device in snapshot.devices if not device.is_mig]


Tally = tuple[str, list[tuple[int, State]]]


def tally(snapshot: Snapshot, states: Mapping[str, State] | None = None) -> Tally:
    """Return the parts of the summary: `8 GPUs`, and the number of GPUs in each state.

    `states` are those that `device_states` returns, if they are known.
    """
    if gpus_unknown(snapshot):
        return "GPUs unknown", []
    gpus, found = whole_gpus(snapshot), states or device_states(snapshot)
    counts = Counter(found[gpu.key].word for gpu in gpus)
    opening = counted(len(gpus), "GPU") if gpus else "No GPUs"
    return opening, [(counts[state.word], state) for state in STATES if counts[state.word]]


def summary(parts: Tally) -> str:
    """Return `8 GPUs: 3 busy, 4 held idle, 1 free`."""
    return _sentence(*parts)


def shorter_summaries(parts: Tally, mark: str) -> list[str]:
    """Return the summary with fewer and fewer states, in order; `mark` stands for the rest.

    What is fine is left out first, then warnings; what is free or critical never is.
    """
    opening, counts = parts
    texts = [_sentence(opening, counts)]
    optional = [state for state in STATES if not state.is_free and state.level != "critical"]
    for state in sorted(optional, key=lambda state: (state.is_problem, state.level == "warn")):
        rest = [each for each in counts if each[1] is not state]
        if 0 < len(rest) < len(counts):
            counts = rest
            texts.append(_sentence(opening, counts) + mark)
    return texts


def _sentence(opening: str, counts: Sequence[tuple[int, State]]) -> str:
    parts = ", ".join(f"{count} {state.word}" for count, state in counts)
    return f"{opening}: {parts}" if parts else opening


def totals(snapshot: Snapshot) -> str:
    """Return memory and power over all GPUs: `412G of 640G, 4105W`; unknown values are left out."""
    gpus = whole_gpus(snapshot)
    used = sum_known(gpu.memory_used_bytes for gpu in gpus)
    total = sum_known(gpu.memory_total_bytes for gpu in gpus)
    power = sum_known(gpu.power_usage_mw for gpu in gpus)
    memory = None if used is None else f"{short_size(used)} of {short_size(total)}"
    return ", ".join(filter(None, (memory, None if power is None else watts(power))))


class User(Struct, frozen=True, kw_only=True):
    """An owner of processes, or all of them together; None is a value that no process reports."""

    name: str | None
    gpus: str
    gpu_count: int
    process_count: int
    gpu_memory_bytes: int | None
    gpu_memory_share: float | None
    """Of the memory of all GPUs, 0 to 1."""
    idle_memory_bytes: int | None
    """Memory of processes that run nothing; part of the memory above."""
    idle_seconds: float | None
    """How long the longest of these has run nothing."""
    sm_percent: int | None
    """100 is one whole GPU."""
    cpu_percent: float | None
    resident_memory_bytes: int | None
    jobs: tuple[str, ...]


def users(snapshot: Snapshot, idle_seconds: IdleSeconds) -> tuple[User, ...]:
    """Return the owners, the largest holder of GPU memory first.

    Processes whose owner is not known are one user without a name.
    """
    groups: dict[str | None, list[Process]] = {}
    for process in snapshot.processes:
        groups.setdefault(process.username, []).append(process)
    found = [_user(name, group, snapshot, idle_seconds) for name, group in groups.items()]
    return tuple(sorted(found, key=lambda user: (-(user.gpu_memory_bytes or 0), user.name or "")))


def all_users(snapshot: Snapshot, idle_seconds: IdleSeconds) -> User:
    """Return the processes of all users together."""
    return _user("all", snapshot.processes, snapshot, idle_seconds)


def unowned_memory_bytes(snapshot: Snapshot) -> int | None:
    """Return the GPU memory that no listed process owns, None if no GPU reports it."""
    return sum_known(gpu.memory_unaccounted_bytes for gpu in whole_gpus(snapshot))


def _user(
    name: str | None,
    processes: Sequence[Process],
    snapshot: Snapshot,
    idle_seconds: IdleSeconds,
) -> User:
    shares = _distinct(processes)
    memory = sum_known(process.used_gpu_memory_bytes for process in processes)
    total = sum_known(gpu.memory_total_bytes for gpu in whole_gpus(snapshot))
    idle = [process for process in processes if _is_idle(process)]
    spans = [span for span in map(idle_seconds, idle) if span is not None]
    return User(
        name=name,
        gpus=gpu_ranges(shares, mig_labels(snapshot.devices)),
        gpu_count=len({share.index for share in shares}),
        process_count=len(processes),
        gpu_memory_bytes=memory,
        gpu_memory_share=None if memory is None or not total else memory / total,
        idle_memory_bytes=_idle_memory(processes, idle),
        idle_seconds=max(spans, default=None),
        sm_percent=sum_known(process.sm_utilization_percent for process in processes),
        cpu_percent=sum_known(process.cpu_percent for process in processes),
        resident_memory_bytes=sum_known(process.resident_memory_bytes for process in processes),
        jobs=tuple(sorted({process.job.label for process in processes if process.job})),
    )


def _distinct(processes: Sequence[Process]) -> list[ProcessDevice]:
    """Return one share for each device, however many processes are on it."""
    shares = {(d.index, d.uuid): d for process in processes for d in process.devices}
    return [shares[key] for key in sorted(shares, key=lambda key: (key[0], key[1] or ""))]


def _is_idle(process: Process) -> bool:
    holds = process.sm_utilization_percent == 0 and bool(process.used_gpu_memory_bytes)
    return holds and not works_on_cpu(process)


def _idle_memory(processes: Sequence[Process], idle: Sequence[Process]) -> int | None:
    """Return the memory of the idle ones; None if no process reports its SM utilization."""
    if all(process.sm_utilization_percent is None for process in processes):
        return None
    return sum_known(process.used_gpu_memory_bytes for process in idle) or 0
