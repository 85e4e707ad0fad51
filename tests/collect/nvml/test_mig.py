from collections import Counter

import pytest

from gpudash.collect.nvml import codes
from gpudash.model.device import Device
from tests.collect.nvml.tampering import Machine

INSTANCES = 3
IDENTITY = ("nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId")


def instances(machine: Machine, after: float = 1.0) -> list[Device]:
    return [device for device in machine.read(after).devices if device.is_mig]


def used(machine: Machine) -> set[str | None]:
    return {device.uuid for on in machine.read().processes.values() for device in on}


def test_who_an_instance_is_is_not_asked_every_tick() -> None:
    machine = Machine("mig")
    first = instances(machine)
    machine.driver.asked.clear()
    later = [instances(machine) for _ in range(4)]
    asked = Counter(machine.driver.asked)
    assert {name: asked[name] for name in IDENTITY} == dict.fromkeys(IDENTITY, 0)
    assert asked["nvmlDeviceGetAttributes"] == 0
    assert [i.uuid for i in later[-1]] == [i.uuid for i in first]
    assert all(i.multiprocessor_count for i in later[-1])


def test_an_instance_of_an_old_driver_tells_its_memory() -> None:
    machine = Machine("mig")
    machine.forget_memory_versions()
    assert all(i.memory_total_bytes for i in instances(machine))
    machine.driver.asked.clear()
    assert all(i.memory_used_bytes for i in instances(machine))
    assert machine.driver.asked.count("nvmlDeviceGetMemoryInfo") == INSTANCES + 2


def test_what_an_instance_does_not_tell_is_asked_once() -> None:
    machine = Machine("mig")
    machine.driver.replaced["nvmlDeviceGetAttributes"] = machine.driver.error(codes.NOT_SUPPORTED)
    for _ in range(12):
        found = instances(machine)
    assert {i.multiprocessor_count for i in found} == {None}
    assert machine.driver.asked.count("nvmlDeviceGetAttributes") == INSTANCES


def test_an_instance_that_vanishes_and_another_in_its_slot_are_distinguished() -> None:
    machine = Machine("mig")
    first = instances(machine)
    genuine = machine.host.library.nvmlDeviceGetGpuInstanceId
    machine.driver.replaced["nvmlDeviceGetGpuInstanceId"] = lambda handle: genuine(handle) + 1
    later = instances(machine, after=6.0)
    assert [i.gpu_instance_id for i in later] == [(i.gpu_instance_id or 0) + 1 for i in first]


def test_an_instance_that_was_destroyed_is_dropped_at_once() -> None:
    machine = Machine("mig")
    genuine = machine.host.library.nvmlDeviceGetMemoryInfo
    first = instances(machine)
    doomed = first[1].memory_total_bytes

    def destroyed(handle: object, *version: int) -> object:
        memory = genuine(handle, *version)
        return machine.driver.error(codes.INVALID_ARGUMENT)() if memory.total == doomed else memory

    machine.driver.replaced["nvmlDeviceGetMemoryInfo"] = destroyed
    assert [i.uuid for i in instances(machine)] == [first[0].uuid, first[2].uuid]


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetMigDeviceHandleByIndex",
    ],
)
def test_a_call_that_fails_for_a_while_makes_no_instance_vanish(call: str) -> None:
    machine = Machine("mig")
    first = [device.uuid for device in instances(machine)]
    on_instances = {uuid for uuid in used(machine) if uuid in first}
    assert on_instances
    machine.driver.replaced[call] = machine.driver.error(codes.UNKNOWN)
    for _ in range(12):
        assert [device.uuid for device in instances(machine)] == first
        assert {uuid for uuid in used(machine) if uuid in first} == on_instances
    del machine.driver.replaced[call]
    assert [device.uuid for device in instances(machine, after=12.0)] == first


def test_a_lost_instance_costs_the_others_nothing() -> None:
    machine = Machine("mig")
    instances(machine)
    fail = machine.driver.error(codes.GPU_IS_LOST)
    machine.driver.replaced["nvmlDeviceGetMigDeviceHandleByIndex"] = fail
    devices = machine.read(after=6.0).devices
    assert [device.state for device in devices] == ["ok", "ok"]


@pytest.mark.parametrize("count", [1_000_000, 2**32 - 1])
def test_more_slots_than_there_can_be_are_not_searched(count: int) -> None:
    machine = Machine("mig")
    machine.driver.replaced["nvmlDeviceGetMaxMigDeviceCount"] = lambda _: count
    assert any(device.is_mig for device in machine.read().devices)
    assert machine.driver.asked.count("nvmlDeviceGetMigDeviceHandleByIndex") <= 64 * 8
