from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.reader import NvmlSample
from gpudash.model.process import ProcessDevice
from tests.collect.nvml.tampering import Machine

NONE = 0xFFFFFFFF


class Entry:
    def __init__(self, pid: int, memory: int | None, gi: int = NONE, ci: int = NONE) -> None:
        self.pid = pid
        self.usedGpuMemory = memory
        self.gpuInstanceId = gi
        self.computeInstanceId = ci


class Sample:
    def __init__(self, pid: int, timestamp_us: int, sm: int) -> None:
        self.pid = pid
        self.timeStamp = timestamp_us
        self.smUtil = sm
        self.memUtil = self.encUtil = self.decUtil = 0


def list_processes(machine: Machine, kind: str, *entries: Entry) -> None:
    name = f"nvmlDeviceGet{kind}RunningProcesses_v3"
    machine.driver.replaced[name] = lambda _: list(entries)


@pytest.fixture
def machine() -> Machine:
    machine = Machine("single")
    for kind in ("Compute", "Graphics", "MPSCompute"):
        list_processes(machine, kind)
    return machine


def only(reading: NvmlSample, pid: int) -> ProcessDevice:
    (entry,) = reading.processes[pid]
    return entry


def test_a_process_in_two_lists_is_one_with_both_types_and_its_memory_once(
    machine: Machine,
) -> None:
    list_processes(machine, "Compute", Entry(7, 300))
    list_processes(machine, "Graphics", Entry(7, 300))
    entry = only(machine.read(), 7)
    assert (entry.type, entry.used_gpu_memory_bytes) == ("C+G", 300)


def test_a_client_of_an_mps_server_is_marked(machine: Machine) -> None:
    list_processes(machine, "MPSCompute", Entry(7, 300))
    list_processes(machine, "Compute", Entry(7, 300))
    assert only(machine.read(), 7).type == "M+C"


def test_a_pid_listed_twice_is_one_process(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 300), Entry(7, 400))
    assert only(machine.read(), 7).used_gpu_memory_bytes == 400


def test_processes_have_their_position_in_the_list_of_the_driver(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(9, 300), Entry(7, 400), Entry(8, 100))
    reading = machine.read()
    assert [only(reading, pid).list_position for pid in (9, 7, 8)] == [0, 1, 2]


def test_pid_0_is_dropped(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(0, 300), Entry(7, 100))
    assert set(machine.read().processes) == {7}


def test_memory_that_the_driver_does_not_tell_is_none(machine: Machine) -> None:
    wrapped = Entry(9, 2**64 - 2**20)
    list_processes(machine, "Compute", Entry(7, None), Entry(8, 0xFFFFFFFFFFFFFFFF), wrapped)
    reading = machine.read()
    assert only(reading, 7).used_gpu_memory_bytes is None
    assert only(reading, 8).used_gpu_memory_bytes is None
    assert only(reading, 9).used_gpu_memory_bytes is None
    assert reading.devices[0].memory_unaccounted_bytes is None


def test_memory_that_no_listed_process_owns_is_its_own_number(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1000))
    device = machine.read().devices[0]
    assert device.memory_used_bytes is not None
    assert device.memory_unaccounted_bytes == device.memory_used_bytes - 1000


def test_memory_of_which_the_driver_keeps_an_unknown_part_is_not_said_to_be_unowned(
    machine: Machine,
) -> None:
    list_processes(machine, "Compute", Entry(7, 1000))
    machine.forget_memory_versions()
    device = machine.read().devices[0]
    assert device.memory_used_bytes is not None
    assert device.memory_unaccounted_bytes is None


