from __future__ import annotations

import pytest

from gpudash.collect.nvml.library import FieldAnswer, FieldAnswers, Scoped
from gpudash.collect.nvml.rates import REASONS, Throttling
from tests.collect.nvml.tampering import Machine

POWER, BRAKE = 74, 271
NANOSECONDS = 1_000_000_000


def read(
    throttling: Throttling, now: float, values: dict[int, int], refused: tuple[int, ...] = ()
) -> dict[str, float | None]:
    wanted = throttling.wanted(now)
    answers: dict[Scoped, FieldAnswer] = {
        scope: FieldAnswer(values[scope[0]], int(now * 1e6))
        for scope in wanted
        if scope[0] in values
    }
    turned_down = frozenset(scope for scope in wanted if scope[0] in refused)
    return throttling.values(FieldAnswers(answers, turned_down, 0), now)


def test_a_share_is_over_the_time_between_two_readings() -> None:
    throttling = Throttling()
    assert read(throttling, 1.0, {POWER: 5})["throttled_sw_power_cap_percent"] is None
    facts = read(throttling, 3.0, {POWER: NANOSECONDS // 2 + 5})
    assert facts["throttled_sw_power_cap_percent"] == 25.0
    assert facts["throttled_hw_power_brake_percent"] is None


@pytest.mark.parametrize(
    ("counted", "share"),
    [
        (0, 0.0),
        (NANOSECONDS * 21 // 10, 100.0),
        (NANOSECONDS * 50, None),
        (-NANOSECONDS, None),
        (0xFFFFFFFFFFFFFFFF, None),
    ],
)
def test_a_share_is_possible_or_none(counted: int, share: float | None) -> None:
    throttling = Throttling()
    read(throttling, 1.0, {POWER: 2 * NANOSECONDS})
    after = counted if counted > 100 * NANOSECONDS else 2 * NANOSECONDS + counted
    facts = read(throttling, 3.0, {POWER: after})
    assert facts["throttled_sw_power_cap_percent"] == share


def test_what_is_refused_is_asked_once() -> None:
    throttling = Throttling()
    read(throttling, 1.0, {POWER: 0}, refused=(BRAKE,))
    assert {number for number, _ in throttling.wanted(3.0)} == set(REASONS) - {BRAKE}


def test_a_capped_card_says_so_and_a_cool_one_too() -> None:
    machine = Machine("dgx-h100")
    for _ in range(5):
        devices = machine.read().devices
    assert devices[2].throttled_sw_power_cap_percent == 100.0
    assert devices[0].throttled_sw_power_cap_percent == 0.0
