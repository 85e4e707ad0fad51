"""Memory that is nearly used up, and memory owned by no listed process."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.activity import has_host_pages, notable
from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.levels import memory_level
from gpudash.analysis.health.rule import Symptom, about, check, number, proof, rule, who_holds
from gpudash.model.device import Device
from gpudash.model.snapshot import FindingLevel
from gpudash.model.state import Level
from gpudash.model.units import size

FULL = rule(
    280,
    "memory-almost-full",
    "less than 5% of its memory is left; a warning below 1%",
    appears_after_seconds=5,
    goes_after_seconds=10,
)
# The process list is read every other second: it may lag behind the memory in use.
UNACCOUNTED = rule(
    180,
    "memory-unaccounted",
    "notable memory is in use that no listed process owns",
    appears_after_seconds=8,
)
"""Disappears at once: its sentence has an amount, which would be out of date."""

_LEFT: dict[Level, tuple[int, FindingLevel]] = {"warn": (5, "info"), "critical": (1, "warn")}
"""The limit in percent of remaining memory, and the finding's level, by level of the value."""
_MAX_NAMED, _MAX_HOLDERS = 4, 8
_PART_OF_HOST = (
    "It is part of the host's memory, where Linux keeps cached files and pages of other programs, "
    "too. As root, echo 1 > /proc/sys/vm/drop_caches frees what is only cached."
)


@check
def full(context: RuleContext) -> Iterator[Symptom]:
    """Devices whose next allocation may fail."""
    for device in context.snapshot.devices:
        how_full = memory_level(device)
        if how_full not in _LEFT or device.mig_mode or device.unified_memory:
            continue
        left, level = _LEFT[how_full]
        fact = f"[has|have] less than {left}% of [its|their] memory left"
        advice = (
            "The next allocation may fail. Some frameworks take all memory at once on purpose; "
            "otherwise use a smaller batch or another GPU."
        )
        parts = (f"memory_{part}_bytes" for part in ("free", "used", "reserved", "total"))
        yield about(context, device, FULL, level, fact, advice, *parts)


@check
def unaccounted(context: RuleContext) -> Iterator[Symptom]:
    """GPUs with notable memory in use that no listed process owns.

    Expected if processes are hidden, as in a container, or if the memory is part of the host's.
    """
    hides = any(each.source == "processes" and not each.uuid for each in context.snapshot.errors)
    for gpu in context.gpus:
        amount = gpu.memory_unaccounted_bytes
        if not notable(amount, gpu.memory_total_bytes) or gpu.unified_memory:
            continue
        label = context.labels[gpu.key]
        holders = context.snapshot.holders_of(gpu)
        count = max(gpu.holder_count or 0, len(holders))
        is_part = has_host_pages(gpu)
        verb = "used" if is_part else "held"
        sentence = f"GPU {label}: {size(amount)} {verb} by no listed process"
        if holders:
            names = ", ".join(who_holds(holder) for holder in holders[:_MAX_NAMED])
            more = f" and {count - _MAX_NAMED} more" if count > _MAX_NAMED else ""
            sentence += f"; its device node is open in {names}{more}"
        of = context.name(gpu)
        is_normal = is_part or (hides and not holders)
        yield Symptom(
            UNACCOUNTED,
            gpu.key,
            "info" if is_normal else "warn",
            _PART_OF_HOST if is_part and not count else _advice(gpu, count, hides=hides),
            sentence=sentence,
            devices=(gpu,),
            evidence=(
                *proof(of, gpu, "memory_unaccounted_bytes", "memory_used_bytes"),
                *(number("holder", who_holds(holder), of) for holder in holders[:_MAX_HOLDERS]),
            ),
        )


def _advice(gpu: Device, holder_count: int, *, hides: bool) -> str:
    """Return what to do, depending on which processes have the GPU open."""
    node = "/dev/nvidia*" if gpu.minor_number is None else f"/dev/nvidia{gpu.minor_number}"
    if holder_count:
        them, end = ("it is", "end it") if holder_count == 1 else ("they are", "end them")
        # The list may be cut off: an incomplete command would look complete.
        known = list(map(str, gpu.holder_pids or ()))
        is_whole = len(known) == holder_count <= _MAX_HOLDERS
        how = f"kill {' '.join(known)}" if is_whole else f"sudo fuser -v {node} lists them"
        return f"If {them} left over from a job that has ended, {end} too: {how}"
    if hides:
        return "Not all processes can be seen from here, as in a container: look on the host."
    if gpu.holders_complete:
        return (
            "No process that uses CUDA has it open: unless a virtual machine does, only a reset "
            "of the GPU or a reboot frees it."
        )
    unseen = "" if gpu.holder_pids is None else "Processes of other users are hidden. "
    return f"{unseen}To see which processes have it open: sudo fuser -v {node}"
