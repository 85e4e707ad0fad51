from typing import Any

import pytest

from gpudash.analysis.health import levels
from tests.factories import GIB, make_device


@pytest.mark.parametrize(
    ("overrides", "level"),
    [
        ({"temperature_margin_celsius": 25}, "ok"),
        ({"temperature_margin_celsius": 10}, "warn"),
        ({"temperature_margin_celsius": 0}, "critical"),
        ({"temperature_celsius": 80, "max_operating_temperature_celsius": 87}, "warn"),
        ({"temperature_celsius": 80, "slowdown_temperature_celsius": 96}, "ok"),
        ({"temperature_celsius": 90}, "unknown"),
        ({"temperature_celsius": 96, "slowdown_temperature_celsius": 96}, "critical"),
        ({"temperature_celsius": None}, "unknown"),
    ],
)
def test_temperature_level_follows_the_board_s_own_limits(
    overrides: dict[str, Any], level: str
) -> None:
    assert levels.temperature_level(make_device(**overrides)) == level


@pytest.mark.parametrize(
    ("used", "free", "level"),
    [
        (40, 39.5, "ok"),
        (76.0, 3.5, "warn"),
        (79.5, 0, "critical"),
        (75.0, 0, "critical"),
        (76.5, None, "warn"),
        (None, None, "unknown"),
    ],
)
def test_memory_level_warns_before_nothing_is_free(
    used: float | None, free: float | None, level: str
) -> None:
    def size(gibibytes: float | None) -> int | None:
        return None if gibibytes is None else int(gibibytes * GIB)

    device = make_device(memory_used_bytes=size(used), memory_free_bytes=size(free))
    assert levels.memory_level(device) == level


@pytest.mark.parametrize(("usage", "level"), [(690, "warn"), (400, "ok"), (None, "unknown")])
def test_power_level_warns_at_the_limit(usage: int | None, level: str) -> None:
    device = make_device(power_usage_mw=None if usage is None else usage * 1000)
    assert levels.power_level(device) == level


@pytest.mark.parametrize(
    ("value", "limit", "level"),
    [(99, None, "unknown"), (80, 95, "ok"), (90, 95, "warn"), (95, 95, "critical")],
)
def test_memory_temperature_is_judged_by_the_board_s_own_limit(
    value: int, limit: int | None, level: str
) -> None:
    device = make_device(memory_temperature_celsius=value, max_memory_temperature_celsius=limit)
    assert levels.memory_temperature_level(device) == level


@pytest.mark.parametrize(
    ("corrected", "uncorrected", "level"), [(9, 1, "critical"), (9, 0, "warn"), (0, None, "ok")]
)
def test_memory_errors_that_could_not_be_corrected_are_critical(
    corrected: int, uncorrected: int | None, level: str
) -> None:
    device = make_device(
        ecc_corrected_volatile_count=corrected, ecc_uncorrected_volatile_count=uncorrected
    )
    assert levels.ecc_level(device) == level


STARTED: dict[str, Any] = {
    "gpu_utilization_percent": 100,
    "persistence_mode": False,
    "display_active": False,
    "memory_used_bytes": 3 << 20,
}


@pytest.mark.parametrize(
    "overrides",
    [
        {"persistence_mode": True},
        {"persistence_mode": None},
        {"gpu_utilization_percent": 0},
        {"gpu_utilization_percent": None},
        {"memory_used_bytes": GIB // 2},
        {"memory_used_bytes": None},
        {"display_active": True},
        {"sm_active_percent": 12.5},
    ],
)
def test_use_that_something_may_cause_is_real(overrides: dict[str, Any]) -> None:
    device = make_device(**{**STARTED, **overrides})
    assert not levels.is_start_artifact(device, has_processes=False)


def test_use_by_a_process_is_real() -> None:
    assert not levels.is_start_artifact(make_device(**STARTED), has_processes=True)
