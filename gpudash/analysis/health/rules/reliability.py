"""Memory and boards that wear out or failed, by their counters and the driver's XID reports."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import RESET, Symptom, check, number, proof, rule
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent
from gpudash.model.snapshot import FindingLevel

ECC = rule(
    70,
    "ecc-uncorrected",
    "memory errors since the driver was loaded that could not be corrected",
    status=states.UNUSABLE,
)
REMAP_FAILED = rule(80, "row-remap-failed", "no spare memory rows are left", status=states.UNUSABLE)
REMAP_PENDING = rule(190, "row-remap-pending", "waits for a reset to replace bad memory rows")
RETIREMENT_PENDING = rule(
    200, "page-retirement-pending", "waits for a reboot to retire bad memory pages"
)
XID = rule(
    60,
    "xid",
    "the driver reported an XID: what its number says, and how bad that is",
    status=states.UNUSABLE,
)

_RESET = f"End the jobs on it; {RESET}"
_LOG = "The kernel log has more: sudo dmesg | grep -i xid"
_PROGRAM_SECONDS = 600.0
"""How long the fault of a program is reported; one of the board stays."""

_PROGRAM = "A fault of the program that ran there, seldom of the GPU: see its log."
_NEEDS_RESET = f"It needs a reset. {_RESET}"
_BOARD = f"It needs a reset, and if it recurs, a check. {_RESET}"
_DRIVER = f"It needs a reset, and if it recurs, another driver. {_RESET}"
_LINKS = "See gpudash nvlink; a reset or a reseat of the board may help."


class Meaning(Struct, frozen=True):
    """What an XID means, how bad it is, and what to do."""

    text: str
    level: FindingLevel
    advice: str

    @property
    def is_program_fault(self) -> bool:
        """Whether a program is to blame, not the board."""
        return self.advice is _PROGRAM


_MEANINGS: dict[int, Meaning] = {
    13: Meaning("a program did something illegal on it", "warn", _PROGRAM),
    31: Meaning("a program accessed memory that it may not", "warn", _PROGRAM),
    32: Meaning("it was sent commands that were damaged", "warn", _BOARD),
    38: Meaning("its firmware met an error", "critical", _DRIVER),
    43: Meaning("a program was stopped after a fault of its own", "warn", _PROGRAM),
    45: Meaning("a program was ended and cleaned up", "info", _PROGRAM),
    48: Meaning("memory failed in a way that could not be corrected", "critical", _BOARD),
    61: Meaning("a controller inside it met an error", "critical", _BOARD),
    62: Meaning("a controller inside it halted", "critical", _BOARD),
    63: Meaning("a bad piece of memory was taken out of use", "warn", _NEEDS_RESET),
    64: Meaning("a bad piece of memory could not be taken out of use", "critical", _BOARD),
    68: Meaning("its video decoder met an error", "warn", _PROGRAM),
    69: Meaning("a program gave it an illegal command", "warn", _PROGRAM),
    74: Meaning("an NVLink failed", "critical", _LINKS),
    79: Meaning(
        "it fell off the bus",
        "critical",
        "Reboot the host, or cycle its power; check power cables, slot and temperature.",
    ),
    92: Meaning("many memory errors had to be corrected", "warn", _BOARD),
    94: Meaning("memory failed under one program, which was ended", "warn", _NEEDS_RESET),
    95: Meaning("memory failed, and other programs may be affected too", "critical", _BOARD),
    109: Meaning("a program did not release it in time", "warn", _DRIVER),
    110: Meaning("a safety check inside it failed", "critical", _BOARD),
    119: Meaning("its firmware (GSP) did not answer in time", "critical", _DRIVER),
    120: Meaning("its firmware (GSP) met an error", "critical", _DRIVER),
    121: Meaning("its link to the CPU corrected an error", "info", _BOARD),
    140: Meaning("memory failed in a way that could not be corrected", "critical", _BOARD),
    143: Meaning("it could not be started", "critical", _DRIVER),
    154: Meaning(
        "the recovery action that the driver asks for has changed",
        "info",
        "Another finding shows it, if anything remains to be done.",
    ),
    **{code: Meaning("an NVLink met an error", "warn", _LINKS) for code in (144, 145, 146, 147)},
    **{code: Meaning("an NVLink failed", "critical", _LINKS) for code in (148, 149, 150)},
}
_UNKNOWN = Meaning(
    "see NVIDIA's catalogue of XIDs for its meaning",
    "warn",
    "sudo dmesg | grep -i xid shows what the kernel logged.",
)
_WITHOUT_NUMBER = Meaning("only the kernel log has it", "warn", _UNKNOWN.advice)


def meaning(code: int | None) -> Meaning:
    """Return what a number means; one that is not known is a warning."""
    return _WITHOUT_NUMBER if code is None else _MEANINGS.get(code, _UNKNOWN)


@check
def memory_errors(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose memory had uncorrectable errors."""
    for gpu in context.gpus:
        if not gpu.ecc_uncorrected_volatile_count:
            continue
        fact = (
            "had memory errors that could not be corrected",
            "had memory errors that could not be corrected",
        )
        evidence = proof(
            context.name(gpu),
            gpu,
            "ecc_uncorrected_volatile_count",
            "ecc_uncorrected_aggregate_count",
        )
        advice = (
            "Jobs that ran then have failed or may have computed wrong results. If the errors "
            f"recur, have the board replaced. {_RESET}"
        )
        yield Symptom(ECC, gpu.key, "critical", advice, fact, "", (gpu,), evidence)


@check
def memory_repairs(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose memory waits to be repaired, or no longer can be."""
    for gpu in context.gpus:
        if not (gpu.remapped_rows_failed or gpu.remapped_rows_pending or gpu.retired_pages_pending):
            continue
        of = context.name(gpu)
        remapped = proof(
            of, gpu, "remapped_rows_corrected_count", "remapped_rows_uncorrected_count"
        )
        retired = proof(of, gpu, "retired_pages_single_bit_count", "retired_pages_double_bit_count")
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
            advice = "Reboot the host when its jobs have ended."
            yield Symptom(RETIREMENT_PENDING, gpu.key, "warn", advice, fact, "", (gpu,), retired)


@check
def xids(context: RuleContext) -> Iterator[Symptom]:
    """XIDs that the driver reported, also of a GPU that is lost by now.

    Each number once, with the time of the last; those from before a reset are left out.
    """
    reported = [
        (gpu, event)
        for gpu in context.snapshot.devices
        for event in gpu.xid_events or ()
        if not event.before_reset
    ]
    if reported:
        yield from _xid_symptoms(context, reported)


def _is_removed(gpu: Device) -> bool:
    """Whether a GPU is gone from the driver's list, rather than lost by it."""
    return gpu.state == "lost" and gpu.fault is not None and gpu.fault.code is None


def _xid_symptoms(
    context: RuleContext, reported: list[tuple[Device, XidEvent]]
) -> Iterator[Symptom]:
    now = context.snapshot.taken_at.timestamp()
    for gpu, event in reported:
        known, age = meaning(event.code), max(0.0, now - event.seen_at)
        if known.is_program_fault and age > _PROGRAM_SECONDS:
            continue
        code, of = "unknown" if event.code is None else event.code, context.name(gpu)
        which = "an XID of unknown number" if event.code is None else f"XID {code}"
        words = f"reported {which}: {known.text}"
        # Its index may have been another's.
        removed = f"The GPU at {gpu.pci_bus_id}, since removed, {words}" if _is_removed(gpu) else ""
        yield Symptom(
            XID,
            (gpu.key, event.code),
            known.level,
            _LOG if removed else known.advice,
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
