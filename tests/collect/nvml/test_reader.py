import re

import pytest

from gpudash.collect.nvml import calls, codes, links, rates
from gpudash.collect.nvml import rates as counters
from gpudash.collect.simulated import NAMES, SimulatedHost
from gpudash.model import wire
from gpudash.model.details import DetailedDevice
from gpudash.model.device import GPM_PERCENTS, GPM_RATES, Device
from gpudash.model.fields import declared_fields
from tests.collect.nvml.tampering import Machine


@pytest.mark.parametrize("name", NAMES)
def test_every_simulated_host_becomes_a_document(name: str) -> None:
    from gpudash.collect.local import LocalSource

    machine = Machine(name)
    source = LocalSource(machine.reader, machine.host.reader, lambda: machine.now)
    snapshot = source.sample()
    assert wire.decode(wire.encode(snapshot)) == snapshot
    assert snapshot.devices
    assert snapshot.host.simulated


@pytest.mark.parametrize("name", ["lost", "laptop"])
def test_a_gpu_that_cannot_be_read_has_its_address_in_the_form_of_the_others(name: str) -> None:
    for device in Machine(name).read().devices:
        assert re.fullmatch(r"[0-9A-F]{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0", device.pci_bus_id or "")


def fields_of_the_tables() -> set[str]:
    groups = *calls.POLL_GROUPS, *calls.INSTANCE_POLL_GROUPS, calls.INSTANCE_DETAILS
    lanes = [r for lane, _ in groups for r in lane]
    tables = [*lanes, *(r.fallback for r in lanes if r.fallback)]
    read = {field for reading in tables for field, _ in reading.fields}
    read |= {value.field for value in calls.FIELD_VALUES}
    read |= {counter.field for counter in counters.COUNTERS}
    read |= {field for kind in links.KINDS for field in (kind.total, kind.rate)}
    read |= {*rates.REASONS.values(), *links.FABRIC_FIELDS, *links.LINK_FIELDS}
    return read | set(GPM_PERCENTS.values()) | set(GPM_RATES.values())


def test_a_field_that_is_read_is_declared() -> None:
    assert fields_of_the_tables() <= set(DetailedDevice.__struct_fields__)


def test_a_field_with_an_nvml_call_is_read() -> None:
    read = {"index", "fan_speeds_percent", "pcie_replays_per_second", "unified_memory"}
    read |= {"xid_events", "ecc_locations", "retired_pages", "accounted_processes"}
    read |= {"supported_clocks", "gsp_mode", "default_gsp_mode", "nvlinks"}
    read |= {"sram_errors", "inforom_valid"}
    read |= fields_of_the_tables() & set(Device.__struct_fields__)
    fields = wire.json_schema()["$defs"]["Device"]["properties"]
    assert {name for name, field in fields.items() if "x-nvml" in field} == read
    detailed = {each.name for each in declared_fields(DetailedDevice) if each.nvml}
    assert detailed - read - fields_of_the_tables() == {"mig_layout", "sample_buffers"}


def test_a_metric_that_fails_costs_only_itself_and_is_asked_again(dgx: Machine) -> None:
    healthy = dgx.read().devices[0]
    dgx.driver.replaced["nvmlDeviceGetPowerUsage"] = dgx.driver.error(codes.UNKNOWN)
    device = dgx.read().devices[0]
    assert healthy.power_usage_mw is not None
    assert device.power_usage_mw is None
    assert device.state == "ok"
    assert device.temperature_celsius is not None
    del dgx.driver.replaced["nvmlDeviceGetPowerUsage"]
    assert dgx.read().devices[0].power_usage_mw is not None


def test_an_unsupported_metric_is_asked_once(single: Machine) -> None:
    single.driver.replaced["nvmlDeviceGetPowerUsage"] = single.driver.error(codes.NOT_SUPPORTED)
    single.device_after(3)
    assert single.driver.asked.count("nvmlDeviceGetPowerUsage") == 1


def test_an_old_driver_is_read_through_the_older_calls(single: Machine) -> None:
    expected = single.read().devices[0]
    old = Machine("single")
    for name in ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"):
        old.driver.replaced[name] = old.driver.error(codes.FUNCTION_NOT_FOUND)
    device = old.read().devices[0]
    assert device.temperature_celsius == expected.temperature_celsius
    assert device.clocks_event_reasons == expected.clocks_event_reasons


def test_a_lost_gpu_keeps_its_row_and_the_others_are_complete() -> None:
    devices = Machine("lost").read().devices
    lost = [device for device in devices if device.state == "lost"]
    assert [device.index for device in lost] == [2]
    assert lost[0].fault.code == codes.GPU_IS_LOST
    assert lost[0].gpu_utilization_percent is None
    assert all(d.gpu_utilization_percent is not None for d in devices if d.state == "ok")


def test_a_gpu_that_stays_broken_keeps_its_identity(dgx: Machine) -> None:
    before = dgx.read().devices[0]
    fail = dgx.driver.error(codes.UNKNOWN)
    counting = {"nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex"}
    for name in set(dgx.driver.asked) - counting:
        if name.startswith("nvmlDeviceGet"):
            dgx.driver.replaced[name] = fail
    assert before.serial is not None
    for _ in range(3):
        after = dgx.read(after=calls.RETRY_SECONDS + 1).devices[0]
        assert after.state == "failed"
        assert (after.uuid, after.serial) == (before.uuid, before.serial)
        assert after.fault.uuid == before.uuid


