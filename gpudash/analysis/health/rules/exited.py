"""Exited processes whose memory is still held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import RESET, Symptom, check, number, proof, rule, who, who_holds
from gpudash.analysis.labels import gpu_ranges, mig_labels
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.process import EXITED, Process, ProcessDevice
from gpudash.model.snapshot import Evidence
from gpudash.model.units import counted, size, sum_known

# The process list is read every other second, and freeing a large context takes a while.
EXITED_HOLDS = rule(
    155,
    "exited-holds",
    "a process has exited, and the driver still lists it with memory: another one, such as a "
    "child, has the GPU open",
    status=states.HELD,
    appears_after_seconds=10,
)

_MAX_HOLDERS = 8
"""Maximum number of processes in a command to copy: an incomplete one would look complete."""


@check
def exited(context: RuleContext) -> Iterator[Symptom]:
    """Processes that are gone and hold memory; one that is only hidden may well run."""
    for process in context.snapshot.processes:
        if process.hidden_reason != EXITED:
            continue
        shares = [share for share in process.devices if share.used_gpu_memory_bytes != 0]
        found = _devices(context, shares)
        if found:
            yield _symptom(context, process, shares, found)


def _devices(context: RuleContext, shares: Sequence[ProcessDevice]) -> list[Device]:
    """Return the readable devices of shares."""
    uuids = {share.uuid for share in shares}
    return [d for d in context.snapshot.devices if d.uuid in uuids and d.state == "ok"]


def _symptom(
    context: RuleContext, process: Process, shares: list[ProcessDevice], found: list[Device]
) -> Symptom:
    devices: dict[str | None, Device] = {device.uuid: device for device in found}
    held = [share for share in shares if share.uuid in devices]
    memory = sum_known(share.used_gpu_memory_bytes for share in held)
    amount = "memory" if memory is None else size(memory)
    ranges = gpu_ranges(held, mig_labels(context.snapshot.devices))
    # Open device nodes are those of whole GPUs.
    gpus = [gpu for gpu in context.gpus if any(gpu.index == share.index for share in held)]
    holders = {each.pid: each for gpu in gpus for each in context.snapshot.holders_of(gpu)}
    evidence = [
        *_proofs(context, process, [(share, devices[share.uuid]) for share in held]),
        *(number("holder", who_holds(each)) for each in list(holders.values())[:_MAX_HOLDERS]),
    ]
    return Symptom(
        EXITED_HOLDS,
        process.key,
        "warn",
        _advice(gpus, list(holders)),
        sentence=f"{who(process)} has exited and still holds {amount} on GPU {ranges}",
        devices=tuple(found),
        evidence=tuple(evidence),
        pids=(process.pid,),
    )


def _proofs(
    context: RuleContext, process: Process, held: Iterable[tuple[ProcessDevice, Device]]
) -> Iterator[Evidence]:
    for share, device in held:
        of = f"PID {process.pid} on {context.name(device)}"
        yield from proof(of, share, "used_gpu_memory_bytes")


def _advice(gpus: Sequence[Device], pids: Sequence[int]) -> str:
    """Return how to free the memory, depending on which processes have the GPUs open."""
    nodes = " ".join(
        f"/dev/nvidia{gpu.minor_number}" for gpu in gpus if gpu.minor_number is not None
    )
    lists = f"sudo fuser -v {nodes or '/dev/nvidia*'}"
    count = max([len(pids), *(gpu.holder_count or 0 for gpu in gpus)])
    if count:
        is_whole = len(pids) == count <= _MAX_HOLDERS
        end = f"kill {' '.join(map(str, pids))}" if is_whole else f"{lists} lists them"
        they, their, have = ("it is", "its", "has") if count == 1 else ("they are", "their", "have")
        return (
            f"{counted(count, 'process')} {have} the GPU open: if {they} left over from the same "
            f"job, {their} end frees the memory: {end}"
        )
    reset = f"only a reset frees it: {RESET}"
    if gpus and all(gpu.holders_complete for gpu in gpus):
        return f"No process that uses CUDA has the GPU open any more: {reset}"
    return (
        "The memory is freed once what shares it, such as a child, has ended: "
        f"{lists} lists what has the GPU open. If nothing has, {reset}"
    )