def test_processes_carry_the_time_of_their_listing(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    first = machine.read()
    assert first.listed_at == {7: machine.now}
    assert machine.read(after=1.0).listed_at == first.listed_at
    assert machine.read(after=1.0).listed_at == {7: machine.now}


def test_a_process_on_all_gpus_is_one_process() -> None:
    reading = Machine("pcie-1080ti").read()
    (devices,) = (devices for devices in reading.processes.values() if len(devices) == 8)
    assert [device.index for device in devices] == list(range(8))


def test_processes_of_mig_instances_name_the_instance() -> None:
    reading = Machine("mig").read()
    instances = {device.uuid for device in reading.devices if device.is_mig}
    on_instances = [e for p in reading.processes.values() for e in p if e.gpu_instance_id]
    assert on_instances
    assert {entry.uuid for entry in on_instances} <= instances


def test_processes_that_cannot_be_listed_are_unknown_not_none(machine: Machine) -> None:
    name = "nvmlDeviceGetComputeRunningProcesses_v3"
    machine.driver.replaced[name] = machine.driver.error(codes.NO_PERMISSION)
    reading = machine.read()
    (fault,) = reading.faults
    assert (fault.source, fault.code) == ("processes", codes.NO_PERMISSION)
    assert fault.uuid == reading.devices[0].uuid
    assert reading.devices[0].memory_unaccounted_bytes is None


def utilization(machine: Machine, *samples: Sample) -> None:
    machine.driver.replaced["nvmlDeviceGetProcessUtilization"] = lambda *_: list(samples)


def now_us(machine: Machine) -> int:
    return int((machine.now + 0.5) * 1e6)


def test_utilization_is_the_highest_new_sample(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    later = now_us(machine)
    utilization(machine, Sample(7, later, 40), Sample(7, later + 1, 30))
    assert only(machine.read(), 7).sm_utilization_percent == 40


def test_garbage_samples_are_dropped(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    later = now_us(machine)
    utilization(
        machine,
        Sample(7, later, 37100),
        Sample(7, later + 1, 2147483632),
        Sample(99, later, 50),
        Sample(0, 0, 50),
        Sample(7, 1, 90),
    )
    reading = machine.read()
    assert only(reading, 7).sm_utilization_percent is None
    assert set(reading.processes) == {7}


def test_a_sample_of_the_future_is_garbage_and_hides_none_that_follow(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    utilization(machine, Sample(7, 2**63, 40))
    assert only(machine.read(), 7).sm_utilization_percent is None
    utilization(machine, Sample(7, now_us(machine), 60))
    assert only(machine.read(after=2.0), 7).sm_utilization_percent == 60


def test_a_wall_clock_that_is_set_back_hides_no_sample(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    utilization(machine, Sample(7, now_us(machine), 40))
    machine.read()
    machine.wall_seconds_ahead = -3600.0
    utilization(machine, Sample(7, now_us(machine) - 3599 * 10**6, 60))
    assert only(machine.read(after=2.0), 7).sm_utilization_percent == 60


def test_processes_that_were_once_not_supported_are_asked_of_a_gpu_that_comes_back(
    machine: Machine,
) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    fail = machine.driver.error(codes.NOT_SUPPORTED)
    machine.driver.replaced["nvmlDeviceGetProcessUtilization"] = fail
    machine.driver.replaced["nvmlDeviceGetGraphicsRunningProcesses_v3"] = fail
    assert set(machine.read().processes) == {7}
    machine.driver.replaced["nvmlDeviceGetUtilizationRates"] = machine.driver.error(
        codes.GPU_IS_LOST
    )
    assert not machine.read().processes
    del machine.driver.replaced["nvmlDeviceGetUtilizationRates"]
    list_processes(machine, "Graphics", Entry(8, 1))
    utilization(machine, Sample(7, now_us(machine) + 60 * 10**6, 40))
    reading = machine.read(after=62.0)
    assert set(reading.processes) == {7, 8}
    assert only(reading, 7).sm_utilization_percent == 40


@pytest.mark.parametrize(("code", "percent"), [(codes.NOT_FOUND, 0), (codes.NOT_SUPPORTED, None)])
def test_no_new_sample_is_an_idle_process_and_an_unknown_one_none(
    machine: Machine, code: int, percent: int | None
) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    machine.driver.replaced["nvmlDeviceGetProcessUtilization"] = machine.driver.error(code)
    assert only(machine.read(), 7).sm_utilization_percent == percent


def test_a_sample_is_counted_once(machine: Machine) -> None:
    list_processes(machine, "Compute", Entry(7, 1))
    utilization(machine, Sample(7, now_us(machine), 40))
    machine.read()
    assert only(machine.read(after=5.0), 7).sm_utilization_percent == 0


def test_the_answers_shape_is_that_of_pynvml() -> None:
    import pynvml

    fields: dict[str, Any] = dict(pynvml.c_nvmlProcessInfo_v2_t._fields_)
    assert {"pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId"} <= set(fields)
