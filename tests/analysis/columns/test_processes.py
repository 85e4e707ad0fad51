import pytest
from hypothesis import given

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.table import ProcessRow, fit, process_rows
from gpudash.model.process import Job, Process
from gpudash.model.snapshot import Snapshot
from tests.factories import GIB, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots


def texts(process: Process) -> dict[str, str]:
    (row,) = process_rows(make_snapshot(processes=(process,)))
    return {column.key: column.text(row) for column in PROCESS_COLUMNS}


def test_they_read_like_a_sentence() -> None:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=8 * GIB) for i in (0, 2, 3))
    job = Job(kind="slurm", id="1392969", step="0")
    assert texts(make_process(devices=shares, job=job, idle_seconds=754.0)) == {
        "pid": "4242",
        "user": "alice",
        "gpus": "0,2-3",
        "type": "C",
        "gpu_memory": "24.0G",
        "gpu_memory_percent": "10%",
        "utilization": "85%",
        "memory_bandwidth": "40%",
        "codec": "-",
        "cpu": "100%",
        "resident_memory": "6.0G",
        "time": "84d18h",
        "idle": "12m",
        "job": "slurm:1392969.0",
        "command": "python train.py --batch 32",
    }


def test_hidden_process_keeps_its_memory() -> None:
    hidden = Process(
        pid=812, devices=(make_process_device(),), hidden_reason="of another namespace"
    )
    told = texts(hidden)
    assert (told["user"], told["gpu_memory"]) == ("-", "40.0G")
    assert told["command"] == "(of another namespace)"


@pytest.mark.parametrize(
    ("seconds", "text", "level"),
    [
        (None, "-", "unknown"),
        (0.0, "0s", "unknown"),
        (7.0, "<10s", "unknown"),
        (47.0, "40s", "unknown"),
        (61.0, "1m", "warn"),
        (3 * 3600.0, "3h00m", "warn"),
    ],
)
def test_idle_time_need_not_be_exact(seconds: float | None, text: str, level: str) -> None:
    (column,) = (column for column in PROCESS_COLUMNS if column.key == "idle")
    assert column.level is not None
    for percent, shown in ((0.0, level), (100.0, "unknown")):
        process = make_process(cpu_percent=percent, idle_seconds=seconds)
        (row,) = process_rows(make_snapshot(processes=(process,)))
        assert column.text(row) == text
        assert column.level(row) == shown


@pytest.mark.parametrize(
    ("username", "reason", "text"),
    [
        ("alice", "exited", "alice"),
        (None, "exited", "(exited)"),
        (None, "belongs to another PID namespace", "-"),
        (None, "hidden process of another user", "-"),
    ],
)
def test_an_owner_is_absent_only_where_nothing_is_known(
    username: str | None, reason: str, text: str
) -> None:
    assert texts(make_process(username=username, hidden_reason=reason))["user"] == text


@pytest.mark.parametrize(("sm", "level"), [(0, "warn"), (12, "ok"), (None, "unknown")])
def test_process_that_holds_without_computing_is_a_warning(sm: int | None, level: str) -> None:
    process = make_process(devices=(make_process_device(sm_utilization_percent=sm),))
    (row,) = process_rows(make_snapshot(processes=(process,)))
    levels = {column.key: column.level(row) for column in PROCESS_COLUMNS if column.level}
    assert levels["utilization"] == level


def test_keys_are_unique() -> None:
    keys = [column.key for column in PROCESS_COLUMNS]
    assert len(keys) == len(set(keys))


@given(snapshots())
def test_every_column_sorts_any_snapshot(snapshot: Snapshot) -> None:
    for column in PROCESS_COLUMNS:
        sorted(process_rows(snapshot), key=column.sort_key)


def test_narrow_rooms_keep_who_and_how_much() -> None:
    rows = process_rows(make_snapshot())
    shown = [place.column.key for place in fit(PROCESS_COLUMNS, rows, 40)]
    assert shown == ["pid", "user", "gpus", "gpu_memory", "command"]


def test_encoders_and_decoders_are_shown_where_they_work() -> None:
    idle = make_process(devices=(make_process_device(encoder_utilization_percent=0),))
    busy = make_process(devices=(make_process_device(encoder_utilization_percent=35),))
    assert texts(busy)["codec"] == "35%/-"
    shown = [
        {each.column.key for each in fit(PROCESS_COLUMNS, [ProcessRow(process, "0", None)], 300)}
        for process in (idle, busy)
    ]
    assert ["codec" in keys for keys in shown] == [False, True]
