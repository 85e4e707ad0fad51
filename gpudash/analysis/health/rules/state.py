"""Unreadable GPUs, GPUs that need an administrator, and unified memory."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import RESET, Rule, Symptom, about, check, proof, rule
from gpudash.model import state as states
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Evidence, FindingLevel
from gpudash.model.state import State, unreadable_state

LOST = rule(10, "lost", "fell off the bus", status=states.LOST)
RESET_REQUIRED = rule(
    20, "reset-required", "does not answer until it is reset", status=states.RESET_REQUIRED
)
NOT_ANSWERING = rule(
    30, "not-answering", "a call to it does not return", status=states.NOT_ANSWERING
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
FABRIC_UNHEALTHY = rule(
    95,
    "fabric-unhealthy",
    "a route, its configuration or its partition in the NVLink fabric is wrong",
    status=states.UNUSABLE,
    appears_after_seconds=10,
    goes_after_seconds=10,
)
FABRIC_DEGRADED = rule(
    230,
    "fabric-degraded",
    "less bandwidth or capacity in the NVLink fabric than it should have, or it is recovering",
    appears_after_seconds=10,
    goes_after_seconds=10,
)
ASLEEP = rule(300, "asleep", states.ASLEEP.reason, status=states.ASLEEP)
RESTING = rule(310, "resting", states.RESTING.reason, status=states.RESTING)
MODE_CHANGE = rule(330, "mode-change-pending", "its ECC or MIG mode changes with the next reset")
UNIFIED = rule(320, "unified-memory", "its memory is the host's")

_SEE_LOG = "The kernel log shows why: sudo dmesg | grep -iE 'nvrm|xid'"
_HANGS = (
    f"The driver hangs on it; other GPUs may follow. {_SEE_LOG}. Only a reboot ends a call that is "
    "stuck for good."
)

_REBOOT = "[needs|need] a reboot of the host, according to the driver"

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
        "Nothing is wrong: it has nothing to do. On the screen, W reads it anyway.",
    ),
}

_RECOVERIES: dict[str, tuple[FindingLevel, str, str]] = {
    "gpu-reset": (
        "critical",
        "[needs|need] a reset, according to the driver",
        f"End the processes that use it; {RESET}",
    ),
    "bus-reset": (
        "critical",
        "[needs|need] a reset of [its|their] PCI bus, according to the driver",
        "End the processes that use it, then reboot the host, or reset its PCI bus by hand.",
    ),
    "node-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "system-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "drain-p2p": (
        "warn",
        "should stop P2P traffic with [other GPUs,|one another,] according to the driver",
        f"Start no multi-GPU job on it. When it is idle, {RESET}",
    ),
    "drain-and-reset": (
        "critical",
        "[needs|need] a reset once idle, and no new jobs until then, according to the driver",
        f"Let the jobs on it finish; {RESET}",
    ),
    "recover-imex-domain": (
        "critical",
        "[is|are] cut off from [its|their] NVLink domain, according to the driver",
        "Restart nvidia-imex on the hosts of the domain.",
    ),
}


_FABRIC_PROOFS = (
    "fabric_state",
    "fabric_status_code",
    "fabric_health",
    "fabric_bandwidth_degraded",
    "fabric_route_recovering",
    "fabric_route_unhealthy",
    "fabric_access_timeout_recovering",
    "fabric_incorrect_configuration",
)
_NOT_JOINED = "[has|have] not joined the NVSwitch fabric"
_BAD_ROUTE = "[has an|have] unhealthy [route|routes] in the NVLink fabric"
_UNHEALTHY = "[is|are] unhealthy in the NVLink fabric, according to the driver"
_BAD_CONFIGURATION = "[is|are] configured wrongly in the NVLink fabric"
_CONFIGURATIONS = {
    "incorrect-sysguid": (
        "[has another system GUID|have other system GUIDs] than the NVLink fabric expects"
    ),
    "incorrect-chassis-sn": (
        "[has another chassis serial number|have other chassis serial numbers] than the NVLink "
        "fabric expects"
    ),
    "no-partition": "[belongs|belong] to no partition of the NVLink fabric",
    "insufficient-nvlinks": "[has|have] fewer NVLinks than the fabric needs",
    "incompatible-gpu-fw": "[has|have] firmware that does not go with the NVLink fabric",
    "invalid-location": "[is|are] in [a place|places] that the NVLink fabric does not know",
    "gpu-state-invalid": "[is|are] in [a state|states] that the NVLink fabric does not accept",
}
_SLOW_LINKS = "[has|have] less NVLink bandwidth than [it|they] should, according to the fabric"
_LIMITED = "[has|have] limited capacity in the NVLink fabric"
_RECOVERING = "[waits|wait] for the NVLink fabric to recover [its|their] routes"
_TIMED_OUT = "[is|are] recovering from [an access|accesses] over NVLink that timed out"
_JOIN = "CUDA cannot start there until it has. See: systemctl status nvidia-fabricmanager"
_MEND = (
    "Jobs on several GPUs may fail there. See the log of the fabric manager and gpudash nvlink; "
    f"when its jobs have ended, {RESET}"
)
_CONFIGURE = (
    "Jobs on several GPUs may fail there. See the log and the configuration of the fabric manager, "
    "or of the manager of the NVLink domain."
)
_WATCH_FABRIC = "See the log of the fabric manager, and gpudash nvlink."


@check
def unreadable(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that are lost, need a reset, fail or sleep."""
    for device in context.snapshot.devices:
        state = unreadable_state(device)
        if state is None:
            continue
        (rule, advice), fault, of = _ADVICE[state], device.fault, context.name(device)
        # A removed GPU has no return code, and another one may have its index.
        has_own_sentence = state is states.FAILED or (fault is not None and fault.code is None)
        evidence = (*proof(of, device, "state"), *_proofs(of, fault)) if state.is_problem else ()
        yield Symptom(
            rule,
            device.key,
            "critical" if state.is_problem else "info",
            advice,
            fact=state.fact,
            sentence=fault.message if fault and state.is_problem and has_own_sentence else "",
            devices=(device,),
            evidence=evidence,
            # It is reported only after a while of silence.
            held_seconds=device.last_read.age_seconds if device.last_read else None,
        )


