from hypothesis import given
from prometheus_client.parser import text_string_to_metric_families

from gpudash.model.device import Device, device_fields
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.output.prometheus import render
from tests.factories import gpu_uuid, make_device, make_snapshot
from tests.strategies import snapshots


def read(snapshot: Snapshot) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric, as Prometheus' own parser reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(snapshot)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_names_of_dcgm_and_our_own() -> None:
    found = read(make_snapshot(2))
    labels, value = found["DCGM_FI_DEV_FB_USED"][1]
    assert value == 40960
    assert (labels["gpu"], labels["UUID"], labels["hostname"]) == ("1", gpu_uuid(1), "node7")
    assert found["DCGM_FI_DEV_POWER_USAGE"][0][1] == 412.3
    assert found["gpudash_power_usage_mw"][0][1] == 412_300
    assert found["gpudash_up"] == [({}, 1)]


def test_what_is_not_known_is_left_out() -> None:
    found = read(make_snapshot(devices=(make_device(fan_speed_percent=None),)))
    assert "gpudash_fan_speed_percent" not in found


def test_a_lost_gpu_has_a_state_and_no_numbers() -> None:
    fault = Fault(source="nvml", message="lost", uuid=gpu_uuid(0), code=15)
    blank = {name: None for name in make_device().__struct_fields__ if name.endswith("_percent")}
    lost = make_device(state="lost", fault=fault, **blank)
    found = read(make_snapshot(devices=(lost,)))
    states = {labels["state"]: value for labels, value in found["gpudash_gpu_state"]}
    assert (states["lost"], states["ok"]) == (1, 0)
    assert "DCGM_FI_DEV_GPU_UTIL" not in found


def test_a_driver_that_does_not_answer_is_down() -> None:
    fault = Fault(source="nvml", message="no answer", code=10)
    assert read(make_snapshot(devices=(), errors=(fault,)))["gpudash_up"] == [({}, 0)]


def test_hostile_labels_stay_labels() -> None:
    device = make_device(name='x"} evil 1\n# HELP \\')
    (labels, _), *_ = read(make_snapshot(devices=(device,)))["DCGM_FI_DEV_GPU_UTIL"]
    assert labels["modelName"] == 'x"} evil 1\n# HELP \\'


@given(snapshots())
def test_any_snapshot_can_be_scraped(snapshot: Snapshot) -> None:
    assert "gpudash_up" in read(snapshot)


def test_every_declared_name_of_dcgm_is_exported_with_its_type() -> None:
    known = {field.name: 7 for field in device_fields().values() if field.dcgm}
    lines = render(make_snapshot(devices=(Device(index=0, **known),))).splitlines()
    for field in device_fields().values():
        if field.dcgm is not None:
            kind = "counter" if field.counter else "gauge"
            assert f"# TYPE {field.dcgm} {kind}" in lines
    exported = {line.split()[2] for line in lines if line.startswith("# TYPE DCGM")}
    assert exported == {field.dcgm for field in device_fields().values() if field.dcgm}


def test_dcgm_has_units_of_its_own() -> None:
    device = make_device(power_usage_mw=412_300, memory_used_bytes=3 << 20, sm_active_percent=50.0)
    found = read(make_snapshot(devices=(device,)))
    assert found["DCGM_FI_DEV_POWER_USAGE"][0][1] == 412.3
    assert found["DCGM_FI_DEV_FB_USED"][0][1] == 3
    assert found["DCGM_FI_PROF_SM_ACTIVE"][0][1] == 0.5
