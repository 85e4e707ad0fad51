"""Snapshots of a host with one GPU, second by second."""

from datetime import datetime, timedelta, timezone
from typing import Any

from gpudash.analysis.history import History
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from tests.factories import (
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
    received,
)

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
GPU = gpu_uuid(0)


def snapshot(second: float, load: int | None = 50, **overrides: Any) -> Snapshot:
    fields: dict[str, Any] = {
        "taken_at": START + timedelta(seconds=second),
        "host": make_host(uptime_seconds=1000.0 + second, cpu_percent=float(second % 100)),
        "devices": (make_device(gpu_utilization_percent=load),),
        "topology": None,
    }
    return make_snapshot(1, **{**fields, **overrides})


def pushed(*loads: int | None, interval: float = 1.0) -> History:
    """A history of one snapshot for each load."""
    history = History()
    for number, load in enumerate(loads):
        history.push(*received(snapshot(number * interval, load)))
    return history


def process(sm: int | None, memory: int | None = 1 << 30, pid: int = 1) -> Process:
    share = make_process_device(sm_utilization_percent=sm, used_gpu_memory_bytes=memory)
    return make_process(pid=pid, devices=(share,))
