"""The one word that says how a device is doing: its most important finding, else `ok` or `idle`."""

from __future__ import annotations

from collections.abc import Iterable

from gpudash.analysis.health.levels import Level, temperature_level
from gpudash.analysis.health.rules import WORDS, clocks, holding, leasing
from gpudash.model.device import Device
from gpudash.model.snapshot import Finding
from gpudash.model.state import is_left_alone, state_words
from gpudash.model.units import ABSENT

_MILD = holding.HELD | {clocks.POWER_CAPPED.id, leasing.LEASED_UNUSED.id}
"""The rules that are worth a status even as a mere remark."""


def status(device: Device, findings: Iterable[Finding] = ()) -> str:
    """Return one word: what is wrong, what holds it, or `ok`, `idle`, `-` where nothing is known.

    `findings` are those that concern it, the worst first.
    """
    return _status(device, findings)[0]


def status_level(device: Device, findings: Iterable[Finding] = ()) -> Level:
    """Return how bad the status is."""
    return _status(device, findings)[1]


def is_held(device: Device, findings: Iterable[Finding]) -> bool:
    """Return whether processes keep a device that does nothing."""
    if device.gpu_utilization_percent:
        return False
    return any(finding.rule in holding.HELD for finding in findings)


def is_hot(device: Device, findings: Iterable[Finding]) -> bool:
    """Return whether a GPU is so warm that it slows itself down, or is about to."""
    slowed = any(finding.rule in clocks.THERMAL for finding in findings)
    return slowed or temperature_level(device) == "critical"


def _status(device: Device, findings: Iterable[Finding]) -> tuple[str, Level]:
    if device.state != "ok":
        return state_words(device).word, "unknown" if is_left_alone(device) else "critical"
    for finding in findings:
        word = WORDS.get(finding.rule)
        if word is None or (finding.level == "info" and finding.rule not in _MILD):
            continue
        if finding.rule in holding.HELD and device.gpu_utilization_percent:
            continue
        return word, _level(finding)
    if device.gpu_utilization_percent == 0:
        return "idle", "ok"
    if device.gpu_utilization_percent is None and device.clocks_event_reasons is None:
        return ABSENT, "unknown"
    return "ok", "ok"


def _level(finding: Finding) -> Level:
    """A GPU that is held is a warning at once: what is told of it may still be new."""
    if finding.rule in holding.HELD:
        return "warn"
    return "ok" if finding.level == "info" else finding.level
