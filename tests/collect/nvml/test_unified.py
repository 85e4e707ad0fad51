from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from tests.collect.nvml.tampering import Machine

MEMORY = "nvmlDeviceGetMemoryInfo"


def machine(name: str, answer: Any) -> Machine:
    tampered = Machine("single")
    tampered.driver.replaced["nvmlDeviceGetName"] = lambda _: name
    tampered.driver.replaced[MEMORY] = answer or tampered.driver.error(codes.NOT_SUPPORTED)
    return tampered


def nothing(*_: Any) -> SimpleNamespace:
    return SimpleNamespace(total=0, reserved=0, used=0, free=0)


@pytest.mark.parametrize("answer", [None, nothing])
@pytest.mark.parametrize("name", ["NVIDIA GB10", "Orin (nvgpu)", "NVIDIA Thor"])
def test_a_chip_without_memory_of_its_own_says_so_and_no_zero(name: str, answer: Any) -> None:
    device = machine(name, answer).read().devices[0]
    assert device.unified_memory is True
    assert device.memory_total_bytes is None
    assert device.memory_used_bytes is None
    assert device.memory_free_bytes is None


def test_page_tables_shared_with_the_cpu_tell_one_that_is_not_known() -> None:
    tampered = machine("NVIDIA something new", None)
    assert tampered.read().devices[0].unified_memory is None
    tampered = machine("NVIDIA something new", None)
    tampered.driver.replaced["nvmlDeviceGetAddressingMode"] = lambda _: 2
    device = tampered.read().devices[0]
    assert (device.addressing_mode, device.unified_memory) == ("ats", True)


def test_a_board_with_memory_has_its_own() -> None:
    assert Machine("single").read().devices[0].unified_memory is False


def test_a_failed_call_is_not_taken_for_shared_memory() -> None:
    tampered = Machine("single")
    tampered.driver.replaced[MEMORY] = tampered.driver.error(codes.NO_PERMISSION)
    device = tampered.read().devices[0]
    assert device.unified_memory is None
    assert device.memory_used_bytes is None
