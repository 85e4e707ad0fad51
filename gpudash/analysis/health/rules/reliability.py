"""Memory and boards that wear out or broke, by their own counters and the driver's XID reports."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.health.rule import RESET, Rule, Symptom, number, proof
from gpudash.analysis.health.sight import Sight
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent

ECC = Rule(
    "ecc-uncorrected",
    "memory errors since the driver was loaded that could not be corrected",
    "ECC",
)
REMAP_FAILED = Rule("row-remap-failed", "no spare memory rows are left", "remap")
REMAP_PENDING = Rule("row-remap-pending", "waits for a reset to replace bad memory rows", "remap")
RETIREMENT_PENDING = Rule(
    "page-retirement-pending", "waits for a reboot to retire bad memory pages", "retire"
)
XID = Rule("xid", "the driver reported an XID: what its number says, and how bad that is", "XID")

_RESET = f"End the jobs on it; {RESET}"
_LOG = "The kernel log tells more: sudo dmesg | grep -i xid"
_PROGRAM_SECONDS = 600.0
"""How long a fault of a program is told; one of the board is as long as it is known."""


def memory_errors(sight: Sight) -> Iterator[Symptom]:
    """GPUs whose memory made errors that could not be corrected, or waits to be mended."""
    for gpu in sight.gpus:
        if not (
            gpu.ecc_uncorrected_volatile_count
            or gpu.remapped_rows_failed
            or gpu.remapped_rows_pending
            or gpu.retired_pages_pending
        ):
            continue
        of = sight.name(gpu)
        if gpu.ecc_uncorrected_volatile_count:
            fact = (
                "had memory errors that could not be corrected",
                "had memory errors that could not be corrected",
            )
            evidence = proof(
                of, gpu, "ecc_uncorrected_volatile_count", "ecc_uncorrected_aggregate_count"
            )
            advice = (
                "What ran then has failed, or may have computed wrongly. If they come again, have "
                f"the board replaced. {_RESET}"
            )
            yield Symptom(ECC, gpu.key, "critical", advice, fact, "", (gpu,), evidence)
        remapped = proof(
            of, gpu, "remapped_rows_corrected_count", "remapped_rows_uncorrected_count"
        )
        if gpu.remapped_rows_failed:
            fact = ("has no spare memory rows left", "have no spare memory rows left")
            advice = "The board is worn out: have it replaced."
            yield Symptom(REMAP_FAILED, gpu.key, "critical", advice, fact, "", (gpu,), remapped)
        elif gpu.remapped_rows_pending:
            fact = (
                "needs a reset to replace bad memory rows",
                "need a reset to replace bad memory rows",
            )
            yield Symptom(REMAP_PENDING, gpu.key, "warn", _RESET, fact, "", (gpu,), remapped)
        if gpu.retired_pages_pending:
            fact = (
                "needs a reboot to retire bad memory pages",
                "need a reboot to retire bad memory pages",
            )
            evidence = proof(
                of, gpu, "retired_pages_single_bit_count", "retired_pages_double_bit_count"
            )
            advice = "Reboot the host when its jobs have ended."
            yield Symptom(RETIREMENT_PENDING, gpu.key, "warn", advice, fact, "", (gpu,), evidence)


def xids(sight: Sight) -> Iterator[Symptom]:
    """What the driver reported on GPUs, also on one that is lost by now.

    Each number once, with when it came last; what was before a reset is over.
    """
    reported = [
        (gpu, event)
        for gpu in sight.snapshot.devices
        for event in gpu.xid_events or ()
        if not event.before_reset
    ]
    if reported:
        yield from _told(sight, reported)


def _is_gone(gpu: Device) -> bool:
    """Whether the driver has a GPU no longer: it says nothing of it, not even that it is lost."""
    return gpu.state == "lost" and gpu.fault is not None and gpu.fault.code is None


def _told(sight: Sight, reported: list[tuple[Device, XidEvent]]) -> Iterator[Symptom]:
    from gpudash.analysis.health.xids import meaning

    now = sight.snapshot.taken_at.timestamp()
    for gpu, event in reported:
        told, age = meaning(event.code), max(0.0, now - event.seen_at)
        if told.is_programs and age > _PROGRAM_SECONDS:
            continue
        code, of = "unknown" if event.code is None else event.code, sight.name(gpu)
        which = "an XID of unknown number" if event.code is None else f"XID {code}"
        words = f"reported {which}: {told.text}"
        # The number that it is shown by may have been another's.
        removed = f"The GPU at {gpu.pci_bus_id}, since removed, {words}" if _is_gone(gpu) else ""
        yield Symptom(
            XID,
            (gpu.key, event.code),
            told.level,
            _LOG if removed else told.advice,
            (words, words),
            removed,
            (gpu,),
            evidence=(
                number("xid_code", code, of),
                number("age_seconds", int(age), of),
                *proof(of, event, "count", "gpu_instance_id"),
            ),
            held_seconds=age,
        )
