"""Clocks held down, low clocks that nothing explains, and GPUs that hardly use their SMs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from gpudash.analysis.health.context import RuleContext
from gpudash.analysis.health.rule import Rule, Symptom, about, check, rule
from gpudash.model import state as states
from gpudash.model.device import EVENT_REASONS, Device
from gpudash.model.snapshot import FindingLevel
from gpudash.model.units import watts_in_words

POWER_BRAKE = rule(
    100,
    "power-brake",
    "the server's power brake slows the GPU down; a warning on a laptop",
    goes_after_seconds=5,
)
THERMAL_HARDWARE = rule(
    110,
    "thermal-slowdown-hardware",
    "so hot that hardware slows it down",
    status=states.HOT,
    goes_after_seconds=10,
)
HARDWARE_SLOWDOWN = rule(
    120,
    "hardware-slowdown",
    "hardware slows it down, for neither of the two reasons above",
    appears_after_seconds=2.5,
    goes_after_seconds=5,
)
THERMAL_SOFTWARE = rule(
    140,
    "thermal-slowdown-software",
    "thermally throttled",
    status=states.HOT,
    appears_after_seconds=2.5,
    goes_after_seconds=10,
)
POWER_CAPPED = rule(
    150,
    "power-capped",
    "its power limit holds its clocks; a warning if it was lowered and costs a tenth, or if it "
    "costs two thirds",
    appears_after_seconds=2.5,
    goes_after_seconds=10,
)
CLOCKS_LOW = rule(
    260,
    "clocks-low",
    "works at less than 60% of its highest clock, and the driver gives no reason",
    appears_after_seconds=10,
    goes_after_seconds=10,
)
FEW_SMS = rule(
    360,
    "few-sms",
    "some kernel always runs, but on less than 5% of its SMs (Hopper and newer)",
    appears_after_seconds=20,
    goes_after_seconds=10,
)


class _Slowdown(Struct, frozen=True):
    rule: Rule
    level: FindingLevel
    fact: str
    advice: str


_UNNAMED = "hw-slowdown"
"""The driver also sets it along with either of the two other hardware reasons."""
_COUNTED = (
    ("throttled_sw_thermal_percent", "sw-thermal-slowdown"),
    ("throttled_hw_thermal_percent", "hw-thermal-slowdown"),
    ("throttled_hw_power_brake_percent", "hw-power-brake-slowdown"),
)
"""Reasons that may come and go between two samples, with the counters of their time."""
_HELD_TIMES = (
    *(name for name, _ in _COUNTED),
    "throttled_sw_power_cap_percent",
    "throttled_thermal_percent",
    "throttled_sync_boost_percent",
    "throttled_board_limit_percent",
)
_NOTABLE_PERCENT = 5

_HARDWARE = {
    "hw-power-brake-slowdown": _Slowdown(
        POWER_BRAKE,
        "critical",
        "[is|are] slowed down by the server's power brake",
        "The power supply asks for less: check the power supplies and cables of the host, and "
        "what else draws from them.",
    ),
    "hw-thermal-slowdown": _Slowdown(
        THERMAL_HARDWARE,
        "critical",
        "[is|are] so hot that hardware slows [it|them] down to half or less",
        "Check fans, dust and the air in front of the host, before the GPU turns itself off.",
    ),
    _UNNAMED: _Slowdown(
        HARDWARE_SLOWDOWN,
        "critical",
        "[is|are] slowed down by [its|their] hardware",
        "Heat, its power supply or its power connector ask for it: gpudash -q -d PERFORMANCE",
    ),
}
_LAPTOP_BRAKE = _Slowdown(
    POWER_BRAKE,
    "warn",
    "[is|are] slowed down by the laptop's power supply",
    "It draws on the battery, or on a charger that is too weak: plug in the charger that came "
    "with the laptop.",
)
_LAPTOP = r"(?i)laptop|max-q design|\bmx\d|\d{3}mx?\b"
"""In product names of laptops: RTX 4070 Laptop GPU, GTX 1650 with Max-Q Design, MX450, 960M."""
_WARM = _Slowdown(
    THERMAL_SOFTWARE,
    "warn",
    states.HOT.fact,
    "Check fans, dust and the air in front of the host; the memory may be what is overheating.",
)
_LOAD_PERCENT = 50
_FULL_PERCENT = 90
_FEW_SMS_PERCENT = 5
_DEEPEST_LOADED_STATE = 2
"""In deeper states, the driver itself keeps clocks low, as for a desktop."""
_LOW_CLOCK, _SLOW_CLOCK, _CRAWLING_CLOCK = 0.6, 0.9, 1 / 3
_NEARLY = 0.98
_CLOCKS = ("sm_clock_mhz", "max_sm_clock_mhz")


@check
def slowdowns(context: RuleContext) -> Iterator[Symptom]:
    """GPUs whose clocks are held down for a reason other than idling or a setting."""
    for gpu in context.gpus:
        reasons = _reasons(gpu)
        if not reasons:
            continue
        hardware = [reason for reason in _HARDWARE if reason in reasons]
        if len(hardware) > 1 and _UNNAMED in hardware:
            hardware.remove(_UNNAMED)
        for reason in hardware:
            slowdown = _HARDWARE[reason]
            if slowdown.rule is POWER_BRAKE and re.search(_LAPTOP, gpu.name or ""):
                slowdown = _LAPTOP_BRAKE
            yield _slowed(context, slowdown, gpu)
        if "sw-thermal-slowdown" in reasons and "hw-thermal-slowdown" not in reasons:
            yield _slowed(context, _WARM, gpu)
        is_idle = gpu.gpu_utilization_percent == 0 or context.is_only_started(gpu)
        if "sw-power-cap" in reasons and not is_idle:
            yield _capped(context, gpu)


def _reasons(gpu: Device) -> frozenset[str]:
    """Return why clocks are low, at present or for much of the time since the last sample."""
    counted = (reason for name, reason in _COUNTED if (getattr(gpu, name) or 0) >= _NOTABLE_PERCENT)
    return frozenset((*(gpu.clocks_event_reasons or ()), *counted))


@check
def low_clocks(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that work at low clocks although the driver reports no reason."""
    for gpu in context.gpus:
        if not _is_loaded(gpu) or gpu.clocks_event_reasons is None:
            continue
        if context.is_only_started(gpu):
            continue
        if (gpu.performance_state or 0) > _DEEPEST_LOADED_STATE:
            continue
        if _is_below(gpu, _LOW_CLOCK) and not _is_explained(gpu, gpu.clocks_event_reasons):
            fact = (
                "[works|work] at less than 60% of [its|their] highest clock, and the driver gives "
                "no reason"
            )
            advice = (
                "Clocks may be locked: sudo nvidia-smi -i INDEX -rgc unlocks them. Otherwise check "
                "its power connector and the host's power plan."
            )
            proofs = "gpu_utilization_percent", *_CLOCKS, "performance_state"
            yield about(context, gpu, CLOCKS_LOW, "warn", fact, advice, *proofs)


