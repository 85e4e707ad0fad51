from types import SimpleNamespace
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from gpudash.model.device import GPM_PERCENTS, GPM_RATES
from tests.collect.nvml.tampering import Machine


def test_the_second_sample_tells_what_the_sms_did(dgx: Machine) -> None:
    first, second = dgx.read().devices[0], dgx.read().devices[0]
    assert first.sm_active_percent is None
    assert second.sm_active_percent is not None
    assert 0 < second.sm_active_percent <= 100
    assert second.tensor_active_percent == pytest.approx(
        second.sm_active_percent * 0.52 / 0.86, abs=0.2
    )
    assert second.fp64_active_percent is None


def test_a_chip_without_it_is_asked_once(single: Machine) -> None:
    device = single.device_after(3)
    assert all(getattr(device, field) is None for field in GPM_PERCENTS.values())
    assert single.driver.asked.count("nvmlGpmQueryDeviceSupport") == 1
    assert "nvmlGpmSampleGet" not in single.driver.asked


@pytest.mark.parametrize("name", ["nvmlGpmQueryDeviceSupport", "nvmlGpmQueryIfStreamingEnabled"])
def test_a_question_that_failed_is_asked_again(name: str, dgx: Machine) -> None:
    dgx.driver.replaced[name] = dgx.driver.error(codes.UNKNOWN)
    dgx.read()
    assert dgx.read().devices[0].sm_active_percent is None
    del dgx.driver.replaced[name]
    dgx.read()
    assert dgx.read().devices[0].sm_active_percent is not None


def test_an_older_driver_always_streams(dgx: Machine) -> None:
    name = "nvmlGpmQueryIfStreamingEnabled"
    dgx.driver.replaced[name] = dgx.driver.error(codes.FUNCTION_NOT_FOUND)
    dgx.read()
    assert dgx.read().devices[0].sm_active_percent is not None


def test_two_samples_last_for_ever(dgx: Machine) -> None:
    dgx.device_after(10)
    assert dgx.driver.asked.count("nvmlGpmSampleAlloc") == 2 * len(dgx.read().devices)
    dgx.reader.close()
    assert dgx.driver.asked.count("nvmlGpmSampleFree") == 2 * 8


def test_counters_that_are_said_to_be_off_count_all_the_same(dgx: Machine) -> None:
    """As on an H200 under driver 580, which answers 0 to the question and reads them right."""
    dgx.driver.replaced["nvmlGpmQueryIfStreamingEnabled"] = lambda *_: 0
    dgx.read()
    assert (dgx.read().devices[0].sm_active_percent or 0) > 0


def test_counters_that_are_off_and_stand_still_are_no_zero(dgx: Machine) -> None:
    metrics = [SimpleNamespace(nvmlReturn=0, value=0.0) for _ in (*GPM_PERCENTS, *GPM_RATES)]
    dgx.driver.replaced["nvmlGpmMetricsGet"] = lambda _: SimpleNamespace(metrics=metrics)
    dgx.driver.replaced["nvmlGpmQueryIfStreamingEnabled"] = lambda *_: 0
    dgx.read()
    assert dgx.read().devices[0].sm_active_percent is None
    metrics[0].value = 3.0
    assert dgx.read().devices[0].sm_active_percent == 0
    metrics[0].value = 0.0
    assert dgx.read().devices[0].sm_active_percent == 0


def test_ticks_closer_than_the_driver_renews_keep_the_value(dgx: Machine) -> None:
    dgx.read()
    before = dgx.read().devices[0]
    asked = dgx.driver.asked.count("nvmlGpmSampleGet")
    assert dgx.read(after=0.05).devices[0].sm_active_percent == before.sm_active_percent
    assert dgx.driver.asked.count("nvmlGpmSampleGet") == asked


def test_a_sample_that_fails_costs_only_its_values(dgx: Machine) -> None:
    dgx.read()
    dgx.driver.replaced["nvmlGpmSampleGet"] = dgx.driver.error(codes.NO_PERMISSION)
    device = dgx.read().devices[0]
    assert device.sm_active_percent is None
    assert device.gpu_utilization_percent is not None
    del dgx.driver.replaced["nvmlGpmSampleGet"]
    assert dgx.read().devices[0].sm_active_percent is not None


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
def test_an_impossible_share_is_none(garbage: float, dgx: Machine) -> None:
    metrics = [SimpleNamespace(nvmlReturn=0, value=garbage) for _ in (*GPM_PERCENTS, *GPM_RATES)]
    dgx.driver.replaced["nvmlGpmMetricsGet"] = lambda *_: SimpleNamespace(metrics=metrics)
    dgx.read()
    assert dgx.read().devices[0].sm_active_percent is None
