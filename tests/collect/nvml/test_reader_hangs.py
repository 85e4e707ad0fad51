"""A driver in which calls hang: what is told of its GPUs, and that the others go on."""

import gc
import os
import threading
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import Library
from gpudash.collect.nvml.worker import CallTimeouts, DriverWorker, Task, timeout_fault
from gpudash.model.errors import DriverError
from gpudash.model.process import ProcessDevice
from tests import waiting
from tests.collect.nvml.tampering import Machine, System

QUICK = CallTimeouts(turn_seconds=0.5, call_seconds=1.0, first_call_seconds=1.0)
CALM = CallTimeouts(turn_seconds=1.0, call_seconds=2.0, first_call_seconds=2.0)
"""Long enough for a busy machine not to take a GPU that answers for silent."""


class Hanging:
    """One function of the driver that hangs for one GPU, or for all, while `gate` is closed."""

    def __init__(self, machine: Machine, name: str, place: int | None = None) -> None:
        self.gate = threading.Event()
        self._library, self._name, self._place = machine.host.library, name, place
        machine.driver.replaced[name] = self._call

    def _call(self, *arguments: Any) -> Any:
        if self._place in (None, self._index(arguments)):
            self.gate.wait(300)
        return getattr(self._library, self._name)(*arguments)

    def _index(self, arguments: tuple[Any, ...]) -> Any:
        return None if self._place is None else arguments[0].gpu.index


@contextmanager
def manned(worker: DriverWorker) -> Iterator[Machine]:
    """A machine whose calls that worker makes; those that hang come back at the end."""
    machine = Machine("dgx-h100", worker)
    try:
        yield machine
    finally:
        for replaced in machine.driver.replaced.values():
            replaced.__self__.gate.set()  # type: ignore[attr-defined]
        worker.close()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with manned(DriverWorker(QUICK)) as machine:
        yield machine


def read_until_state(machine: Machine, place: int, state: str) -> Any:
    def reached() -> Any:
        reading = machine.read()
        return reading if reading.devices[place].state == state else None

    return waiting.until(reached)


def has_gpu(shares: tuple[ProcessDevice, ...], index: int) -> bool:
    return any(share.index == index for share in shares)


def test_a_gpu_that_hangs_says_so_and_the_others_are_complete() -> None:
    with manned(DriverWorker(CALM)) as machine:
        healthy = machine.read()
        asked = machine.driver.asked.count("nvmlDeviceGetP2PStatus")
        hanging = Hanging(machine, "nvmlDeviceGetUtilizationRates", 3)
        reading = read_until_state(machine, 3, "not-answering")
        silent = reading.devices[3]
        assert (silent.uuid, silent.name) == (healthy.devices[3].uuid, healthy.devices[3].name)
        assert silent.power_usage_mw is None
        assert silent.fault.code == codes.TIMEOUT
        assert silent.fault.message.startswith("driver not answering ")
        assert "nvmlDeviceGetUtilizationRates" in silent.fault.message
        others = [device for device in reading.devices if device.index != 3]
        assert all(device.gpu_utilization_percent is not None for device in others)
        assert len(reading.topology.uuids) == len(others)
        assert machine.driver.asked.count("nvmlDeviceGetP2PStatus") == asked
        assert [(fault.source, fault.uuid) for fault in reading.faults] == [
            ("processes", silent.uuid)
        ]
        assert "GPU 3: processes unknown" in reading.faults[0].message
        assert any(has_gpu(on, 3) for on in healthy.processes.values())
        assert not any(has_gpu(on, 3) for on in reading.processes.values())
        assert silent.last_read is not None
        hanging.gate.set()
        back = read_until_state(machine, 3, "ok")
        assert back.devices[3].gpu_utilization_percent is not None
        assert back.devices[3].last_read is None
        assert back.faults == ()
        assert len(back.topology.uuids) == len(back.devices)
        assert machine.driver.asked.count("nvmlDeviceGetP2PStatus") == asked


def test_a_hung_call_is_made_once(machine: Machine) -> None:
    machine.read()
    Hanging(machine, "nvmlDeviceGetUtilizationRates", 0)
    read_until_state(machine, 0, "not-answering")
    asked = machine.driver.asked.count("nvmlDeviceGetUtilizationRates")
    machine.read()
    made = machine.driver.asked.count("nvmlDeviceGetUtilizationRates") - asked
    assert made == len(machine.read().devices) - 1


