from __future__ import annotations

from gpudash.analysis.table import device_rows, process_rows, sm_utilization_percent
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)


def test_age_is_told_from_when_the_snapshot_was_taken() -> None:
    started = make_snapshot().taken_at.timestamp() - 90
    processes = (make_process(create_time=started), make_process(create_time=None))
    rows = process_rows(make_snapshot(processes=processes))
    assert [row.age_seconds for row in rows] == [90, None]


def test_rows_carry_the_labels_of_their_devices() -> None:
    instance = make_device(index=1, uuid="MIG-a", parent_uuid=gpu_uuid(0))
    share = make_process_device(index=0, uuid="MIG-a")
    snapshot = make_snapshot(
        devices=(make_device(index=0), instance), processes=(make_process(devices=(share,)),)
    )
    assert [row.label for row in device_rows(snapshot)] == ["0", "0:1"]
    assert [row.gpus for row in process_rows(snapshot)] == ["0:1"]


def test_sm_utilization_is_the_sum_of_what_is_known() -> None:
    shares = [
        make_process_device(index=i, sm_utilization_percent=v) for i, v in enumerate((90, 80, None))
    ]
    assert sm_utilization_percent(make_process(devices=tuple(shares))) == 170
    assert sm_utilization_percent(make_process(devices=(shares[2],))) is None


def test_memory_share_is_of_all_the_devices_that_a_process_uses() -> None:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=20 * GIB) for i in (0, 1))
    unknown = make_process_device(index=9, uuid="GPU-gone")
    processes = (make_process(devices=shares), make_process(pid=2, devices=(unknown,)))
    rows = process_rows(make_snapshot(2, processes=processes))
    assert [row.gpu_memory_percent for row in rows] == [25.0, None]


def test_idle_time_comes_from_who_knows_the_past() -> None:
    (row,) = process_rows(make_snapshot(), lambda process: float(process.pid))
    assert row.idle_seconds == 4242.0
    assert process_rows(make_snapshot())[0].idle_seconds is None
