from __future__ import annotations

from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.links import FABRIC_FIELDS
from tests.collect.nvml.tampering import Machine

CALL = "nvmlDeviceGetGpuFabricInfoV"


def machine_with(**members: Any) -> Machine:
    machine = Machine("dgx-h100")

    def fill(handle: Any, info: Any) -> None:
        for name, value in members.items():
            setattr(info, name, value)

    machine.driver.replaced[CALL] = fill
    return machine


def test_a_gpu_in_a_fabric_tells_where_it_is() -> None:
    device = Machine("dgx-h100").read().devices[0]
    assert device.fabric_state == "completed"
    assert (device.fabric_status_code, device.fabric_bandwidth_degraded) == (0, False)
    assert device.fabric_clique_id == 0
    assert [len(part) for part in (device.fabric_cluster_uuid or "").split("-")] == [8, 4, 4, 4, 12]


@pytest.mark.parametrize(("state", "word"), [(1, "not-started"), (2, "in-progress")])
def test_one_that_has_not_joined_yet_has_no_status(state: int, word: str) -> None:
    device = machine_with(state=state, status=codes.UNKNOWN).read().devices[0]
    assert (device.fabric_state, device.fabric_status_code) == (word, None)
    assert device.fabric_cluster_uuid is None


def test_one_that_failed_to_join_says_how() -> None:
    device = machine_with(state=3, status=codes.UNKNOWN, healthMask=1).read().devices[0]
    assert (device.fabric_state, device.fabric_status_code) == ("completed", codes.UNKNOWN)
    assert device.fabric_bandwidth_degraded is True


@pytest.mark.parametrize("code", [codes.NOT_SUPPORTED, codes.FUNCTION_NOT_FOUND])
def test_one_outside_of_any_is_asked_once(code: int) -> None:
    machine = Machine("dgx-h100")
    machine.driver.replaced[CALL] = machine.driver.error(code)
    for _ in range(25):
        device = machine.read().devices[0]
    assert all(getattr(device, field) is None for field in FABRIC_FIELDS)
    assert machine.driver.asked.count(CALL) == 8


def test_one_that_does_not_take_part_is_asked_once() -> None:
    machine = machine_with(state=0)
    for _ in range(25):
        device = machine.read().devices[0]
    assert all(getattr(device, field) is None for field in FABRIC_FIELDS)
    assert machine.driver.asked.count(CALL) == 8


def test_a_look_that_failed_is_repeated() -> None:
    machine = Machine("dgx-h100")
    machine.driver.replaced[CALL] = machine.driver.error(codes.UNKNOWN)
    assert machine.read().devices[0].fabric_state is None
    del machine.driver.replaced[CALL]
    for _ in range(12):
        device = machine.read().devices[0]
    assert device.fabric_state == "completed"


def test_a_fabric_call_that_says_the_gpu_is_gone_is_believed() -> None:
    machine = Machine("dgx-h100")
    machine.driver.replaced[CALL] = machine.driver.error(codes.GPU_IS_LOST)
    assert machine.read().devices[0].state == "lost"
