from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from gpudash.snapshot import XidEvent
from gpudash.sources.nvml import codes
from tests.sources.nvml.tampering import Machine

WAIT = "nvmlEventSetWait_v2"
NO_INSTANCE = 0xFFFFFFFF


def event(code: int, instance: int = NO_INSTANCE) -> SimpleNamespace:
    return SimpleNamespace(eventType=8, eventData=code, gpuInstanceId=instance)


def raising(machine: Machine) -> list[SimpleNamespace]:
    """Return a list of events that the driver reports, in turn, of whichever GPU asks."""
    pending: list[SimpleNamespace] = []
    timeout: Callable[..., None] = machine.driver.error(codes.TIMEOUT)
    machine.driver.replaced[WAIT] = lambda *_: pending.pop(0) if pending else timeout()
    return pending


def events(machine: Machine) -> tuple[XidEvent, ...] | None:
    return machine.read().devices[0].xid_events


def test_a_gpu_is_watched_from_the_second_tick_on() -> None:
    machine = Machine("single")
    assert events(machine) is None
    assert events(machine) == ()
    assert machine.driver.asked.count("nvmlEventSetCreate") == 1


def test_an_xid_is_kept_with_its_time() -> None:
    machine = Machine("single")
    machine.read()
    raising(machine).append(event(31))
    assert events(machine) == (XidEvent(code=31, seen_at=machine.now),)
    seen_at = machine.now
    assert events(machine) == (XidEvent(code=31, seen_at=seen_at),)


def test_the_same_one_again_counts_up() -> None:
    machine = Machine("single")
    machine.read()
    raising(machine).extend([event(13), event(94, 2), event(94, 2), event(94, 3)])
    found = events(machine) or ()
    assert [(each.code, each.gpu_instance_id, each.count) for each in found] == [
        (13, None, 1),
        (94, 2, 2),
        (94, 3, 1),
    ]


def test_the_last_ones_are_kept() -> None:
    machine = Machine("single")
    machine.read()
    raising(machine).extend(event(code) for code in range(1, 41))
    assert [each.code for each in events(machine) or ()] == list(range(25, 41))


def test_a_storm_does_not_hold_up_a_tick() -> None:
    machine = Machine("single")
    machine.read()
    machine.driver.replaced[WAIT] = lambda *_: event(63)
    found = events(machine) or ()
    assert [(each.code, each.count) for each in found] == [(63, 64)]


def test_one_that_the_driver_does_not_know_has_no_number() -> None:
    machine = Machine("single")
    machine.read()
    raising(machine).append(event(999))
    found = events(machine) or ()
    assert found[0].code is None
    assert str(found[0]).startswith("unknown at ")


def test_the_xid_by_which_a_gpu_was_lost_stays_with_it() -> None:
    machine = Machine("single")
    machine.read()
    machine.read()
    raising(machine).append(event(79))
    lost = machine.driver.error(codes.GPU_IS_LOST)
    machine.driver.replaced["nvmlDeviceGetTemperatureV"] = lost
    device = machine.read().devices[0]
    assert device.state == "lost"
    assert [each.code for each in device.xid_events or ()] == [79]
    assert machine.driver.asked.count("nvmlEventSetFree") == 1
    machine.driver.replaced.clear()
    device = machine.read(after=60.0).devices[0]
    assert device.state == "ok"
    assert [each.code for each in device.xid_events or ()] == [79]


@pytest.mark.parametrize(
    "call",
    ["nvmlDeviceGetSupportedEventTypes", "nvmlEventSetCreate", "nvmlDeviceRegisterEvents"],
)
def test_a_driver_that_reports_none_is_asked_once(call: str) -> None:
    machine = Machine("single")
    machine.driver.replaced[call] = machine.driver.error(codes.NOT_SUPPORTED)
    for _ in range(30):
        assert events(machine) is None
    assert machine.driver.asked.count(call) == 1
    made = machine.driver.asked.count("nvmlEventSetCreate")
    assert machine.driver.asked.count("nvmlEventSetFree") == (
        made if call == "nvmlDeviceRegisterEvents" else 0
    )


def test_a_set_that_fails_is_made_anew() -> None:
    machine = Machine("single")
    machine.read()
    machine.read()
    machine.driver.replaced[WAIT] = machine.driver.error(codes.UNKNOWN)
    machine.read()
    del machine.driver.replaced[WAIT]
    for _ in range(12):
        machine.read()
    assert machine.driver.asked.count("nvmlEventSetCreate") == 2
    assert events(machine) == ()


def test_letting_go_of_the_driver_gives_the_set_back() -> None:
    machine = Machine("dgx-h100")
    machine.read()
    machine.read()
    machine.reader.close()
    assert machine.driver.asked.count("nvmlEventSetFree") == 8


def test_a_simulated_card_reports_in_its_time() -> None:
    machine = Machine("lost")
    for _ in range(3):
        machine.read()
    machine.read(after=900.0)
    watched = machine.read().devices[3].xid_events or ()
    assert [each.code for each in watched] == [45]
