"""Memory and boards that wear out or failed, from their counters and the driver's XID reports."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import RESET, Symptom, about, check, number, proof, rule
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent
from gpudash.model.snapshot import FindingLevel

ECC = rule(
    70,
    "ecc-uncorrected",
    "uncorrectable memory errors since the driver was loaded",
    status=states.UNUSABLE,
)
SRAM_THRESHOLD = rule(
    75,
    "sram-threshold-exceeded",
    "so many errors in its SRAM that NVIDIA replaces the board",
    status=states.UNUSABLE,
)
REMAP_FAILED = rule(80, "row-remap-failed", "no spare memory rows are left", status=states.UNUSABLE)
REMAP_PENDING = rule(190, "row-remap-pending", "waits for a reset to replace bad memory rows")
RETIREMENT_PENDING = rule(
    200,
    "page-retirement-pending",
    "waits for a reset, or a reload of the driver, to retire bad memory pages",
)
XID = rule(
    60,
    "xid",
    "the driver reported an XID: what its number says, and how bad that is",
    status=states.UNUSABLE,
)

_RESET = f"End the jobs on it; {RESET}"
_LOG = "The kernel log has more: sudo dmesg | grep -i xid"
_PASSING_SECONDS = 600.0
"""How long a fault that ended with a program is reported; one of the board stays."""

_PROGRAM = "A fault of the program that ran there, seldom of the GPU: see its log."
_RESTART = "Restart the program; if it recurs with others too, have the board checked."
_BOARD = f"It needs a reset, and if it recurs, a check. {_RESET}"
_DRIVER = f"It needs a reset, and if it recurs, another driver. {_RESET}"
_LINKS = "See gpudash nvlink; a reset or a reseat of the board may help."
_NOT_NOW = "Nothing needs to be done now: the programs on it go on."
_WATCH = f"{_NOT_NOW} If it recurs, report it to the vendor of the board."
_NO_SPARE = "It goes on working, but the fault may come back: have the board checked."
_SEE_48 = "It only says where the error of XID 48 was, which comes with it and says what to do."


class Meaning(Struct, frozen=True):
    """The meaning of an XID, its severity, and what to do."""

    text: str
    level: FindingLevel
    advice: str
    is_passing: bool = False
    """Whether it ended with the program that met it, without aftereffects."""


def _ended(text: str, advice: str = _PROGRAM) -> Meaning:
    return Meaning(text, "warn", advice, is_passing=True)


def _reset(text: str, advice: str = _BOARD) -> Meaning:
    return Meaning(text, "critical", advice)


_COPY_ENGINES = (39, 40, 41, 70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (60, 68, 82, 83, 84, 86, 88, 89, *range(96, 106), 139, 142)

# NVIDIA's immediate action decides: critical for a reset or a reboot, a passing warning for
# a restart of the program, and neither if there is none:
# docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html
_MEANINGS: dict[int, Meaning] = {
    13: _ended("a program performed an illegal operation on it"),
    31: _ended("a program made an illegal memory access"),
    32: _ended(
        "it received corrupted commands",
        "Restart the program; if it recurs, see its PCIe slot, riser and cables.",
    ),
    **{code: Meaning("its firmware had an error", "warn", _WATCH) for code in (37, 38)},
    **dict.fromkeys(_COPY_ENGINES, _ended("one of its copy engines had an error", _RESTART)),
    43: _ended("a program was stopped after a fault of its own"),
    44: _ended("a fault occurred while it switched between programs", _WATCH),
    45: Meaning("a program was ended and cleaned up", "info", _PROGRAM, is_passing=True),
    46: _reset("it stopped processing"),
    48: _reset("it had an uncorrectable memory error"),
    54: _reset(
        "its power cable is not connected",
        "Shut the host down and connect it; check that the board sits well in its slot.",
    ),
    **dict.fromkeys(_VIDEO_ENGINES, _ended("one of its video engines had an error", _RESTART)),
    61: Meaning("a controller inside it gave a warning", "warn", _BOARD),
    62: _reset("a controller inside it halted"),
    63: Meaning(
        "a bad piece of memory will be replaced at the next reset",
        "info",
        f"{_NOT_NOW} When they have ended, {RESET}",
    ),
    64: _reset("a bad piece of memory could not be replaced"),
    **{code: Meaning("its driver made an illegal access", "warn", _WATCH) for code in (66, 67)},
    69: _ended("a program gave it an illegal command"),
    74: _reset("an NVLink failed", f"See gpudash nvlink. {_BOARD}"),
    78: Meaning(
        "a virtual GPU could not be started",
        "warn",
        "Bring the drivers of the host and of the guest to versions that go together.",
    ),
    79: _reset(
        "it fell off the bus",
        "Reboot the host, or cycle its power; check power cables, slot and temperature.",
    ),
    80: _ended("it received corrupted data", _RESTART),
    92: Meaning("many memory errors were corrected", "warn", _WATCH),
    93: Meaning("its InfoROM is written too often", "info", _WATCH),
    94: _ended(
        "memory failed under one program, which was ended; no other was affected",
        "Restart the program. The GPU needs no reset now; a later one lets it replace the memory.",
    ),
    95: _reset("memory failed, and several programs are affected"),
    109: _reset("a program did not release it in time", _DRIVER),
    110: _reset(
        "it reported a security fault",
        "Undo recent changes of the hardware and cycle the power of the host; if it recurs, "
        "have the board checked.",
    ),
    119: _reset("its firmware (GSP) did not answer in time", _DRIVER),
    120: _reset("its firmware (GSP) had an error", _DRIVER),
    121: Meaning(
        "its link to the CPU corrected an error",
        "info",
        f"{_NOT_NOW} A reset at a quiet time trains the link again.",
    ),
    136: _reset("an NVLink could not be trained", f"See gpudash nvlink. {_BOARD}"),
    137: _ended("a program made an illegal access to another GPU over NVLink"),
    140: _reset("memory failed, and the driver could not retire it"),
    141: _ended("the fast path of CUDA had an error", _WATCH),
    143: _reset("it could not be started", _DRIVER),
    **{code: Meaning("an NVLink had an error", "warn", _LINKS) for code in (144, 145, 146, 147)},
    **{code: Meaning("an NVLink failed", "critical", _LINKS) for code in (148, 149, 150)},
    151: _reset("its encryption keys could not be changed", "Restart the virtual machine."),
    154: Meaning(
        "the recovery action that the driver asks for has changed",
        "info",
        "Another finding shows it, if anything remains to be done.",
    ),
    155: Meaning(
        "an NVLink was taken down by software, on purpose",
        "warn",
        f"If no one meant to: see gpudash nvlink. {_RESET}",
    ),
    156: _reset("a bad part of it is taken out of use by the next reset", _RESET),
    157: Meaning("a bad part of it could not be replaced: no spare is left", "warn", _NO_SPARE),
    158: _reset("it did not come back from a fatal timeout"),
    159: Meaning(
        "its link to the CPU had an error",
        "warn",
        f"If programs use managed memory, or virtual machines use it, it needs a reset. {_RESET}",
    ),
    160: Meaning(
        "a bad channel of its memory will be repaired at the next reset",
        "info",
        f"{_NOT_NOW} When they have ended, {RESET}",
    ),
    161: Meaning("a bad channel of its memory could not be repaired", "warn", _NO_SPARE),
    167: _reset("an access over PCIe never ended", f"Check its slot and riser. {_BOARD}"),
    169: _reset("a controller inside it halted"),
    171: Meaning("the error of XID 48 was in its DRAM", "info", _SEE_48),
    172: Meaning("the error of XID 48 was in its SRAM", "info", _SEE_48),
}
_UNKNOWN = Meaning(
    "see NVIDIA's catalogue of XIDs for its meaning",
    "warn",
    "sudo dmesg | grep -i xid shows what the kernel logged.",
)
_REMAPPED = "remapped_rows_corrected_count", "remapped_rows_uncorrected_count"
_RETIRED = "retired_pages_single_bit_count", "retired_pages_double_bit_count"
DAY_SECONDS, _USER_SECONDS = 24 * 3600.0, 3600.0
FLAPPING = 3
"""Losses of a GPU or a host within a day after which another is likely."""
_WITHOUT_NUMBER = Meaning("only the kernel log has it", "warn", _UNKNOWN.advice)


def meaning(code: int | None) -> Meaning:
    """Return the meaning of a code; an unknown one is a warning."""
    return _WITHOUT_NUMBER if code is None else _MEANINGS.get(code, _UNKNOWN)


def is_recent(code: int, seconds: float, critical_seconds: float = DAY_SECONDS) -> bool:
    """Whether an error is recent: most come from users' programs and are so for an hour.

    One that needs a person is recent for `critical_seconds`.
    """
    return seconds <= (critical_seconds if needs_person(code) else _USER_SECONDS)


def needs_person(code: int) -> bool:
    """Whether an XID error lasts until an operator has repaired or reset the GPU."""
    return meaning(code).level == "critical"


@check
def memory_errors(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose memory had uncorrectable errors."""
    for gpu in context.gpus:
        if not gpu.ecc_uncorrected_volatile_count:
            continue
        fact = "had uncorrectable memory errors"
        advice = (
            "They were detected: the driver ended the programs that met them, which can be started "
            f"again after a reset. If they recur, have the board checked. {_RESET}"
        )
        counts = "ecc_uncorrected_volatile_count", "ecc_uncorrected_aggregate_count"
        yield about(context, gpu, ECC, "critical", fact, advice, *counts)


