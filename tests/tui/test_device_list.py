from gpudash.model.snapshot import Snapshot
from gpudash.tui.device_list import DeviceList
from tests.factories import gpu_uuid, make_device, make_snapshot


def list_of(snapshot: Snapshot) -> DeviceList:
    devices = DeviceList()
    devices.fill(snapshot)
    return devices


def labels(devices: DeviceList) -> list[str]:
    return [row.label for row in devices.rows]


def test_to_hide_the_last_one_shows_all() -> None:
    devices = list_of(make_snapshot(2))
    devices.toggle(0)
    devices.toggle(1)
    assert labels(devices) == ["0", "1"]


def test_mig_instances_go_with_their_gpu() -> None:
    slices = [
        make_device(index=number, uuid=f"MIG-{number}", parent_uuid=gpu_uuid(1))
        for number in (0, 1)
    ]
    snapshot = make_snapshot(0, devices=(make_device(index=0), make_device(index=1), *slices))
    devices = list_of(snapshot)
    assert labels(devices) == ["0", "1", "1:0", "1:1"]
    devices.toggle(0)
    assert labels(devices) == ["1", "1:0", "1:1"]
    assert devices.mark == "GPU 1 of 2"
