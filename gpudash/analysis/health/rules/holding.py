"""GPUs held or leased without being used, and GPUs that wait for their host."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain

from gpudash.analysis.activity import notable
from gpudash.analysis.health.context import DISK_WAIT_PERCENT, Hold, RuleContext
from gpudash.analysis.health.rule import (
    Rule,
    Symptom,
    bounded,
    check,
    number,
    proof,
    rough_duration,
    rule,
    who,
)
from gpudash.analysis.labels import index_ranges, whose
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.process import EXITED, Lease, Process
from gpudash.model.snapshot import Evidence
from gpudash.model.units import counted, floor_tenths, size, sum_known

HOLDS_MANY = rule(
    130,
    "holds-many-works-on-few",
    "one process took the memory of many GPUs and works on few",
    status=states.HELD,
    appears_after_seconds=10,
)
HELD_IDLE = rule(
    160,
    "held-idle",
    "processes hold memory and do nothing, not on a CPU either; a warning after 5 minutes, 30 if "
    "they worked before",
    status=states.HELD,
)
CPU_BOUND = rule(
    162,
    "cpu-bound",
    "processes hold memory without using the GPU and keep a CPU busy: loading, compiling",
)
DISK_BOUND = rule(
    164,
    "disk-bound",
    "processes hold memory without using the GPU and wait for a disk",
)
LEASED_UNUSED = rule(
    170,
    "leased-unused",
    "leased by gpudash run and not used; a warning after 10 minutes",
    status=states.LEASED,
)
HOST_BOUND = rule(
    270,
    "host-bound",
    "used less than half while its process keeps a CPU busy or waits for a disk; needs "
    "several samples",
    appears_after_seconds=60,
    goes_after_seconds=30,
)

_LONG_SECONDS, _LONG_PAUSE_SECONDS = 300.0, 1800.0
_MAX_PROOFS = 9
_MIN_PERCENT, _STARVED_PERCENT = 2, 50
_BUSY_CORE_PERCENT = 90
_IDLE_ADVICE = (
    "Ask {whose} owner, or end {it}: K on the screen{end}. A notebook keeps its memory until its "
    "kernel is shut down, a server as long as it runs."
)
_MAX_PIDS = 8
"""Maximum number of processes in a command to copy: an incomplete one would look complete."""
_ASK_ADVICE = "Ask its owner whether it needs the memory: it has been using a CPU."
_NEW_ADVICE = "It may still be loading or compiling: it has not used a GPU since it started."
_CPU_ADVICE = (
    "Leave it alone: it may be loading, compiling or preparing data. If that lasts, its owner may "
    "do it without holding a GPU."
)
_DISK_ADVICE = (
    "Leave it alone: it may be loading a model or data. Faster storage or a local copy shortens it."
)

_LEASE_LONG_SECONDS, _UNSEEN_SECONDS = 600.0, 60.0
_LEASE_ADVICE = (
    "A lease ends with the command that gpudash run started: ask its owner, or end it with "
    "gpudash kill {pid}. gpudash leases lists them all."
)

_Unused = tuple[Process, list[Hold]]


@check
def holders(context: RuleContext) -> Iterator[Symptom]:
    """Processes that hold GPUs without using them; exited ones have a separate finding."""
    groups: dict[tuple[str | None, Rule, bool], list[_Unused]] = defaultdict(list)
    for process, holds in context.holds:
        if process.hidden_reason == EXITED:
            continue
        unused = [hold for hold in holds if hold.unused_seconds is not None]
        on_host = context.activity.of(process).on_host
        if not unused:
            continue
        working = context.working(process, holds)
        if _is_trap(holds, working, unused):
            yield _trap(context, process, holds, unused)
        elif on_host and not working:
            found = CPU_BOUND if on_host == "cpu" else DISK_BOUND
            is_new = not any(hold.works for hold in holds) and context.is_new(process)
            groups[process.username, found, is_new].append((process, unused))
        else:
            groups[process.username, HELD_IDLE, _is_long(unused)].append((process, unused))
    for (owner, found, is_separate), group in groups.items():
        yield _unused(context, owner, found, group, is_separate=is_separate)


def _is_long(idle: list[Hold]) -> bool:
    """Whether it has lasted, for longer if work may go on after a pause, and is notable."""
    paused = any(hold.works for hold in idle)
    enough = _LONG_PAUSE_SECONDS if paused else _LONG_SECONDS
    return _resting_seconds(idle) >= enough and any(map(_is_notable, idle))


def _is_trap(holds: list[Hold], working: list[Hold], unused: list[Hold]) -> bool:
    """Whether a process works somewhere, and holds notable memory on as many other GPUs or more."""
    taken = [hold for hold in unused if _is_notable(hold)]
    return bool(working) and 2 * len(taken) >= len(holds) and all(hold.works for hold in working)


def _trap(context: RuleContext, process: Process, holds: list[Hold], unused: list[Hold]) -> Symptom:
    """Return the symptom of a process that took the memory of many GPUs and works on few."""
    working = [hold for hold in holds if hold.unused_seconds is None]
    used = index_ranges({hold.share.index for hold in working})
    sentence = (
        f"{who(process)} holds {size(_memory(holds))} on GPU {context.ranges(holds)} "
        f"and works on GPU {used} alone"
    )
    advice = (
        f"Start it with CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES={used}, or keep its "
        "framework from taking all memory: XLA_PYTHON_CLIENT_PREALLOCATE=false for JAX, "
        "TF_FORCE_GPU_ALLOW_GROWTH=true for TensorFlow."
    )
    return Symptom(
        HOLDS_MANY,
        process.key,
        "warn",
        advice,
        sentence=sentence,
        devices=tuple(hold.device for hold in unused),
        evidence=tuple(chain.from_iterable(_proofs(context, [(process, holds)]))),
        pids=(process.pid,),
        held_seconds=None if context.is_first else _seconds(unused),
    )


def _unused(
    context: RuleContext,
    owner: str | None,
    found: Rule,
    group: list[_Unused],
    *,
    is_separate: bool,
) -> Symptom:
    """Return what one owner holds without using it, a warning after some minutes of idleness.

    Processes idle for long form one group, busy ones that never used a GPU another.
    """
    holds = [hold for _, unused in group for hold in unused]
    seconds, ranges = _seconds(holds), context.ranges(holds)
    first = max(group, key=lambda each: (_memory(each[1]) or 0, -each[0].pid))[0]
    others = len(group) - 1
    subject = who(first)
    if others:
        subject += f" and {counted(others, 'more process')}"
    memory = _memory(holds)
    amount = "memory" if memory is None else size(memory)
    holds_it = f"{'hold' if others else 'holds'} {amount} on GPU {ranges}"
    if found is not HELD_IDLE:
        cpu, disk = ("keep", "wait") if others else ("keeps", "waits")
        holds_it += f", {cpu} a CPU busy" if found is CPU_BOUND else f", {disk} for a disk"
    unused = _not_used(ranges, None if context.is_first else seconds, is_plural=others > 0)
    if found is HELD_IDLE:
        known = [context.activity.of(process) for process, _ in group]
        may_work = any(each.may_work or each.on_host for each in known)
        advice = _ASK_ADVICE if may_work else _idle_advice(group)
    else:
        advice = _CPU_ADVICE if found is CPU_BOUND else _DISK_ADVICE
        advice = _NEW_ADVICE if is_separate else advice
    return Symptom(
        found,
        (owner, is_separate),
        "warn" if found is HELD_IDLE and is_separate else "info",
        advice,
        sentence=f"{subject} {holds_it} and {unused}",
        devices=tuple({hold.device.key: hold.device for hold in holds}.values()),
        evidence=bounded(_proofs(context, group), len(holds), _MAX_PROOFS),
        pids=tuple(process.pid for process, _ in group),
        held_seconds=None if context.is_first else _resting_seconds(holds),
    )


def _idle_advice(group: list[_Unused]) -> str:
    pids = " ".join(str(process.pid) for process, _ in group)
    end = f", gpudash kill {pids}" if len(group) <= _MAX_PIDS else " (Space tags several)"
    whose, it = ("their", "them") if len(group) > 1 else ("its", "it")
    return _IDLE_ADVICE.format(whose=whose, it=it, end=end)


@check
def starved(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that wait while their processes fully use a CPU, or wait for a disk.

    A single sample is no proof: the GPU may pause, and CPU time is a mean since the start.
    """
    if context.is_first:
        return
    waiting = {
        gpu.key: (gpu, percent)
        for gpu in context.gpus
        if gpu.gpu_utilization_percent is not None
        and (percent := context.activity.utilization_percent(gpu)) is not None
        and _MIN_PERCENT <= percent < _STARVED_PERCENT
    }
    users: dict[str, list[Process]] = defaultdict(list)
    for process, holds in context.holds if waiting else ():
        for hold in holds:
            if hold.unused_seconds is None and hold.device.key in waiting:
                users[hold.device.key].append(process)
    for key, (gpu, percent) in waiting.items():
        yield from _starved(context, gpu, percent, users.get(key, ()))