@check
def sram(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose SRAM had more uncorrectable errors than NVIDIA tolerates."""
    for gpu in context.gpus:
        errors = gpu.sram_errors
        if errors is None or not errors.threshold_exceeded:
            continue
        fact = "had more errors in [its|their] SRAM than NVIDIA tolerates"
        advice = "Run NVIDIA's field diagnostic, and have the board replaced (RMA)."
        counts = "threshold_exceeded", "parity_aggregate_count", "secded_aggregate_count"
        found = about(context, gpu, SRAM_THRESHOLD, "critical", fact, advice)
        yield replace(found, evidence=proof(context.name(gpu), errors, *counts))


@check
def memory_repairs(context: RuleContext) -> Iterator[Symptom]:
    """GPUs with memory to be repaired, or beyond repair."""
    for gpu in context.gpus:
        if gpu.remapped_rows_failed:
            fact = "[has|have] no spare memory rows left"
            advice = "The board is worn out: have it replaced (RMA)."
            yield about(context, gpu, REMAP_FAILED, "critical", fact, advice, *_REMAPPED)
        elif gpu.remapped_rows_pending:
            fact = "[needs|need] a reset to replace bad memory rows"
            yield about(context, gpu, REMAP_PENDING, "warn", fact, _RESET, *_REMAPPED)
        if gpu.retired_pages_pending:
            fact = "[needs|need] a reset to retire bad memory pages"
            advice = f"{_RESET}. A reload of the driver, or a reboot, does it too."
            yield about(context, gpu, RETIREMENT_PENDING, "warn", fact, advice, *_RETIRED)


@check
def xids(context: RuleContext) -> Iterator[Symptom]:
    """XIDs that the driver reported, including those of a lost GPU.

    Each code once, with its last time; those from before a reset are left out.
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
    """Whether a GPU was removed from the driver's list, rather than lost by it."""
    return gpu.state == "lost" and gpu.fault is not None and gpu.fault.code is None


def _xid_symptoms(
    context: RuleContext, reported: list[tuple[Device, XidEvent]]
) -> Iterator[Symptom]:
    now = context.snapshot.taken_at.timestamp()
    for gpu, event in reported:
        known, age = meaning(event.code), max(0.0, now - event.seen_at)
        if known.is_passing and age > _PASSING_SECONDS:
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
            words,
            removed,
            (gpu,),
            evidence=(
                number("xid_code", code, of),
                number("age_seconds", int(age), of),
                *proof(of, event, "count", "gpu_instance_id"),
            ),
            held_seconds=age,
        )
