from __future__ import annotations

from typing import Any

import pytest

from gpudash.analysis.usage import uses
from gpudash.model.fault import Fault
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)

UNUSED = {"sm_utilization_percent": 0}
IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}


@pytest.mark.parametrize(
    ("device", "share", "word"),
    [
        ({}, {}, "busy"),
        (IDLE, {"used_gpu_memory_bytes": 300 << 20, **UNUSED}, "held idle"),
        ({**IDLE, "memory_used_bytes": GIB}, {}, "in use"),
        (IDLE, {"type": "G", "used_gpu_memory_bytes": 4 << 20}, "free"),
        ({"gpu_utilization_percent": 0}, {"type": "G", "used_gpu_memory_bytes": 2 * GIB}, "in use"),
        ({"gpu_utilization_percent": None}, {}, "in use"),
        ({"state": "asleep", "gpu_utilization_percent": None}, {}, "asleep"),
        ({"state": "lost", **IDLE}, {}, "LOST"),
        ({"clocks_event_reasons": ("sw-thermal-slowdown",)}, {}, "hot"),
    ],
)
def test_use_tells_holding_from_working(
    device: dict[str, Any], share: dict[str, Any], word: str
) -> None:
    process = make_process(devices=(make_process_device(**share),))
    snapshot = make_snapshot(devices=(make_device(**device),), processes=(process,))
    assert list(uses(snapshot).values()) == [word]


def test_memory_of_nobody_listed_keeps_a_gpu_from_being_free() -> None:
    devices = (make_device(gpu_utilization_percent=0), make_device(index=1, **IDLE))
    snapshot = make_snapshot(devices=devices, processes=())
    assert list(uses(snapshot).values()) == ["in use", "free"]


def test_process_on_an_instance_holds_it_and_its_parent() -> None:
    parent = make_device(gpu_utilization_percent=0)
    instances = tuple(
        make_device(index=i, uuid=f"MIG-{i}", parent_uuid=parent.uuid, **IDLE) for i in range(2)
    )
    process = make_process(devices=(make_process_device(uuid="MIG-1", **UNUSED),))
    snapshot = make_snapshot(devices=(parent, *instances), processes=(process,))
    assert list(uses(snapshot).values()) == ["held idle", "free", "held idle"]


def test_a_gpu_whose_processes_cannot_be_listed_is_not_free() -> None:
    fault = Fault(source="processes", message="no permission", uuid=gpu_uuid(0))
    devices = (make_device(**IDLE), make_device(index=1, **IDLE))
    snapshot = make_snapshot(devices=devices, processes=(), errors=(fault,))
    assert list(uses(snapshot).values()) == ["in use", "free"]


@pytest.mark.parametrize("used", [True, False])
def test_who_uses_an_instance_uses_its_gpu(used: bool) -> None:
    untold = {"gpu_utilization_percent": None, "memory_used_bytes": 0}
    parent = make_device(mig_mode=True, **untold)
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0), **untold)
    share = make_process_device(uuid="MIG-1", used_gpu_memory_bytes=300 << 20)
    processes = (make_process(devices=(share,)),) if used else ()
    snapshot = make_snapshot(devices=(parent, instance), processes=processes)
    assert set(uses(snapshot).values()) == {"in use" if used else "free"}


def test_a_utilization_that_is_not_known_is_not_idle() -> None:
    unknown = make_device(gpu_utilization_percent=None, memory_used_bytes=0)
    snapshot = make_snapshot(devices=(unknown,), processes=())
    assert list(uses(snapshot).values()) == ["in use"]