def _starved(
    context: RuleContext, gpu: Device, percent: float, users: Iterable[Process]
) -> Iterator[Symptom]:
    for process in users:
        known = context.activity.of(process)
        cpu = None if process.cpu_percent is None else known.cpu_percent
        waits = None if process.status is None else known.disk_wait_percent
        is_waiting = waits is not None and waits >= DISK_WAIT_PERCENT
        if not is_waiting and (cpu is None or cpu < _BUSY_CORE_PERCENT):
            continue
        why = "waits for a disk" if is_waiting else "keeps the CPU busy"
        of = context.name(gpu)
        evidence = [number("mean_gpu_utilization_percent", percent, of)]
        means = (("mean_cpu_percent", cpu), ("mean_disk_wait_percent", waits))
        evidence += [number(name, value, f"PID {process.pid}") for name, value in means if value]
        yield Symptom(
            HOST_BOUND,
            (gpu.key, process.key),
            "warn",
            "Its data arrives too slowly: try more loader workers, larger batches, faster "
            "storage, or work moved from Python to the GPU.",
            sentence=f"{of} is used less than half while {who(process)} {why}",
            devices=(gpu,),
            evidence=tuple(evidence),
            pids=(process.pid,),
        )
        return


def _proofs(context: RuleContext, group: Iterable[_Unused]) -> Iterator[tuple[Evidence, ...]]:
    """Yield what each process holds and does on each of its devices."""
    for process, holds in group:
        known = context.activity.of(process)
        means = (("mean_cpu_percent", known.cpu_percent),)
        if known.on_host == "disk":
            means = (("mean_disk_wait_percent", known.disk_wait_percent),)
        for index, hold in enumerate(holds):
            of = f"PID {process.pid} on {context.name(hold.device)}"
            evidence = proof(of, hold.share, "used_gpu_memory_bytes", "sm_utilization_percent")
            if hold.unused_seconds and not context.is_first:
                evidence += (number("idle_seconds", hold.unused_seconds, of),)
            if known.on_host and index == 0:
                evidence += tuple(number(name, mean, f"PID {process.pid}") for name, mean in means)
            yield evidence


