"""What is read for a first picture, and that the whole follows without asking twice."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.worker import CallTimeouts, DriverWorker
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
    worker = DriverWorker(CallTimeouts(turn_seconds=0.2, call_seconds=0.4, first_call_seconds=0.4))
    machine, gate = Machine("dgx-h100", worker), threading.Event()
    serial = machine.host.library.nvmlDeviceGetSerial

    def hang(handle: Any) -> Any:
        if machine.host.library.nvmlDeviceGetIndex(handle) == 3:
            gate.wait(30)
        return serial(handle)

    machine.driver.replaced["nvmlDeviceGetSerial"] = hang
    try:
        assert machine.reader.read(brief=True).devices[3].state == "ok"
        whole = machine.reader.read().devices
    finally:
        gate.set()
        worker.close()
    assert [gpu.index for gpu in whole if gpu.state == "not-answering"] == [3]
    assert whole[3].memory_used_bytes is None
    assert whole[3].fault is not None
    assert whole[3].fault.code == codes.TIMEOUT
