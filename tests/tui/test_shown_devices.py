from gpudash.model.snapshot import Snapshot
from gpudash.tui.shown_devices import ShownDevices
from tests.factories import gpu_uuid, make_device, make_snapshot


def labels(shown: ShownDevices, snapshot: Snapshot) -> list[str]:
    return [row.label for row in shown.rows(snapshot)]


def test_hides_and_shows_a_gpu() -> None:
    shown, snapshot = ShownDevices(), make_snapshot(4)
    assert shown.mark(snapshot) == ""
    shown.toggle(1, snapshot)
    assert labels(shown, snapshot) == ["0", "2", "3"]
    assert shown.mark(snapshot) == "GPU 0,2-3 of 4"
    shown.toggle(1, snapshot)
    assert labels(shown, snapshot) == ["0", "1", "2", "3"]


def test_to_hide_the_last_one_shows_all() -> None:
    shown, snapshot = ShownDevices(), make_snapshot(2)
    shown.toggle(0, snapshot)
    shown.toggle(1, snapshot)
    assert labels(shown, snapshot) == ["0", "1"]


def test_only_one_is_shown() -> None:
    shown, snapshot = ShownDevices(), make_snapshot(12)
    shown.only(11, snapshot)
    assert shown.mark(snapshot) == "GPU 11 of 12"
    assert shown.count(snapshot) == 1
    shown.show_all()
    assert shown.count(snapshot) == 12


def test_mig_instances_go_with_their_gpu() -> None:
    slices = [
        make_device(index=number, uuid=f"MIG-{number}", parent_uuid=gpu_uuid(1))
        for number in (0, 1)
    ]
    devices = (make_device(index=0), make_device(index=1), *slices)
    snapshot, shown = make_snapshot(0, devices=devices), ShownDevices()
    assert labels(shown, snapshot) == ["0", "1", "1:0", "1:1"]
    shown.toggle(0, snapshot)
    assert labels(shown, snapshot) == ["1", "1:0", "1:1"]
    assert shown.mark(snapshot) == "GPU 1 of 2"