def _seconds(holds: Iterable[Hold]) -> float:
    """Return for how long all of it has been unused."""
    return min(hold.unused_seconds or 0.0 for hold in holds)


def _resting_seconds(holds: Iterable[Hold]) -> float:
    """Return for how long all have been idle, including on the host for those idle there."""
    return min(
        (hold.unused_seconds if hold.idle_seconds is None else hold.idle_seconds) or 0.0
        for hold in holds
    )


def _not_used(ranges: str, seconds: float | None, *, is_plural: bool = False) -> str:
    """Return text for unused GPUs, with None for an unknown time: `has not used it for 3 h`."""
    them = "it" if ranges.isdecimal() else "them"
    if seconds is None:
        return f"{'do' if is_plural else 'does'} not use {them} now"
    return f"{'have' if is_plural else 'has'} not used {them} for {rough_duration(seconds)}"


def _is_notable(hold: Hold) -> bool:
    return notable(hold.share.used_gpu_memory_bytes, hold.device.memory_total_bytes)


def _memory(holds: Iterable[Hold]) -> int | None:
    return sum_known(hold.share.used_gpu_memory_bytes for hold in holds)


_Key = tuple[str, int | None]
"""The UUID of a GPU, and the PID of the process that leased it."""


@check
class UnusedLeases:
    """Leases on which nothing runs, and since when."""

    def __init__(self) -> None:
        self._since: dict[_Key, float] = {}
        self._seen: dict[_Key, float] = {}
        """When each was last seen unused."""

    def __call__(self, context: RuleContext) -> Iterator[Symptom]:
        """Yield one symptom for each holder of GPUs on which none of its processes runs."""
        now = context.activity.now
        unused = [lease for lease in context.snapshot.leases if lease.is_used is False]
        before, seen = self._since, self._seen
        self._since = {
            (each.uuid, each.pid): before.get((each.uuid, each.pid), now) for each in unused
        }
        self._seen = dict.fromkeys(self._since, now)
        # Briefly invisible processes are assumed unchanged; not for longer.
        all_leases = context.snapshot.leases
        unseen = {(each.uuid, each.pid) for each in all_leases if each.is_used is None}
        for each in unseen & before.keys():
            if now - seen[each] <= _UNSEEN_SECONDS:
                self._since[each], self._seen[each] = before[each], seen[each]
        devices: dict[str, Device] = {d.uuid: d for d in context.snapshot.devices if d.uuid}
        for pid in dict.fromkeys(lease.pid for lease in unused):
            leases = [lease for lease in unused if lease.pid == pid]
            held = [devices[lease.uuid] for lease in leases if lease.uuid in devices]
            seconds = floor_tenths(now - min(self._since[lease.uuid, pid] for lease in leases))
            yield _unused_lease(context, leases, held, seconds)


def _unused_lease(
    context: RuleContext, leases: list[Lease], held: list[Device], seconds: float
) -> Symptom:
    first = leases[0]
    ranges = index_ranges({lease.index for lease in leases})
    holder = whose(first.name, first.username, first.pid)
    unused = _not_used(ranges, None if context.is_first or seconds < 1 else seconds)
    return Symptom(
        LEASED_UNUSED,
        first.pid,
        "warn" if seconds >= _LEASE_LONG_SECONDS else "info",
        _LEASE_ADVICE.format(pid=first.pid),
        sentence=f"{holder} has leased GPU {ranges} and {unused}",
        devices=tuple(held),
        evidence=(number("leased_gpu_count", len(leases)),),
        held_seconds=None if context.is_first else seconds,
    )
