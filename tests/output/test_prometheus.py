from typing import get_args

import pytest
from hypothesis import given
from hypothesis.strategies import sampled_from
from msgspec.structs import replace
from prometheus_client.parser import text_string_to_metric_families

from gpudash.analysis.usage import users
from gpudash.model.device import Device, device_fields
from gpudash.model.fault import Fault, XidEvent
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.output.prometheus import DcgmNames, render
from tests.factories import gpu_uuid, make_device, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots


def read(
    snapshot: Snapshot, names: DcgmNames = "legacy"
) -> dict[str, list[tuple[dict[str, str], float]]]:
    """Samples by metric, as Prometheus' own parser reads them."""
    found: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(render(snapshot, names)):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((sample.labels, sample.value))
    return found


def test_names_of_dcgm_and_our_own() -> None:
    found = read(make_snapshot(2))
    labels, value = found["DCGM_FI_DEV_FB_USED"][1]
    assert value == 40960
    assert (labels["gpu"], labels["UUID"], labels["Hostname"]) == ("1", gpu_uuid(1), "node7")
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


@given(snapshots(), sampled_from(get_args(DcgmNames)))
def test_any_snapshot_can_be_scraped(snapshot: Snapshot, names: DcgmNames) -> None:
    assert "gpudash_up" in read(snapshot, names)


@pytest.mark.parametrize(
    ("names", "versions"), [("legacy", (0,)), ("4.9", (-1,)), ("both", (0, -1))]
)
def test_every_declared_name_of_dcgm_is_exported_with_its_type(
    names: DcgmNames, versions: tuple[int, ...]
) -> None:
    known = {field.name: 7 for field in device_fields().values() if field.dcgm}
    device = Device(index=0, xid_events=(), **known)
    lines = render(make_snapshot(devices=(device,)), names).splitlines()
    xid = {0: "DCGM_FI_DEV_XID_ERRORS", -1: "DCGM_FI_DEV_XID_ERROR"}
    declared = {xid[which]: "gauge" for which in versions}
    for field in device_fields().values():
        for which in versions if field.dcgm else ():
            declared[field.dcgm[which]] = "counter" if field.counter else "gauge"
    exported = [line.split()[2:] for line in lines if line.startswith("# TYPE DCGM")]
    assert dict(exported) == declared
    assert len(exported) == len(declared)


def test_dcgm_has_units_of_its_own() -> None:
    device = make_device(power_usage_mw=412_300, memory_used_bytes=3 << 20, sm_active_percent=50.0)
    found = read(make_snapshot(devices=(device,)))
    assert found["DCGM_FI_DEV_POWER_USAGE"][0][1] == 412.3
    assert found["DCGM_FI_DEV_FB_USED"][0][1] == 3
    assert found["DCGM_FI_PROF_SM_ACTIVE"][0][1] == 0.5


def test_since_4_9_dcgm_has_base_units() -> None:
    device = make_device(
        power_usage_mw=412_300,
        memory_used_bytes=3 << 20,
        gpu_utilization_percent=37,
        sm_clock_mhz=1755,
        total_energy_mj=5_000,
        pcie_tx_bytes_per_second=1 << 20,
    )
    found = read(make_snapshot(devices=(device,)), "4.9")
    assert {name: found[name][0][1] for name in found if name in EXPECTED} == EXPECTED
    assert "DCGM_FI_DEV_GPU_UTIL" not in found


EXPECTED = {
    "DCGM_FI_DEV_BOARD_POWER_WATTS": 412.3,
    "DCGM_FI_DEV_FB_USED_BYTES": 3 << 20,
    "DCGM_FI_DEV_GPU_UTIL_RATIO": 0.37,
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": 1_755_000_000,
    # The parser appends the ending that it wants of counters.
    "DCGM_FI_DEV_GPU_ENERGY_JOULES_TOTAL_total": 5,
    "DCGM_FI_PROF_PCIE_TX_BYTES": 1 << 20,
}


def test_a_mig_instance_is_named_by_its_gpu_and_profile() -> None:
    gpu = make_device(index=3, mig_mode=True)
    instance = make_device(
        uuid="MIG-1",
        parent_uuid=gpu.uuid,
        name="NVIDIA A100 MIG 1g.5gb",
        gpu_instance_id=9,
        minor_number=3,
    )
    found = read(make_snapshot(devices=(gpu, instance)))
    labels = found["DCGM_FI_DEV_FB_USED"][1][0]
    named = [labels[name] for name in ("gpu", "device", "GPU_I_PROFILE", "GPU_I_ID")]
    assert named == ["3", "nvidia3", "1g.5gb", "9"]


def test_the_last_xid_is_exported() -> None:
    events = (XidEvent(code=31, seen_at=1.0), XidEvent(code=79, seen_at=2.0))
    devices = make_device(xid_events=()), make_device(index=1, xid_events=events)
    found = read(make_snapshot(devices=devices))["DCGM_FI_DEV_XID_ERRORS"]
    assert [(labels["err_code"], value) for labels, value in found] == [("0", 0), ("79", 79)]


def test_users_have_totals_and_no_processes() -> None:
    snapshot = make_snapshot(2)
    found = read(snapshot)
    held = {labels["user"]: value for labels, value in found["gpudash_user_memory_bytes"]}
    for user in users(snapshot):
        assert held[user.name or ""] == user.memory_used_bytes
    assert not {"pid", "command"} & {key for s in found.values() for each, _ in s for key in each}


def test_of_the_gpus_of_a_user_it_is_counted_how_many_are_held_idle_or_not_known() -> None:
    devices = (
        make_device(status="held-idle"),
        make_device(index=1, status="in-use", gpu_utilization_percent=None),
        make_device(index=2, status="busy"),
    )
    everywhere = tuple(make_process_device(index=index) for index in range(3))
    ann, ben = make_process(devices=everywhere), make_process(pid=5, devices=everywhere[2:])
    share = make_process_device(type="G", used_gpu_memory_bytes=1 << 20)
    gdm = make_process(pid=6, username=clean("gdm"), devices=(share,))
    processes = replace(ann, username=clean("ann")), replace(ben, username=clean("ben")), gdm
    # By its state the last is held, though no process of it is listed.
    devices = (*devices, make_device(index=3, status="busy"))
    found = read(make_snapshot(devices=devices, processes=processes, findings=()))
    for name, *values in (
        ("held_gpus", 3, 1, 0, 1),
        ("idle_gpus", 1, 0, 0, 0),
        ("unknown_gpus", 1, 0, 0, 0),
        ("gpu_shares", 2.5, 0.5, 0, 1),
    ):
        by_user = {labels["user"]: value for labels, value in found[f"gpudash_user_{name}"]}
        assert by_user == dict(zip(("ann", "ben", "gdm", ""), values, strict=True))
    on = {labels["user"]: value for labels, value in found["gpudash_user_gpus"]}
    assert on == {"ann": 3, "ben": 1, "gdm": 1}
    held = found["gpudash_gpu_held"]
    does = {labels["gpu"]: labels["activity"] for labels, is_true in held if is_true}
    assert does == {"0": "idle", "1": "unknown", "2": "works", "3": "works"}