def test_memory_and_processes_of_a_hung_gpu_are_kept_apart_with_their_age(machine: Machine) -> None:
    before = machine.read()
    Hanging(machine, "nvmlDeviceGetPowerUsage", 0)
    silent = read_until_state(machine, 0, "not-answering").devices[0]
    assert silent.memory_used_bytes is None
    assert silent.last_read.memory_used_bytes == before.devices[0].memory_used_bytes
    assert silent.last_read.memory_total_bytes == before.devices[0].memory_total_bytes
    assert silent.last_read.age_seconds > 0
    on_it = {pid for pid, shares in before.processes.items() if has_gpu(shares, 0)}
    assert {each.pid for each in silent.last_read.processes} == on_it
    later = machine.read().devices[0].last_read
    assert later.age_seconds > silent.last_read.age_seconds
    assert {device.last_read for device in machine.read().devices[1:]} == {None}


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


@pytest.mark.parametrize("is_back", [False, True])
def test_only_a_call_that_is_out_is_named(is_back: bool) -> None:
    library = Library(Machine("single").driver)
    task = Task(lambda: None)
    task.run()
    task.is_pending = not is_back
    library.module.replaced["nvmlDeviceGetName"] = lambda: timeout_fault(task, "GPU 0").message
    message, _ = library.call("nvmlDeviceGetName")
    assert ("nvmlDeviceGetName" in message) == (not is_back)


def test_topology_that_hangs_is_left_out() -> None:
    with manned(DriverWorker(CALM)) as machine:
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


def test_a_driver_that_does_not_let_go_is_reported_and_not_waited_for(machine: Machine) -> None:
    machine.read()
    Hanging(machine, "nvmlShutdown")
    with pytest.raises(DriverError, match="hangs"):
        machine.reader.close()
    (fault,) = machine.read().faults
    assert "nvmlShutdown" in fault.message


def test_what_there_is_no_thread_for_is_not_shown_as_it_was() -> None:
    with manned(DriverWorker(CALM, start=System(threads=1).start)) as machine:
        healthy = machine.read()
        hanging = Hanging(machine, "nvmlDeviceGetUtilizationRates", 0)
        reading = read_until_state(machine, 7, "failed")
        assert reading.devices[0].state == "not-answering"
        for device, before in zip(reading.devices[1:], healthy.devices[1:], strict=True):
            assert (device.state, device.uuid) == ("failed", before.uuid)
            assert device.power_usage_mw is None
            assert "cannot be read: the system gives no thread" in device.fault.message
        assert not reading.processes
        assert len([each for each in reading.faults if each.source == "processes"]) == 8
        hanging.gate.set()
        back = read_until_state(machine, 7, "ok")
        assert back.devices[7].power_usage_mw is not None


def test_without_any_thread_the_driver_is_not_asked_until_there_is_one() -> None:
    system = System(threads=0)
    with manned(DriverWorker(CALM, start=system.start)) as machine:
        reading = machine.read()
        assert machine.driver.asked == []
        assert {device.state for device in reading.devices} == {"failed"}
        assert len(reading.devices) == 8
        (fault,) = reading.faults
        assert fault.message.startswith("the driver cannot be read: the system gives no thread")
        system.left = 1
        assert {device.state for device in machine.read().devices} == {"ok"}


def test_a_thread_that_the_system_does_not_give_again_is_not_needed() -> None:
    with manned(DriverWorker(CALM, start=System(threads=1).start)) as machine:
        for _ in range(20):
            assert {device.state for device in machine.read().devices} == {"ok"}


def test_a_listing_that_hangs_keeps_the_time_at_which_it_was_made() -> None:
    with manned(
        DriverWorker(CallTimeouts(turn_seconds=0.5, call_seconds=1.0, first_call_seconds=60.0))
    ) as machine:
        first = machine.read()
        only = {
            place: {pid for pid, on in first.processes.items() if {d.index for d in on} == {place}}
            for place in (0, 1)
        }
        Hanging(machine, "nvmlDeviceGetUtilizationRates", 0)
        later = [machine.read() for _ in range(3)][-1]
        assert later.devices[0].state == "ok"
        listed = {pid: first.listed_at[pid] for pid in only[0]}
        assert listed == {pid: later.listed_at[pid] for pid in only[0]}
        assert all(later.listed_at[pid] > first.listed_at[pid] for pid in only[1])
        assert all(only.values())


