"""What is read for a first picture, and that the whole follows without asking twice."""

import threading
import time
from collections import Counter
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.worker import STREAM_TIMEOUTS, DriverWorker
from tests.collect.nvml.tampering import Machine

SHOWN = (
    "name",
    "uuid",
    "gpu_utilization_percent",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_usage_mw",
    "enforced_power_limit_mw",
    "temperature_celsius",
)


@pytest.mark.parametrize("name", ["dgx-h100", "pcie-1080ti"])
def test_a_brief_sample_has_what_a_first_picture_shows_in_few_calls(name: str) -> None:
    machine = Machine(name)
    brief = machine.reader.read(brief=True)
    assert all(getattr(gpu, field) is not None for gpu in brief.devices for field in SHOWN)
    assert brief.processes
    assert brief.topology is None
    assert len(machine.driver.asked) <= 10 + 25 * len(brief.devices)


def test_the_whole_follows_without_asking_again_what_does_not_change() -> None:
    machine = Machine("dgx-h100")
    machine.reader.read(brief=True)
    whole = machine.reader.read()
    asked = Counter(machine.driver.asked)
    assert [asked[f"nvmlDeviceGet{name}"] for name in ("UUID", "Name", "Serial")] == [8, 8, 8]
    assert asked["nvmlDeviceGetComputeRunningProcesses_v3"] == 8
    assert whole.topology is not None
    apart = Machine("dgx-h100").reader.read()
    assert [gpu.nvlink_count for gpu in whole.devices] == [18] * 8
    assert set(whole.processes) == set(apart.processes)
    assert whole.devices[0].serial == apart.devices[0].serial


def test_mig_instances_are_in_a_brief_sample() -> None:
    machine = Machine("mig")
    brief = [gpu.uuid for gpu in machine.reader.read(brief=True).devices if gpu.is_mig]
    assert brief == [gpu.uuid for gpu in machine.reader.read().devices if gpu.is_mig]
    assert brief


def test_a_gpu_that_is_gone_is_so_in_a_brief_sample() -> None:
    assert "lost" in {gpu.state for gpu in Machine("lost").reader.read(brief=True).devices}


def test_values_of_a_brief_sample_are_not_those_of_a_gpu_that_hangs_in_the_whole_one() -> None:
    hangs, gate, ahead = threading.Event(), threading.Event(), [0.0]

    def wait(condition: threading.Condition, seconds: float) -> None:
        if hangs.is_set():
            ahead[0] += seconds
        else:
            condition.wait(0.01)

    def hang(handle: Any) -> Any:
        hangs.set()
        gate.wait(30)

    worker = DriverWorker(STREAM_TIMEOUTS, clock=lambda: time.monotonic() + ahead[0], wait=wait)
    machine = Machine("single", worker)
    machine.driver.replaced["nvmlDeviceGetSerial"] = hang
    try:
        assert machine.reader.read(brief=True).devices[0].state == "ok"
        (device,) = machine.reader.read().devices
    finally:
        gate.set()
        worker.close()
    assert (device.state, device.memory_used_bytes) == ("not-answering", None)
    assert device.fault.code == codes.TIMEOUT
