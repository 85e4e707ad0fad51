from __future__ import annotations

from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.reader import NvmlReader
from tests.collect.nvml.tampering import Machine

CALL = "nvmlDeviceGetPcieThroughput"
COUNTERS = (197, 198)


def machine(*, asked: bool, counts: bool = False) -> Machine:
    """A single GPU whose PCIe counters the driver lacks, unless it counts."""
    tampered = Machine("single")
    genuine = tampered.host.library.nvmlDeviceGetFieldValues

    def answer(handle: Any, ids: Any) -> Any:
        entries = genuine(handle, ids)
        for entry in entries:
            if entry.fieldId in COUNTERS and not counts:
                entry.nvmlReturn = codes.NOT_SUPPORTED
        return entries

    tampered.driver.replaced["nvmlDeviceGetFieldValues"] = answer
    library = Library(tampered.driver, pcie_throughput=asked)
    tampered.reader = NvmlReader(library, tampered.host, lambda: tampered.now, lambda: tampered.now)
    return tampered


def test_nobody_is_held_up_who_did_not_ask() -> None:
    tampered = machine(asked=False)
    for _ in range(8):
        device = tampered.read().devices[0]
    assert device.pcie_rx_bytes_per_second is None
    assert CALL not in tampered.driver.asked


def test_who_asks_is_told_in_the_first_tick_and_every_five_seconds() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = lambda _, which: 1500 if which else 700
    for _ in range(8):
        device = tampered.read().devices[0]
        assert device.pcie_tx_bytes_per_second == 700_000
        assert device.pcie_rx_bytes_per_second == 1_500_000
    assert tampered.driver.asked.count(CALL) == 2 * 2


def test_counters_go_before_the_call() -> None:
    tampered = machine(asked=True, counts=True)
    tampered.read()
    for _ in range(12):
        device = tampered.read().devices[0]
    assert device.pcie_rx_bytes_per_second is not None
    assert tampered.driver.asked.count(CALL) == 2


@pytest.mark.parametrize("garbage", [0xFFFFFFFF, 4 * 10**9])
def test_garbage_is_no_rate(garbage: int) -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = lambda *_: garbage
    assert tampered.read().devices[0].pcie_tx_bytes_per_second is None


def test_a_gpu_that_cannot_is_asked_once() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = tampered.driver.error(codes.NOT_SUPPORTED)
    for _ in range(12):
        assert tampered.read().devices[0].pcie_tx_bytes_per_second is None
    assert tampered.driver.asked.count(CALL) == 2


def test_one_that_says_it_is_gone_is_believed() -> None:
    tampered = machine(asked=True)
    tampered.driver.replaced[CALL] = tampered.driver.error(codes.GPU_IS_LOST)
    assert tampered.read().devices[0].state == "lost"
