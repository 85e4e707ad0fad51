from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest

from gpudash.collect.nvml import codes
from tests.collect.nvml.tampering import Machine

UTILIZATION = "nvmlDeviceGetUtilizationRates"


def test_a_metric_that_is_no_longer_supported_shows_no_old_value(single: Machine) -> None:
    assert single.read().devices[0].power_usage_mw is not None
    single.driver.replaced["nvmlDeviceGetPowerUsage"] = single.driver.error(codes.NOT_SUPPORTED)
    assert single.read().devices[0].power_usage_mw is None
    assert single.read().devices[0].power_usage_mw is None


def test_a_fallback_shows_nothing_of_the_call_that_it_replaces(single: Machine) -> None:
    assert single.read().devices[0].memory_reserved_bytes is not None
    single.forget_memory_versions()
    device = single.read().devices[0]
    assert device.memory_used_bytes is not None
    assert device.memory_reserved_bytes is None


def test_a_call_of_another_version_is_replaced_by_the_older_one() -> None:
    machine = Machine("single")
    expected = machine.read().devices[0].temperature_celsius
    other = Machine("single")
    mismatch = other.driver.error(codes.ARGUMENT_VERSION_MISMATCH)
    other.driver.replaced["nvmlDeviceGetTemperatureV"] = mismatch
    assert other.read().devices[0].temperature_celsius == expected
    assert other.read().devices[0].temperature_celsius is not None
    assert other.driver.asked.count("nvmlDeviceGetTemperatureV") == 1


@pytest.mark.parametrize("garbage", [0xFFFFFFFF, -1, None])
def test_fans_without_number_are_counted_again(garbage: int | None) -> None:
    machine = Machine("single")
    expected = machine.read().devices[0].fan_speeds_percent
    other = Machine("single")
    fail = other.driver.error(codes.UNKNOWN)
    other.driver.replaced["nvmlDeviceGetNumFans"] = lambda _: fail() if garbage is None else garbage
    assert other.read().devices[0].fan_speeds_percent is None
    del other.driver.replaced["nvmlDeviceGetNumFans"]
    later = [other.read().devices[0].fan_speeds_percent for _ in range(3)][-1]
    assert expected is not None
    assert later is not None
    assert len(later) == len(expected)
    assert other.driver.asked.count("nvmlDeviceGetNumFans") == 2


def test_a_gpu_that_comes_back_is_asked_for_all_that_it_once_refused() -> None:
    fields = attrgetter("gpu_utilization_percent", "encoder_utilization_percent")
    machine = Machine("single")
    refuse = machine.driver.error(codes.NOT_SUPPORTED)
    for name in (UTILIZATION, "nvmlDeviceGetEncoderUtilization"):
        machine.driver.replaced[name] = refuse
    assert fields(machine.read().devices[0]) == (None, None)
    machine.driver.replaced["nvmlDeviceGetPowerUsage"] = machine.driver.error(codes.GPU_IS_LOST)
    assert machine.read().devices[0].state == "lost"
    machine.driver.replaced.clear()
    assert None not in fields(machine.read(after=60.0).devices[0])


def test_leaving_mig_mode_brings_back_what_it_took_away(dgx: Machine) -> None:
    dgx.driver.replaced[UTILIZATION] = dgx.driver.error(codes.NOT_SUPPORTED)
    dgx.driver.replaced["nvmlDeviceGetMigMode"] = lambda _: [1, 1]
    assert dgx.read().devices[0].gpu_utilization_percent is None
    del dgx.driver.replaced[UTILIZATION]
    dgx.driver.replaced["nvmlDeviceGetMigMode"] = lambda _: [0, 0]
    device = dgx.device_after(12)
    assert device.mig_mode is False
    assert device.gpu_utilization_percent is not None


def test_entering_mig_mode_shows_no_value_of_before(dgx: Machine) -> None:
    before = dgx.read().devices[0]
    assert before.gpu_utilization_percent is not None
    dgx.driver.replaced[UTILIZATION] = dgx.driver.error(codes.NOT_SUPPORTED)
    dgx.driver.replaced["nvmlDeviceGetMigMode"] = lambda _: [1, 1]
    seen = [dgx.read().devices[0] for _ in range(12)]
    assert seen[-1].mig_mode is True
    assert {device.gpu_utilization_percent for device in seen} == {None}
    assert {device.uuid for device in seen} == {before.uuid}


def test_a_fact_that_failed_once_is_asked_again(single: Machine) -> None:
    single.driver.replaced["nvmlDeviceGetUUID"] = single.driver.error(codes.UNKNOWN)
    assert single.read().devices[0].uuid is None
    del single.driver.replaced["nvmlDeviceGetUUID"]
    device = single.device_after(12)
    assert device.uuid is not None
    assert single.driver.asked.count("nvmlDeviceGetUUID") == 2


def test_facts_that_answered_are_not_asked_with_the_one_that_failed(single: Machine) -> None:
    single.driver.replaced["nvmlDeviceGetSerial"] = single.driver.error(codes.UNKNOWN)
    single.device_after(25)
    assert single.driver.asked.count("nvmlDeviceGetName") == 1
    assert single.driver.asked.count("nvmlDeviceGetSerial") == 3


