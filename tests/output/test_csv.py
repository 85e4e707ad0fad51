import csv
import io

from hypothesis import given

from gpudash.collect.local import open_simulated
from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from gpudash.output.csv import render
from tests.factories import make_device, make_snapshot
from tests.strategies import snapshots


def read(snapshot: Snapshot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render(snapshot))))


def test_a_row_per_device_under_our_names() -> None:
    device = make_device(name="NVIDIA, Inc", clocks_event_reasons=("sw-power-cap", "hw-slowdown"))
    (row,) = read(make_snapshot(devices=(device,)))
    assert row["hostname"] == "node7"
    assert row["name"] == "NVIDIA, Inc"
    assert row["power_usage_mw"] == "412300"
    assert row["fan_speed_percent"] == ""
    assert row["ecc_mode"] == "true"
    assert row["clocks_event_reasons"] == "sw-power-cap hw-slowdown"


def test_instances_of_two_gpus_are_told_apart() -> None:
    rows = read(open_simulated("mig").sample())
    assert [row["label"] for row in rows] == ["0", "0:0", "0:1", "0:3", "1"]


@given(snapshots())
def test_any_snapshot_is_a_table(snapshot: Snapshot) -> None:
    rows = read(snapshot)
    assert len(rows) == len(snapshot.devices)
    assert all(len(row) == len(Device.__struct_fields__) + 2 for row in rows)
