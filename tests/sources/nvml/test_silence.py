"""A driver in which calls hang: what is told of its GPUs, and that the others go on."""

from __future__ import annotations

import gc
import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from gpudash.errors import DriverError
from gpudash.snapshot import ProcessDevice
from gpudash.sources.nvml import codes
from gpudash.sources.nvml.tasks import Patience
from tests.sources.nvml.tampering import Machine

QUICK = Patience(alone=0.05, rest=0.1, first=0.15)


class Hanging:
    """One function of the driver that hangs for one GPU, or for all, while `gate` is closed."""

    def __init__(self, machine: Machine, name: str, place: int | None = None) -> None:
        self.gate = threading.Event()
        self._library, self._name, self._place = machine.host.library, name, place
        machine.driver.replaced[name] = self._call

    def _call(self, *arguments: Any) -> Any:
        if self._place in (None, self._index(arguments)):
            self.gate.wait(30)
        return getattr(self._library, self._name)(*arguments)

    def _index(self, arguments: tuple[Any, ...]) -> Any:
        return None if self._place is None else self._library.nvmlDeviceGetIndex(arguments[0])


@pytest.fixture
def machine() -> Iterator[Machine]:
    machine = Machine("dgx-h100", patience=QUICK)
    yield machine
    for replaced in machine.driver.replaced.values():
        replaced.__self__.gate.set()  # type: ignore[attr-defined]


def read_until_state(machine: Machine, place: int, state: str) -> Any:
    for _ in range(200):
        reading = machine.read()
        if reading.devices[place].state == state:
            return reading
        threading.Event().wait(0.02)
    raise AssertionError(f"never {state}")


def has_gpu(shares: tuple[ProcessDevice, ...], index: int) -> bool:
    return any(share.index == index for share in shares)


def test_a_gpu_that_hangs_says_so_and_the_others_are_complete(machine: Machine) -> None:
    healthy = machine.read()
    hanging = Hanging(machine, "nvmlDeviceGetUtilizationRates", 3)
    reading = read_until_state(machine, 3, "not-answering")
    silent = reading.devices[3]
    assert (silent.uuid, silent.name) == (healthy.devices[3].uuid, healthy.devices[3].name)
    assert silent.power_usage_mw is None
    assert silent.fault.code == codes.TIMEOUT
    assert silent.fault.message.startswith("driver not answering 0 s")
    assert "nvmlDeviceGetUtilizationRates" in silent.fault.message
    others = [device for device in reading.devices if device.index != 3]
    assert all(device.gpu_utilization_percent is not None for device in others)
    assert len(reading.topology.uuids) == len(others)
    assert [(fault.source, fault.uuid) for fault in reading.faults] == [("processes", silent.uuid)]
    hanging.gate.set()
    back = read_until_state(machine, 3, "ok")
    assert back.devices[3].gpu_utilization_percent is not None
    assert back.faults == ()
    assert len(back.topology.uuids) == len(back.devices)


def test_a_hung_call_is_made_once(machine: Machine) -> None:
    machine.read()
    Hanging(machine, "nvmlDeviceGetUtilizationRates", 0)
    read_until_state(machine, 0, "not-answering")
    asked = machine.driver.asked.count("nvmlDeviceGetUtilizationRates")
    machine.read()
    made = machine.driver.asked.count("nvmlDeviceGetUtilizationRates") - asked
    assert made == len(machine.read().devices) - 1


def test_processes_on_a_hung_gpu_are_unknown(machine: Machine) -> None:
    assert any(has_gpu(on, 0) for on in machine.read().processes.values())
    Hanging(machine, "nvmlDeviceGetPowerUsage", 0)
    reading = read_until_state(machine, 0, "not-answering")
    assert not any(has_gpu(on, 0) for on in reading.processes.values())
    assert any("GPU 0: processes unknown" in fault.message for fault in reading.faults)


def test_a_driver_that_cannot_be_opened_names_the_gpus_that_the_kernel_shows(
    machine: Machine,
) -> None:
    hanging = Hanging(machine, "nvmlInitWithFlags")
    reading = machine.read()
    assert {device.state for device in reading.devices} == {"not-answering"}
    assert len(reading.devices) == 8
    assert all(device.pci_bus_id for device in reading.devices)
    (fault,) = reading.faults
    assert fault.uuid is None
    assert "nvmlInitWithFlags" in fault.message
    hanging.gate.set()
    assert read_until_state(machine, 0, "ok").faults == ()


def test_topology_that_hangs_is_left_out(machine: Machine) -> None:
    Hanging(machine, "nvmlDeviceGetP2PStatus")
    reading = machine.read()
    assert reading.topology is None
    assert [fault.source for fault in reading.faults] == ["topology"]
    assert {device.state for device in reading.devices} == {"ok"}
    assert {device.state for device in machine.read().devices} == {"ok"}


def test_nothing_is_closed_below_a_call(machine: Machine) -> None:
    machine.read()
    Hanging(machine, "nvmlDeviceGetPowerUsage", 2)
    read_until_state(machine, 2, "not-answering")
    with pytest.raises(DriverError, match="hangs"):
        machine.reader.close()
    assert "nvmlShutdown" not in machine.driver.asked


def test_a_gpu_that_stays_silent_costs_no_memory_and_no_threads(machine: Machine) -> None:
    machine.read()
    Hanging(machine, "nvmlDeviceGetUtilizationRates", 3)
    read_until_state(machine, 3, "not-answering")

    def cost(ticks: int) -> tuple[int, int]:
        for _ in range(ticks):
            machine.read()
            machine.driver.asked.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0], threading.active_count()

    tracemalloc.start()
    try:
        (before, threads), (after, threads_after) = cost(60), cost(120)
    finally:
        tracemalloc.stop()
    assert after - before < 16 * 1024
    assert threads_after == threads
