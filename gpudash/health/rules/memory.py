"""Memory that is nearly used up, and memory that nobody listed owns."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.health.levels import memory_share, notable
from gpudash.health.sight import Sight
from gpudash.health.symptom import Rule, Symptom, number, proof
from gpudash.snapshot import Device, FindingLevel
from gpudash.units import size

FULL = Rule(
    "memory-almost-full", "less than 5 % of its memory is left; a warning below 1 %", "", 5, 10
)
# The list of processes is read every other second: it may lag behind what is used.
UNACCOUNTED = Rule(
    "memory-unaccounted", "notable memory is in use that no listed process owns", "", 8
)
"""It goes at once: its sentence names an amount, which would be one of before."""

_MOST_HOLDERS = 8


def full(sight: Sight) -> Iterator[Symptom]:
    """Devices whose next allocation may fail."""
    for device in sight.snapshot.devices:
        share = memory_share(device)
        if share is None or share < 0.95 or device.mig_mode or device.unified_memory:
            continue
        left = "1" if share >= 0.99 else "5"
        level: FindingLevel = "warn" if share >= 0.99 else "info"
        fact = (
            f"has less than {left} % of its memory left",
            f"have less than {left} % of their memory left",
        )
        advice = (
            "The next allocation may fail. Frameworks that take all memory at once work so on "
            "purpose; else use a smaller batch or another GPU."
        )
        evidence = proof(sight.name(device), device, "memory_used_bytes", "memory_total_bytes")
        yield Symptom(FULL, device.key, level, advice, fact, "", (device,), evidence)


def unaccounted(sight: Sight) -> Iterator[Symptom]:
    """GPUs with notable memory in use that no listed process owns."""
    for gpu in sight.gpus:
        amount = gpu.memory_unaccounted_bytes
        if not notable(gpu, amount) or gpu.unified_memory:
            continue
        label = sight.labels[gpu.key]
        holders = gpu.holders or ()
        sentence = f"GPU {label}: {size(amount)} held by no listed process"
        if holders:
            names = ", ".join(str(holder) for holder in holders[:_MOST_HOLDERS])
            more = f" and {len(holders) - _MOST_HOLDERS} more" if holders[_MOST_HOLDERS:] else ""
            sentence += f"; its device node is open in {names}{more}"
        of = sight.name(gpu)
        yield Symptom(
            UNACCOUNTED,
            gpu.key,
            "warn",
            _advice(gpu, bool(holders)),
            sentence=sentence,
            devices=(gpu,),
            evidence=(
                *proof(of, gpu, "memory_unaccounted_bytes", "memory_used_bytes"),
                *(number("holder", str(holder), of) for holder in holders[:_MOST_HOLDERS]),
            ),
        )


def _advice(gpu: Device, has_holders: bool) -> str:
    if has_holders:
        return "If they are left over from a job that has ended, end them too: kill PID"
    minor = gpu.minor_number
    node = "/dev/nvidia*" if minor is None else f"/dev/nvidia{minor}"
    if gpu.holders_complete:
        return "No process has it open: only a reset of the GPU or a reboot frees it."
    return f"Processes of other users and containers cannot be seen: sudo fuser -v {node}"
