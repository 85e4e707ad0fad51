"""What a device does by its utilization, its memory and who has it; since when it rests."""

from typing import Any

import pytest

from gpudash.analysis.activity import PAUSE_SECONDS, RestClock, activity, is_rest, notable
from gpudash.model.device import Device
from gpudash.model.fleet import FleetDevice
from gpudash.model.state import BUSY, FREE, HELD, IN_USE, UNKNOWN, State

GIB = 1 << 30


@pytest.mark.parametrize("kind", [Device, FleetDevice])
@pytest.mark.parametrize(
    ("fields", "is_held", "is_idle", "state"),
    [
        ({"gpu_utilization_percent": 5}, True, False, BUSY),
        ({"gpu_utilization_percent": 5}, False, True, BUSY),
        ({"gpu_utilization_percent": 3}, True, True, IN_USE),
        ({"gpu_utilization_percent": 3}, False, False, FREE),
        ({"gpu_utilization_percent": 0}, True, True, HELD),
        ({"gpu_utilization_percent": 0}, True, False, IN_USE),
        ({"gpu_utilization_percent": 0}, False, False, FREE),
        ({"gpu_utilization_percent": None}, True, True, IN_USE),
        ({"gpu_utilization_percent": None}, False, False, UNKNOWN),
        ({"gpu_utilization_percent": None, "parent_uuid": "GPU-0"}, False, False, FREE),
        ({"gpu_utilization_percent": None, "sm_active_percent": 60.0}, True, False, BUSY),
        ({"gpu_utilization_percent": 0, "memory_used_bytes": None}, False, False, UNKNOWN),
    ],
)
def test_what_a_device_does(
    kind: type[Device | FleetDevice],
    fields: dict[str, Any],
    is_held: bool,
    is_idle: bool,
    state: State,
) -> None:
    device = kind(**{"index": 0, "memory_used_bytes": 0, **fields})
    assert activity(device, is_held=is_held, is_idle=is_idle) is state


@pytest.mark.parametrize(
    ("amount", "total", "expected"),
    [
        (None, 80 * GIB, False),
        (GIB, 80 * GIB, True),
        (GIB - 1, 80 * GIB, False),
        (GIB // 2, 8 * GIB, True),
        (GIB // 2, None, False),
    ],
)
def test_memory_that_holds_a_device(amount: int | None, total: int | None, expected: bool) -> None:
    assert notable(amount, total) is expected


def rests(*samples: tuple[float, float | None, bool]) -> list[float | None]:
    """How long a device has rested after each (instant, utilization, held) of its samples."""
    clock, found = RestClock(), []
    for now, percent, is_held in samples:
        clock.begin()
        device = FleetDevice(index=0, gpu_utilization_percent=percent)
        found.append(clock.idle_seconds("GPU-0", device, now, is_held=is_held))
    return found


def test_a_rest_counts_from_its_first_sample_and_ends_with_any_use() -> None:
    samples = [(0.0, 90.0, True), (10.0, 0.0, True), (40.0, 0.9, True), (50.0, 1.0, True)]
    assert rests(*samples, (60.0, 0.0, True)) == [None, 0.0, 30.0, None, 0.0]


def test_what_is_not_known_is_no_rest() -> None:
    assert rests((0.0, 0.0, True), (10.0, None, True), (20.0, 0.0, True)) == [0.0, None, 0.0]


def test_who_takes_a_free_device_has_not_held_it_before() -> None:
    assert rests((0.0, 0.0, False), (900.0, 0.0, True), (960.0, 0.0, True)) == [0.0, 0.0, 60.0]


def test_a_pause_is_no_rest() -> None:
    assert not is_rest(PAUSE_SECONDS - 0.1)
    assert is_rest(PAUSE_SECONDS)
    assert not is_rest(None)