def test_another_gpu_in_its_place_has_none_of_its_identity(dgx: Machine) -> None:
    dgx.read()
    replaced, utilization = dgx.driver.replaced, "nvmlDeviceGetUtilizationRates"
    replaced[utilization] = dgx.driver.error(codes.GPU_IS_LOST)
    dgx.read()
    del replaced[utilization]
    replaced["nvmlDeviceGetUUID"] = lambda _: "GPU-other"
    replaced["nvmlDeviceGetSerial"] = dgx.driver.error(codes.NOT_SUPPORTED)
    dgx.read(after=calls.RETRY_SECONDS + 1)
    replaced[utilization] = dgx.driver.error(codes.GPU_IS_LOST)
    device = dgx.read().devices[0]
    assert (device.state, device.uuid, device.serial) == ("lost", "GPU-other", None)


def test_a_gpu_lost_on_the_way_keeps_its_identity_but_no_value(single: Machine) -> None:
    before = single.read().devices[0]
    single.driver.replaced["nvmlDeviceGetUtilizationRates"] = single.driver.error(codes.GPU_IS_LOST)
    after = single.read().devices[0]
    assert (after.state, after.uuid, after.name) == ("lost", before.uuid, before.name)
    assert after.memory_used_bytes is None
    assert after.power_usage_mw is None


def test_a_sleeping_gpu_is_shown_and_not_woken() -> None:
    machine = Machine("laptop")
    device = machine.read().devices[0]
    assert device.state == "asleep"
    assert device.name is not None
    assert machine.driver.asked == []
    assert not machine.host.library.woken


def test_slow_metrics_are_asked_rarely_and_fast_ones_every_tick(single: Machine) -> None:
    for _ in range(8):
        single.read(after=1.0)
    asked = single.driver.asked.count
    assert asked("nvmlDeviceGetUtilizationRates") == 8
    assert asked("nvmlDeviceGetEncoderUtilization") == 4
    assert asked("nvmlDeviceGetComputeMode") == 1
    assert asked("nvmlDeviceGetName") == 1


def test_a_gpu_without_performance_counters_costs_at_most_twelve_calls_a_second() -> None:
    machine = Machine("dgx-h100")
    unsupported = machine.driver.error(codes.NOT_SUPPORTED)
    machine.driver.replaced["nvmlGpmQueryDeviceSupport"] = unsupported
    machine.read()
    machine.driver.asked.clear()
    machine.device_after(120)
    asked = machine.driver.asked
    assert len(asked) <= 12 * 8 * 120
    assert sum("RunningProcesses" in name for name in asked) <= 2 * 8 * 60


def test_mps_is_asked_for_when_compute_processes_change_and_while_it_has_some(dgx: Machine) -> None:
    dgx.driver.replaced["nvmlDeviceGetCount"] = lambda: 1
    compute, mps = (f"nvmlDeviceGet{kind}RunningProcesses_v3" for kind in ("Compute", "MPSCompute"))
    dgx.read()
    dgx.driver.asked.clear()
    dgx.device_after(10)
    assert dgx.driver.asked.count(compute) == 5
    assert dgx.driver.asked.count(mps) == 0
    handle = dgx.host.library.nvmlDeviceGetHandleByIndex(1)
    entry = getattr(dgx.host.library, compute)(handle)[0]
    dgx.driver.replaced.update(dict.fromkeys((compute, mps), lambda _: [entry]))
    for _ in range(6):
        sample = dgx.read()
    assert dgx.driver.asked.count(mps) == 3
    assert [[on.type for on in entries] for entries in sample.processes.values()] == [["M+C"]]


def test_at_most_one_field_values_batch_per_device_and_tick(single: Machine) -> None:
    single.read()
    single.driver.asked.clear()
    single.device_after(20)
    assert single.driver.asked.count("nvmlDeviceGetFieldValues") == 11


def test_a_reloaded_driver_is_opened_again(single: Machine) -> None:
    single.read()
    single.fail(codes.UNINITIALIZED)
    single.read()
    single.driver.replaced.clear()
    assert single.read().devices[0].state == "ok"
    assert single.driver.asked.count("nvmlInitWithFlags") == 2


def test_mig_instances_follow_their_parent() -> None:
    devices = Machine("mig").read().devices
    parent = devices[0]
    instances = [device for device in devices if device.parent_uuid == parent.uuid]
    assert parent.mig_mode is True
    assert len(instances) == 3
    assert devices[1 : 1 + len(instances)] == tuple(instances)
    assert all(i.memory_total_bytes and i.uuid for i in instances)
    assert all(i.gpu_utilization_percent is None for i in instances)


def test_versions_are_reported() -> None:
    versions = Machine("single").read().versions
    library = SimulatedHost("single").library
    library.nvmlInit()
    assert versions.driver_version == library.nvmlSystemGetDriverVersion()
    assert versions.cuda_driver_version == "13.0"