def test_another_gpu_of_a_reloaded_driver_keeps_no_fact_of_the_one_before(single: Machine) -> None:
    before = single.read().devices[0]
    single.fail(codes.UNINITIALIZED)
    single.read()
    single.driver.replaced.clear()
    single.driver.replaced["nvmlDeviceGetUUID"] = lambda _: "GPU-another"
    refuse = single.driver.error(codes.NOT_SUPPORTED)
    single.driver.replaced["nvmlDeviceGetVbiosVersion"] = refuse
    after = single.read().devices[0]
    assert before.vbios_version is not None
    assert (after.uuid, after.vbios_version) == ("GPU-another", None)


def test_every_fan_keeps_its_place(single: Machine) -> None:
    def speed(_: object, fan: int) -> int:
        return single.driver.error(codes.UNKNOWN)() if fan == 0 else 55

    single.driver.replaced["nvmlDeviceGetNumFans"] = lambda _: 2
    single.driver.replaced["nvmlDeviceGetFanSpeed_v2"] = speed
    assert single.read().devices[0].fan_speeds_percent == (None, 55)


def test_fans_that_no_longer_answer_show_no_old_speed(single: Machine) -> None:
    assert single.read().devices[0].fan_speeds_percent is not None
    for name in ("nvmlDeviceGetFanSpeed", "nvmlDeviceGetFanSpeed_v2"):
        single.driver.replaced[name] = single.driver.error(codes.UNKNOWN)
    device = single.read(after=5.0).devices[0]
    assert device.fan_speed_percent is None
    assert device.fan_speeds_percent is None


@pytest.mark.parametrize("name", ["nvmlDeviceGetNumFans", "nvmlDeviceGetFanSpeed_v2"])
def test_a_fan_that_says_that_the_gpu_is_gone_is_believed(single: Machine, name: str) -> None:
    single.driver.replaced[name] = single.driver.error(codes.GPU_IS_LOST)
    assert single.read().devices[0].state == "lost"


def test_a_board_without_fans_is_asked_for_them_once(dgx: Machine) -> None:
    device = dgx.device_after(8)
    assert device.fan_speeds_percent is None
    assert dgx.driver.asked.count("nvmlDeviceGetNumFans") == 8
    assert "nvmlDeviceGetFanSpeed_v2" not in dgx.driver.asked


def test_the_energy_which_holds_the_driver_for_milliseconds_is_read_every_ten_seconds() -> None:
    machine = Machine("single")
    asked = machine.change_fields()
    times = []
    for _ in range(21):
        assert machine.read().devices[0].total_energy_mj is not None
        times.append(sum(83 in ids for ids in asked))
    assert times == [1] * 10 + [2] * 10 + [3]


def test_counters_of_pcie_are_read_only_where_nothing_else_has_its_rates(dgx: Machine) -> None:
    dgx.driver.replaced["nvmlDeviceGetCount"] = lambda: 1
    asked = dgx.change_fields()
    dgx.read()
    dgx.read()
    assert any(197 in ids for ids in asked)
    asked.clear()
    assert dgx.read().devices[0].pcie_tx_bytes_per_second is not None
    assert not any(197 in ids for ids in asked)
    dgx.driver.replaced["nvmlGpmSampleGet"] = dgx.driver.error(codes.UNKNOWN)
    dgx.read()
    dgx.read()
    assert any(197 in ids for ids in asked)


def test_fields_that_a_board_does_not_have_are_asked_once() -> None:
    machine = Machine("pcie-1080ti")
    machine.driver.replaced["nvmlDeviceGetCount"] = lambda: 1
    asked = machine.change_fields()
    device = machine.device_after(4)
    assert device.memory_temperature_celsius is None
    assert {82, 83, 193} <= set(asked[0])
    assert not {82, 83, 193} & set().union(*asked[1:])


def test_a_field_that_failed_for_another_reason_is_asked_again(dgx: Machine) -> None:
    def change(entry: Any) -> None:
        entry.nvmlReturn = codes.UNKNOWN if entry.fieldId in (82, 194) else entry.nvmlReturn

    dgx.change_fields(change)
    device = dgx.read().devices[0]
    assert (device.memory_temperature_celsius, device.slowdown_tlimit_celsius) == (None, None)
    assert device.shutdown_tlimit_celsius is not None
    asked = dgx.change_fields()
    device = dgx.device_after(12)
    assert device.memory_temperature_celsius is not None
    assert device.slowdown_tlimit_celsius is not None
    flat = [number for batch in asked for number in batch]
    assert flat.count(194) == 8
    assert flat.count(193) == 0


def test_a_gpu_that_needs_a_reset_names_the_one_to_be_reset() -> None:
    told = codes.device_message(3, codes.RESET_REQUIRED)
    assert told.endswith("sudo nvidia-smi --gpu-reset -i 3")


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


def test_a_failed_call_is_not_taken_for_shared_memory(single: Machine) -> None:
    single.driver.replaced[MEMORY] = single.driver.error(codes.NO_PERMISSION)
    device = single.read().devices[0]
    assert device.unified_memory is None
    assert device.memory_used_bytes is None