def _proofs(of: str, fault: Fault | None) -> tuple[Evidence, ...]:
    return () if fault is None else proof(of, fault, "code", "message")


@check
def recovery(context: RuleContext) -> Iterator[Symptom]:
    """GPUs for which the driver asks for a reset or a drain."""
    for gpu in context.gpus:
        action = _recovery_action(gpu)
        if action in _RECOVERIES:
            level, fact, advice = _RECOVERIES[action]
            asked = "recovery_action", "reset_required", "drain_and_reset_recommended"
            yield about(context, gpu, RECOVERY, level, fact, advice, *asked)


def _recovery_action(gpu: Device) -> str:
    """Return what the driver asks for; older drivers only have two flags."""
    if gpu.recovery_action is not None:
        return gpu.recovery_action
    if gpu.reset_required:
        return "gpu-reset"
    return "drain-and-reset" if gpu.drain_and_reset_recommended else "none"


@check
def fabric(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that have not joined the NVSwitch fabric, or that have faults in it."""
    for gpu in context.gpus:
        found = _in_fabric(gpu)
        if found is not None:
            yield about(context, gpu, *found, *_FABRIC_PROOFS)


def _in_fabric(gpu: Device) -> tuple[Rule, FindingLevel, str, str] | None:
    """Return the worst fault of a GPU in the fabric, None if there is none."""
    if gpu.fabric_state in ("not-started", "in-progress") or gpu.fabric_status_code:
        return FABRIC, "critical", _NOT_JOINED, _JOIN
    if gpu.fabric_route_unhealthy:
        return FABRIC_UNHEALTHY, "critical", _BAD_ROUTE, _MEND
    if gpu.fabric_incorrect_configuration not in (None, "none"):
        known = _CONFIGURATIONS.get(gpu.fabric_incorrect_configuration or "", _BAD_CONFIGURATION)
        return FABRIC_UNHEALTHY, "critical", known, _CONFIGURE
    if gpu.fabric_health == "unhealthy":
        return FABRIC_UNHEALTHY, "critical", _UNHEALTHY, _MEND
    for is_so, fact in (
        (gpu.fabric_bandwidth_degraded, _SLOW_LINKS),
        (gpu.fabric_health == "limited-capacity", _LIMITED),
        (gpu.fabric_route_recovering, _RECOVERING),
        (gpu.fabric_access_timeout_recovering, _TIMED_OUT),
    ):
        if is_so:
            return FABRIC_DEGRADED, "warn", fact, _WATCH_FABRIC
    return None


@check
def mode_changes(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose ECC or MIG mode was changed, but is not in force yet."""
    for gpu in context.gpus:
        for mode in ("ecc_mode", "mig_mode"):
            now, pending = getattr(gpu, mode), getattr(gpu, f"pending_{mode}")
            if None in (now, pending) or now == pending:
                continue
            words = f"{mode[:3].upper()} {'on' if pending else 'off'} after the next reset"
            fact = f"[has|have] {words}"
            advice = f"It was set, and is not in force yet. When its jobs have ended, {RESET}"
            found = about(context, gpu, MODE_CHANGE, "info", fact, advice, mode, f"pending_{mode}")
            yield replace(found, subject=(gpu.key, mode))


@check
def unified(context: RuleContext) -> Iterator[Symptom]:
    """GPUs without memory of their own."""
    for gpu in context.gpus:
        if gpu.unified_memory:
            fact = "[has|have] no memory of [its|their] own"
            advice = (
                "Its memory is the host's: what other programs use counts as used here, too, and "
                "is not left for the GPU."
            )
            memory = "memory_total_bytes", "memory_used_bytes"
            yield about(context, gpu, UNIFIED, "info", fact, advice, *memory)