class Dozing(Machine):
    """A machine one GPU of which sleeps from the start, until it is woken."""

    def __init__(self, worker: DriverWorker, place: int) -> None:
        super().__init__("dgx-h100", worker)
        self._address = list(self.host.power_states())[place]
        self.is_asleep = True
        self.identified: list[str] = []

    def power_states(self) -> dict[str, str]:
        state = "suspended" if self.is_asleep else "active"
        return {**self.host.power_states(), self._address: state}

    def identity(self, address: str) -> Any:
        self.identified.append(address)
        return self.host.identity(address)


def test_the_kernel_module_is_asked_once_who_a_gpu_is_and_never_what_is_known() -> None:
    worker = DriverWorker(QUICK)
    machine = Dozing(worker, 0)
    name = machine.read().devices[0].name
    assert name
    # On a busy machine others may not answer in time at first, and are asked for then.
    for index in range(1, 8):
        read_until_state(machine, index, "ok")
    identified = list(machine.identified)
    assert len(set(identified)) == len(identified)
    hanging = Hanging(machine, "nvmlDeviceGetUtilizationRates", 3)
    silent = read_until_state(machine, 3, "not-answering").devices[3]
    assert silent.name == name
    asleep = machine.read().devices[0]
    assert (asleep.state, asleep.name) == ("asleep", name)
    assert asleep.uuid is not None
    assert machine.identified == identified
    hanging.gate.set()
    worker.close()


def test_a_gpu_that_was_never_read_makes_the_others_no_slower() -> None:
    worker = DriverWorker(
        CallTimeouts(turn_seconds=0.5, call_seconds=1.0, first_call_seconds=300.0)
    )
    machine = Dozing(worker, 7)
    states = [device.state for device in machine.read().devices]
    assert states == ["ok"] * 7 + ["asleep"]
    hanging = Hanging(machine, "nvmlDeviceGetUtilizationRates", 0)
    started = time.monotonic()
    machine.read()
    assert time.monotonic() - started < 100
    hanging.gate.set()
    worker.close()


def test_links_that_need_not_be_asked_for_are_reported_where_the_system_gives_no_thread() -> None:
    worker = DriverWorker(CALM, start=System(threads=1).start)
    machine = Dozing(worker, 0)
    topology = machine.read().topology
    assert topology.indices == (1, 2, 3, 4, 5, 6, 7)
    hanging = Hanging(machine, "nvmlDeviceGetPowerUsage", 7)
    machine.is_asleep = False
    assert "topology" in {fault.source for fault in machine.read().faults}
    machine.is_asleep = True
    reading = machine.read()
    assert "topology" not in {fault.source for fault in reading.faults}
    assert reading.topology.indices == (1, 2, 3, 4, 5, 6)
    hanging.gate.set()
    worker.close()


def test_what_cannot_be_let_go_of_for_want_of_a_thread_is_not_said_to_hang() -> None:
    machine = Machine("single", DriverWorker(QUICK, start=System(threads=0).start))
    with pytest.raises(DriverError, match="the system gives no thread"):
        machine.reader.close()


def test_a_gpu_that_stays_silent_costs_no_memory_and_no_threads() -> None:
    with manned(DriverWorker(CALM)) as machine:
        machine.read()
        Hanging(machine, "nvmlDeviceGetUtilizationRates", 3)
        read_until_state(machine, 3, "not-answering")

        def cost(ticks: int) -> tuple[int, int]:
            held: list[int] = []
            for _ in range(ticks):
                machine.read()
                machine.driver.asked.clear()
                held.append(tracemalloc.get_traced_memory()[0])
                if len(held) == ticks - PERIOD:
                    gc.collect()
            return min(held[-PERIOD:]), threads()

        tracemalloc.start()
        started = time.monotonic()
        try:
            (before, threads_before), (after, threads_after) = cost(30), cost(40)
        finally:
            tracemalloc.stop()
        # What was said of each second stays in a cache, which has its bound.
        said = 2048 * (time.monotonic() - started)
        assert after - before < 16 * 1024 + said
        assert threads_after <= threads_before


PERIOD = 10
"""Ticks after which all that is asked rarely was asked once; what was asked is held until then."""


def threads() -> int:
    """Return how many threads this process has, also those that Python does not list."""
    return len(os.listdir("/proc/self/task"))
