from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from gpudash.columns import DEVICE_COLUMNS, PROCESS_COLUMNS
from gpudash.layout import fit
from gpudash.rows import device_rows, process_rows
from gpudash.snapshot import Device, Job, Process, Snapshot
from tests.factories import GIB, make_device, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots


def device_texts(device: Device) -> dict[str, str]:
    (row,) = device_rows(make_snapshot(devices=(device,)))
    return {column.key: column.text(row) for column in DEVICE_COLUMNS}


def process_texts(process: Process) -> dict[str, str]:
    (row,) = process_rows(make_snapshot(processes=(process,)))
    return {column.key: column.text(row) for column in PROCESS_COLUMNS}


def test_device_columns_read_like_a_sentence() -> None:
    assert device_texts(make_device(fan_speed_percent=35)) == {
        "index": "0",
        "name": "H100 80GB HBM3",
        "utilization": "87%",
        "memory": "40.0G/80.0G",
        "memory_percent": "50%",
        "temperature": "62C",
        "fan": "35%",
        "power": "412/700W",
        "sm_clock": "1755MHz",
        "performance_state": "P0",
        "status": "ok",
    }


def test_device_that_tells_nothing_shows_no_zeros() -> None:
    texts = device_texts(Device(index=3))
    assert texts.pop("index") == "3"
    assert set(texts.values()) == {"-"}


def test_limits_are_left_out_where_there_are_none() -> None:
    texts = device_texts(make_device(memory_total_bytes=None, enforced_power_limit_mw=None))
    assert (texts["memory"], texts["power"]) == ("40.0G", "412W")


def test_process_columns_read_like_a_sentence() -> None:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=8 * GIB) for i in (0, 2, 3))
    job = Job(kind="slurm", id="1392969", step="0")
    assert process_texts(make_process(devices=shares, job=job)) == {
        "pid": "4242",
        "user": "alice",
        "gpus": "0,2-3",
        "type": "C",
        "gpu_memory": "24.0G",
        "sm": "255%",
        "cpu": "100%",
        "resident_memory": "6.0G",
        "time": "84d18h",
        "job": "slurm:1392969.0",
        "command": "python train.py --batch 32",
    }


def test_hidden_process_keeps_its_memory() -> None:
    hidden = Process(
        pid=812, devices=(make_process_device(),), hidden_reason="of another namespace"
    )
    texts = process_texts(hidden)
    assert (texts["user"], texts["gpu_memory"]) == ("-", "40.0G")
    assert texts["command"] == "(of another namespace)"


@pytest.mark.parametrize(("sm", "level"), [(0, "warn"), (12, "ok"), (None, "unknown")])
def test_process_that_holds_without_computing_is_a_warning(sm: int | None, level: str) -> None:
    process = make_process(devices=(make_process_device(sm_utilization_percent=sm),))
    (row,) = process_rows(make_snapshot(processes=(process,)))
    levels = {column.key: column.level(row) for column in PROCESS_COLUMNS if column.level}
    assert levels["sm"] == level


@pytest.mark.parametrize("columns", [DEVICE_COLUMNS, PROCESS_COLUMNS])
def test_keys_are_unique(columns: tuple[Any, ...]) -> None:
    keys = [column.key for column in columns]
    assert len(keys) == len(set(keys))


def test_absent_values_sort_below_zero() -> None:
    devices = (Device(index=0), make_device(index=1, gpu_utilization_percent=0))
    (column,) = (column for column in DEVICE_COLUMNS if column.key == "utilization")
    absent, zero = (column.sort_key(row) for row in device_rows(make_snapshot(devices=devices)))
    assert absent < zero


@given(snapshots())
def test_every_column_sorts_any_snapshot(snapshot: Snapshot) -> None:
    for column in DEVICE_COLUMNS:
        sorted(device_rows(snapshot), key=column.sort_key)
    for process_column in PROCESS_COLUMNS:
        sorted(process_rows(snapshot), key=process_column.sort_key)


def test_narrow_rooms_keep_who_and_how_much() -> None:
    rows = process_rows(make_snapshot())
    shown = [place.column.key for place in fit(PROCESS_COLUMNS, rows, 40)]
    assert shown == ["pid", "user", "gpus", "gpu_memory", "command"]
