"""GPUs that cannot be read or need attention from an administrator, and unified memory."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import RESET, Rule, Symptom, check, proof, rule
from gpudash.model import state as states
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Evidence, FindingLevel
from gpudash.model.state import State, unreadable_state

LOST = rule(10, "lost", "fell off the bus", status=states.LOST)
RESET_REQUIRED = rule(
    20, "reset-required", "answers nothing until it is reset", status=states.RESET_REQUIRED
)
NOT_ANSWERING = rule(
    30, "not-answering", "a call to it does not come back", status=states.NOT_ANSWERING
)
FAILED = rule(40, "failed", "its calls fail for another reason", status=states.FAILED)
RECOVERY = rule(
    50,
    "recovery-needed",
    "the driver asks for a reset, a reboot or no new jobs",
    status=states.UNUSABLE,
)
FABRIC = rule(
    90,
    "fabric-not-ready",
    "has not joined the NVSwitch fabric",
    status=states.UNUSABLE,
    appears_after_seconds=10,
    goes_after_seconds=5,
)
FABRIC_DEGRADED = rule(
    230,
    "fabric-degraded",
    "the fabric gives it less bandwidth than it should",
    appears_after_seconds=10,
    goes_after_seconds=10,
)
ASLEEP = rule(300, "asleep", states.ASLEEP.reason, status=states.ASLEEP)
RESTING = rule(310, "resting", "on battery, " + states.RESTING.reason, status=states.RESTING)
UNIFIED = rule(320, "unified-memory", "its memory is the host's")

_SEE_LOG = "The kernel log shows why: sudo dmesg | grep -iE 'nvrm|xid'"
_HANGS = (
    f"The driver hangs on it; other GPUs may follow. {_SEE_LOG}. Only a reboot ends a call that is "
    "stuck for good."
)

_REBOOT = (
    "needs a reboot of the host, according to the driver",
    "need a reboot of the host, according to the driver",
)

_ADVICE: dict[State, tuple[Rule, str]] = {
    states.LOST: (
        LOST,
        "End its jobs; sudo dmesg | grep -i xid shows why. A reboot or a power cycle may bring "
        "it back; if it recurs, check its power cables, slot and temperature.",
    ),
    states.NOT_ANSWERING: (NOT_ANSWERING, _HANGS),
    states.RESET_REQUIRED: (RESET_REQUIRED, f"End the processes that use it; {RESET}"),
    states.FAILED: (FAILED, _SEE_LOG),
    states.ASLEEP: (
        ASLEEP,
        "Nothing is wrong: it is powered down, and reading it would wake it up.",
    ),
    states.RESTING: (
        RESTING,
        "Nothing is wrong: it has nothing to do, on battery. On the screen, W reads it anyway.",
    ),
}

_RECOVERIES: dict[str, tuple[FindingLevel, tuple[str, str], str]] = {
    "gpu-reset": (
        "critical",
        ("needs a reset, according to the driver", "need a reset, according to the driver"),
        f"End the processes that use it; {RESET}",
    ),
    "bus-reset": (
        "critical",
        (
            "needs a reset of its PCI bus, according to the driver",
            "need a reset of their PCI bus, according to the driver",
        ),
        "End the processes that use it, then reboot the host, or reset its PCI bus by hand.",
    ),
    "node-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "system-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "drain-p2p": (
        "warn",
        (
            "should have no more traffic with other GPUs, according to the driver",
            "should have no more traffic with one another, according to the driver",
        ),
        f"Start no multi-GPU job on it. When it is idle, {RESET}",
    ),
    "drain-and-reset": (
        "critical",
        (
            "should get no new jobs, and a reset when idle, according to the driver",
            "should get no new jobs, and a reset when idle, according to the driver",
        ),
        f"Let the jobs on it finish; {RESET}",
    ),
    "recover-imex-domain": (
        "critical",
        (
            "is cut off from its NVLink domain, according to the driver",
            "are cut off from their NVLink domain, according to the driver",
        ),
        "Restart nvidia-imex on the hosts of the domain.",
    ),
}


@check
def unreadable(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that are lost, need a reset, fail or sleep."""
    for device in context.snapshot.devices:
        state = unreadable_state(device)
        if state is None:
            continue
        (rule, advice), fault, of = _ADVICE[state], device.fault, context.name(device)
        # A removed GPU has no return code, and its index may be another's by now.
        has_own_sentence = state is states.FAILED or (fault is not None and fault.code is None)
        evidence = (*proof(of, device, "state"), *_proofs(of, fault)) if state.is_problem else ()
        yield Symptom(
            rule,
            device.key,
            "critical" if state.is_problem else "info",
            advice,
            fact=(state.sentence, state.plural),
            sentence=fault.message if fault and state.is_problem and has_own_sentence else "",
            devices=(device,),
            evidence=evidence,
            # It is reported only once it has been silent for a while.
            held_seconds=device.last_read.age_seconds if device.last_read else None,
        )


def _proofs(of: str, fault: Fault | None) -> tuple[Evidence, ...]:
    return () if fault is None else proof(of, fault, "code", "message")


@check
def recovery(context: RuleContext) -> Iterator[Symptom]:
    """GPUs for which the driver asks for a reset or a drain."""
    for gpu in context.gpus:
        action = gpu.recovery_action
        if action is not None and action in _RECOVERIES:
            level, fact, advice = _RECOVERIES[action]
            evidence = proof(context.name(gpu), gpu, "recovery_action")
            yield Symptom(RECOVERY, gpu.key, level, advice, fact, "", (gpu,), evidence)


@check
def fabric(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that have not joined the NVSwitch fabric, or joined it badly."""
    for gpu in context.gpus:
        is_out = gpu.fabric_state in ("not-started", "in-progress") or gpu.fabric_status_code
        if not is_out and not gpu.fabric_bandwidth_degraded:
            continue
        of = context.name(gpu)
        proofs = proof(of, gpu, "fabric_state", "fabric_status_code", "fabric_bandwidth_degraded")
        if is_out:
            fact = ("has not joined the NVSwitch fabric", "have not joined the NVSwitch fabric")
            advice = (
                "CUDA cannot start there until it has. See: systemctl status nvidia-fabricmanager"
            )
            yield Symptom(FABRIC, gpu.key, "critical", advice, fact, "", (gpu,), proofs)
        else:
            fact = (
                "has less NVLink bandwidth than it should, according to the fabric",
                "have less NVLink bandwidth than they should, according to the fabric",
            )
            advice = "See the log of the fabric manager, and gpudash nvlink."
            yield Symptom(FABRIC_DEGRADED, gpu.key, "warn", advice, fact, "", (gpu,), proofs)


@check
def unified(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that have no memory of their own."""
    for gpu in context.gpus:
        if gpu.unified_memory:
            fact = ("has no memory of its own", "have no memory of their own")
            advice = (
                "Its memory is the host's: what other programs use counts as used here, too, and "
                "is not left for the GPU."
            )
            evidence = proof(context.name(gpu), gpu, "memory_total_bytes", "memory_used_bytes")
            yield Symptom(UNIFIED, gpu.key, "info", advice, fact, "", (gpu,), evidence)
