from __future__ import annotations

from typing import Any

import pytest

from gpudash import health
from gpudash.snapshot import Device
from tests.factories import GIB, make_device


@pytest.mark.parametrize(
    ("overrides", "word", "level"),
    [
        ({}, "ok", "ok"),
        ({"gpu_utilization_percent": 0, "memory_used_bytes": 0}, "idle", "ok"),
        ({"gpu_utilization_percent": 0}, "idle", "warn"),
        ({"clocks_event_reasons": ("sw-power-cap",)}, "power-cap", "warn"),
        ({"clocks_event_reasons": ("sw-thermal-slowdown", "sw-power-cap")}, "thermal", "warn"),
        ({"clocks_event_reasons": ("hw-slowdown",)}, "hw-slow", "critical"),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-thermal-slowdown")},
            "thermal",
            "critical",
        ),
        (
            {"clocks_event_reasons": ("hw-slowdown", "hw-power-brake-slowdown")},
            "brake",
            "critical",
        ),
        ({"clocks_event_reasons": ("gpu-idle", "applications-clocks-setting")}, "ok", "ok"),
        ({"state": "asleep"}, "asleep", "unknown"),
        ({"state": "reset-required"}, "RESET", "critical"),
        ({"state": "failed"}, "FAILED", "critical"),
    ],
)
def test_status_says_why(overrides: dict[str, Any], word: str, level: str) -> None:
    device = make_device(**overrides)
    assert (health.status(device), health.status_level(device)) == (word, level)


def test_status_of_a_lost_gpu_is_never_idle() -> None:
    device = Device(index=2, state="lost", gpu_utilization_percent=0)
    assert health.status(device) == "LOST"


def test_status_is_absent_where_nothing_is_known() -> None:
    device = Device(index=0)
    assert (health.status(device), health.status_level(device)) == ("-", "unknown")


@pytest.mark.parametrize(
    ("overrides", "level"),
    [
        ({"temperature_margin_celsius": 25}, "ok"),
        ({"temperature_margin_celsius": 10}, "warn"),
        ({"temperature_margin_celsius": 0}, "critical"),
        ({"temperature_celsius": 80, "max_operating_temperature_celsius": 87}, "warn"),
        ({"temperature_celsius": 80, "slowdown_temperature_celsius": 96}, "ok"),
        ({"temperature_celsius": 90}, "critical"),
        ({"temperature_celsius": None}, "unknown"),
    ],
)
def test_temperature_level_follows_the_board_s_own_limits(
    overrides: dict[str, Any], level: str
) -> None:
    assert health.temperature_level(make_device(**overrides)) == level


@pytest.mark.parametrize(
    ("used", "level"), [(40, "ok"), (77, "warn"), (80, "critical"), (None, "unknown")]
)
def test_memory_level_warns_before_it_is_full(used: int | None, level: str) -> None:
    device = make_device(memory_used_bytes=None if used is None else used * GIB)
    assert health.memory_level(device) == level


@pytest.mark.parametrize(("usage", "level"), [(690, "warn"), (400, "ok"), (None, "unknown")])
def test_power_level_warns_at_the_limit(usage: int | None, level: str) -> None:
    device = make_device(power_usage_mw=None if usage is None else usage * 1000)
    assert health.power_level(device) == level
