"""GPUs that cannot be read, or are about to be out of order, and what is special about one."""

from __future__ import annotations

from collections.abc import Iterator

from gpudash.analysis.health.context import Sight
from gpudash.analysis.health.rule import RESET, Rule, Symptom, proof
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Evidence, FindingLevel
from gpudash.model.state import state_words

LOST = Rule("lost", "fell off the bus", "LOST")
RESET_REQUIRED = Rule("reset-required", "answers nothing until it is reset", "RESET")
NOT_ANSWERING = Rule("not-answering", "a call to it does not come back", "NO ANSWER")
FAILED = Rule("failed", "its calls fail for another reason", "FAILED")
RECOVERY = Rule("recovery-needed", "the driver asks for a reset, a reboot or no new jobs", "RESET")
FABRIC = Rule("fabric-not-ready", "has not joined the NVSwitch fabric", "fabric", 10, 5)
FABRIC_DEGRADED = Rule(
    "fabric-degraded", "the fabric gives it less bandwidth than it should", "fabric", 10, 10
)
ASLEEP = Rule("asleep", "powered down, and not woken to be read", "asleep")
RESTING = Rule("resting", "left alone on battery, so that it may fall asleep", "resting")
UNIFIED = Rule("unified-memory", "its memory is the host's")

_SILENT = (
    "The driver hangs on it; other GPUs may follow. The kernel log says why: sudo dmesg | grep -iE "
    "'nvrm|xid'. Only a reboot ends a call that is stuck for good."
)
_LOOK = "The kernel log says why: sudo dmesg | grep -iE 'nvrm|xid'"

_REBOOT = (
    "needs a reboot of the host, says the driver",
    "need a reboot of the host, says the driver",
)

_UNREADABLE: dict[str, tuple[Rule, str]] = {
    "lost": (
        LOST,
        "End its jobs; sudo dmesg | grep -i xid says why. A reboot, or a power cycle, may bring "
        "it back; if it falls again, check its power cables, slot and temperature.",
    ),
    "not-answering": (NOT_ANSWERING, _SILENT),
    "reset-required": (
        RESET_REQUIRED,
        f"End the processes that use it; {RESET}",
    ),
}

_RECOVERIES: dict[str, tuple[FindingLevel, tuple[str, str], str]] = {
    "gpu-reset": (
        "critical",
        ("needs a reset, says the driver", "need a reset, says the driver"),
        f"End the processes that use it; {RESET}",
    ),
    "bus-reset": (
        "critical",
        (
            "needs a reset of its PCI bus, says the driver",
            "need a reset of their PCI bus, says the driver",
        ),
        "End the processes that use it, then reboot the host, or reset its PCI bus by hand.",
    ),
    "node-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "system-reboot": ("critical", _REBOOT, "Reboot the host when its other jobs have ended."),
    "drain-p2p": (
        "warn",
        (
            "should have no more traffic with other GPUs, says the driver",
            "should have no more traffic with one another, says the driver",
        ),
        f"Start no job on it that uses others, too. When it is idle, {RESET}",
    ),
    "drain-and-reset": (
        "critical",
        (
            "should get no new jobs, and a reset when idle, says the driver",
            "should get no new jobs, and a reset when idle, says the driver",
        ),
        f"The jobs on it may end in peace; {RESET}",
    ),
    "recover-imex-domain": (
        "critical",
        (
            "is cut off from its NVLink domain, says the driver",
            "are cut off from their NVLink domain, says the driver",
        ),
        "Restart nvidia-imex on the hosts of the domain.",
    ),
}


def unreadable(sight: Sight) -> Iterator[Symptom]:
    """GPUs that are lost, need a reset, fail, or sleep."""
    for device in sight.snapshot.devices:
        if device.state == "asleep":
            yield Symptom(
                ASLEEP,
                device.key,
                "info",
                "Nothing is wrong: reading it would wake it up.",
                ("is powered down and is not woken to be read", "are powered down and not woken"),
                devices=(device,),
            )
        elif device.state == "resting":
            yield Symptom(
                RESTING,
                device.key,
                "info",
                "Nothing is wrong: it has nothing to do, on battery. On the screen, W looks at it.",
                ("is left alone so that it can fall asleep", "are left alone to fall asleep"),
                devices=(device,),
            )
        elif device.state != "ok":
            yield _unreadable(sight, device)


def _unreadable(sight: Sight, device: Device) -> Symptom:
    rule, advice = _UNREADABLE.get(device.state, (FAILED, _LOOK))
    words = state_words(device).told
    fault = device.fault
    of = sight.name(device)
    return Symptom(
        rule,
        device.key,
        "critical",
        advice,
        fact=(words, words.replace("needs", "need").replace("does", "do")),
        # One that was removed has no code of the driver, and a number that may be another's.
        sentence=fault.message if fault and (rule is FAILED or fault.code is None) else "",
        devices=(device,),
        evidence=(*proof(of, device, "state"), *_proofs(of, fault)),
    )


def _proofs(of: str, fault: Fault | None) -> tuple[Evidence, ...]:
    return () if fault is None else proof(of, fault, "code", "message")


def recovery(sight: Sight) -> Iterator[Symptom]:
    """GPUs that the driver wants to be reset or drained."""
    for gpu in sight.gpus:
        action = gpu.recovery_action
        if action is not None and action in _RECOVERIES:
            level, fact, advice = _RECOVERIES[action]
            evidence = proof(sight.name(gpu), gpu, "recovery_action")
            yield Symptom(RECOVERY, gpu.key, level, advice, fact, "", (gpu,), evidence)


def fabric(sight: Sight) -> Iterator[Symptom]:
    """GPUs that have not joined the NVSwitch fabric, or joined it badly."""
    for gpu in sight.gpus:
        is_out = gpu.fabric_state in ("not-started", "in-progress") or gpu.fabric_status_code
        if not is_out and not gpu.fabric_bandwidth_degraded:
            continue
        of = sight.name(gpu)
        proofs = proof(of, gpu, "fabric_state", "fabric_status_code", "fabric_bandwidth_degraded")
        if is_out:
            fact = ("has not joined the NVSwitch fabric", "have not joined the NVSwitch fabric")
            advice = (
                "CUDA cannot start there until it has. See: systemctl status nvidia-fabricmanager"
            )
            yield Symptom(FABRIC, gpu.key, "critical", advice, fact, "", (gpu,), proofs)
        else:
            fact = (
                "has less NVLink bandwidth than it should, says the fabric",
                "have less NVLink bandwidth than they should, says the fabric",
            )
            advice = "See the log of the fabric manager, and nvidia-smi nvlink --status."
            yield Symptom(FABRIC_DEGRADED, gpu.key, "warn", advice, fact, "", (gpu,), proofs)


def unified(sight: Sight) -> Iterator[Symptom]:
    """GPUs that have no memory of their own."""
    for gpu in sight.gpus:
        if gpu.unified_memory:
            fact = ("has no memory of its own", "have no memory of their own")
            advice = (
                "Its memory is the host's: what other programs use counts as used here, too, and "
                "is not left for the GPU."
            )
            evidence = proof(sight.name(gpu), gpu, "memory_total_bytes", "memory_used_bytes")
            yield Symptom(UNIFIED, gpu.key, "info", advice, fact, "", (gpu,), evidence)
