from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.model.device import GPM_PERCENTS, GPM_RATES
from tests.collect.nvml.tampering import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine("dgx-h100")


def test_the_second_sample_tells_what_the_sms_did(machine: Machine) -> None:
    first, second = machine.read().devices[0], machine.read().devices[0]
    assert first.sm_active_percent is None
    assert second.sm_active_percent is not None
    assert 0 < second.sm_active_percent <= 100
    assert second.tensor_active_percent == pytest.approx(
        second.sm_active_percent * 0.52 / 0.86, abs=0.2
    )
    assert second.fp64_active_percent is None


def test_a_chip_without_it_is_asked_once() -> None:
    machine = Machine("single")
    device = machine.device_after(3)
    assert all(getattr(device, field) is None for field in GPM_PERCENTS.values())
    assert machine.driver.asked.count("nvmlGpmQueryDeviceSupport") == 1
    assert "nvmlGpmSampleGet" not in machine.driver.asked


@pytest.mark.parametrize("name", ["nvmlGpmQueryDeviceSupport", "nvmlGpmQueryIfStreamingEnabled"])
def test_a_question_that_failed_is_asked_again(name: str, machine: Machine) -> None:
    machine.driver.replaced[name] = machine.driver.error(codes.UNKNOWN)
    machine.read()
    assert machine.read().devices[0].sm_active_percent is None
    del machine.driver.replaced[name]
    machine.read()
    assert machine.read().devices[0].sm_active_percent is not None


def test_an_older_driver_always_streams(machine: Machine) -> None:
    name = "nvmlGpmQueryIfStreamingEnabled"
    machine.driver.replaced[name] = machine.driver.error(codes.FUNCTION_NOT_FOUND)
    machine.read()
    assert machine.read().devices[0].sm_active_percent is not None


def test_two_samples_last_for_ever(machine: Machine) -> None:
    machine.device_after(10)
    assert machine.driver.asked.count("nvmlGpmSampleAlloc") == 2 * len(machine.read().devices)
    machine.reader.close()
    assert machine.driver.asked.count("nvmlGpmSampleFree") == 2 * 8


def test_counters_that_are_said_to_be_off_count_all_the_same(machine: Machine) -> None:
    """As on an H200 under driver 580, which answers 0 to the question and reads them right."""
    machine.driver.replaced["nvmlGpmQueryIfStreamingEnabled"] = lambda *_: 0
    machine.read()
    assert (machine.read().devices[0].sm_active_percent or 0) > 0


def test_counters_that_are_off_and_stand_still_are_no_zero(machine: Machine) -> None:
    metrics = [SimpleNamespace(nvmlReturn=0, value=0.0) for _ in (*GPM_PERCENTS, *GPM_RATES)]
    machine.driver.replaced["nvmlGpmMetricsGet"] = lambda _: SimpleNamespace(metrics=metrics)
    machine.driver.replaced["nvmlGpmQueryIfStreamingEnabled"] = lambda *_: 0
    machine.read()
    assert machine.read().devices[0].sm_active_percent is None
    metrics[0].value = 3.0
    assert machine.read().devices[0].sm_active_percent == 0
    metrics[0].value = 0.0
    assert machine.read().devices[0].sm_active_percent == 0


def test_ticks_closer_than_the_driver_renews_keep_the_value(machine: Machine) -> None:
    machine.read()
    before = machine.read().devices[0]
    asked = machine.driver.asked.count("nvmlGpmSampleGet")
    assert machine.read(after=0.05).devices[0].sm_active_percent == before.sm_active_percent
    assert machine.driver.asked.count("nvmlGpmSampleGet") == asked


def test_a_sample_that_fails_costs_only_its_values(machine: Machine) -> None:
    machine.read()
    machine.driver.replaced["nvmlGpmSampleGet"] = machine.driver.error(codes.NO_PERMISSION)
    device = machine.read().devices[0]
    assert device.sm_active_percent is None
    assert device.gpu_utilization_percent is not None
    del machine.driver.replaced["nvmlGpmSampleGet"]
    assert machine.read().devices[0].sm_active_percent is not None


def test_each_mig_instance_tells_its_own() -> None:
    machine = Machine("mig")
    sampled: dict[int, int] = {}

    def sample(_: Any, instance: int, into: SimpleNamespace) -> SimpleNamespace:
        sampled[id(into)] = instance
        return into

    def averages(request: Any) -> SimpleNamespace:
        share = float(sampled[id(request.sample2)])
        metrics = [SimpleNamespace(nvmlReturn=0, value=share) for _ in (*GPM_PERCENTS, *GPM_RATES)]
        return SimpleNamespace(metrics=metrics)

    machine.driver.replaced.update(
        nvmlGpmQueryDeviceSupport=lambda *_: SimpleNamespace(isSupportedDevice=1),
        nvmlGpmMigSampleGet=sample,
        nvmlGpmMetricsGet=averages,
    )
    machine.read()
    instances = [device for device in machine.read().devices if device.is_mig]
    assert len({instance.sm_active_percent for instance in instances}) == len(instances)
    assert all(i.sm_active_percent == i.gpu_instance_id for i in instances)
    machine.reader.close()
    freed = machine.driver.asked.count("nvmlGpmSampleFree")
    assert freed == machine.driver.asked.count("nvmlGpmSampleAlloc")


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1.0, 4e9])
def test_an_impossible_share_is_none(garbage: float, machine: Machine) -> None:
    metrics = [SimpleNamespace(nvmlReturn=0, value=garbage) for _ in (*GPM_PERCENTS, *GPM_RATES)]
    machine.driver.replaced["nvmlGpmMetricsGet"] = lambda *_: SimpleNamespace(metrics=metrics)
    machine.read()
    assert machine.read().devices[0].sm_active_percent is None