@check
def few_sms(context: RuleContext) -> Iterator[Symptom]:
    """GPUs that look fully used but do next to nothing."""
    for gpu in context.gpus:
        active = gpu.sm_active_percent
        if (gpu.gpu_utilization_percent or 0) < _FULL_PERCENT or active is None:
            continue
        if active < _FEW_SMS_PERCENT:
            few = f"less than {_FEW_SMS_PERCENT}% of [its|their] SMs"
            fact = f"always [runs|run] a kernel, but on {few}"
            advice = (
                "Its kernels are too small to fill it: use larger batches, or let several "
                "processes share it."
            )
            proofs = "gpu_utilization_percent", "sm_active_percent"
            yield about(context, gpu, FEW_SMS, "info", fact, advice, *proofs)


def _is_explained(gpu: Device, reasons: tuple[str, ...]) -> bool:
    """Whether the driver reports a reason for low clocks, at present or since the last sample."""
    named = not EVENT_REASONS.keys().isdisjoint(reasons)
    return named or any((getattr(gpu, name) or 0) >= _NOTABLE_PERCENT for name in _HELD_TIMES)


def _slowed(context: RuleContext, slowdown: _Slowdown, gpu: Device) -> Symptom:
    return about(
        context,
        gpu,
        slowdown.rule,
        slowdown.level,
        slowdown.fact,
        slowdown.advice,
        "clocks_event_reasons",
        "temperature_celsius",
        "max_operating_temperature_celsius",
        "slowdown_temperature_celsius",
        "temperature_margin_celsius",
        "memory_temperature_celsius",
        "power_usage_mw",
        *_CLOCKS,
        *(name for name, _ in _COUNTED),
    )


def _capped(context: RuleContext, gpu: Device) -> Symptom:
    """Return the symptom of a limit: normal unless it was lowered, or costs nearly all speed."""
    limit, normal = gpu.enforced_power_limit_mw, gpu.default_power_limit_mw
    wanted = limit if gpu.power_limit_mw is None else gpu.power_limit_mw
    lowered = wanted is not None and normal is not None and wanted < _NEARLY * normal
    is_costly = _is_below(gpu, _SLOW_CLOCK)
    crawls = _is_loaded(gpu) and _is_below(gpu, _CRAWLING_CLOCK)
    size = "" if limit is None else f"{watts_in_words(limit)} "
    behind = f", lowered from {watts_in_words(normal or 0)}" if lowered else ""
    advice = "Normal under full load; only a higher limit would make it faster."
    if lowered:
        advice = f"If that is not intended: sudo nvidia-smi -i INDEX -pl {(normal or 0) // 1000}"
    elif crawls:
        advice = (
            "Its clocks are below a third, which a limit alone does not explain: check its power "
            "cables and supply, and gpudash -q -d POWER,PERFORMANCE"
        )
    elif limit is not None and wanted is not None and limit < _NEARLY * wanted:
        set_to = watts_in_words(wanted)
        advice = f"It is set to {set_to}: the board, the server or a battery allows less."
    power = "power_usage_mw", "enforced_power_limit_mw", "default_power_limit_mw"
    proofs = *power, *_CLOCKS, "throttled_sw_power_cap_percent"
    fact = f"[is|are] at [its|their] {size}power [limit|limits]{behind}"
    level: FindingLevel = "warn" if crawls or (lowered and is_costly) else "info"
    return about(context, gpu, POWER_CAPPED, level, fact, advice, *proofs)


def _is_loaded(gpu: Device) -> bool:
    return (gpu.gpu_utilization_percent or 0) >= _LOAD_PERCENT


def _is_below(gpu: Device, share: float) -> bool:
    clock, highest = gpu.sm_clock_mhz, gpu.max_sm_clock_mhz
    return clock is not None and highest is not None and clock < share * highest
