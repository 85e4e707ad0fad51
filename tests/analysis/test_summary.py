from __future__ import annotations

from msgspec.structs import replace

from gpudash.analysis.usage import shorter_summaries, summary, totals
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import EMPTY
from gpudash.model.text import clean
from tests.factories import (
    GIB,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)

IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}


def test_summary_counts_what_each_gpu_does() -> None:
    devices = (
        make_device(index=0),
        make_device(index=1, **{**IDLE, "memory_used_bytes": 60 * GIB}),
        make_device(index=2, **IDLE),
        Device(index=3, state="lost"),
        make_device(index=4, temperature_celsius=95, slowdown_temperature_celsius=90),
    )
    processes = (make_process(devices=(make_process_device(index=1, sm_utilization_percent=0),)),)
    snapshot = make_snapshot(devices=devices, processes=processes)
    assert summary(snapshot) == "5 GPUs: 1 LOST, 1 hot, 1 busy, 1 held idle, 1 free"


def test_summary_of_one_gpu_is_singular() -> None:
    assert summary(make_snapshot(1)) == "1 GPU: 1 busy"


def test_summary_without_gpus_says_so() -> None:
    assert summary(make_snapshot(0)) == "No GPUs"


def test_gpus_of_a_driver_that_does_not_answer_are_unknown_not_none() -> None:
    fault = Fault(source="nvml", code=10, message=clean("driver not answering 3 s"))
    snapshot = replace(EMPTY, errors=(fault,))
    assert [summary(snapshot), *shorter_summaries(snapshot, "~")] == ["GPUs unknown"] * 2
    told = replace(EMPTY, errors=(replace(fault, code=6),))
    assert summary(told) == "No GPUs"


def test_summary_does_not_count_mig_instances() -> None:
    parent = make_device()
    instance = make_device(uuid="MIG-a", parent_uuid=parent.uuid)
    assert summary(make_snapshot(devices=(parent, instance))) == "1 GPU: 1 busy"


def test_totals_add_up_what_is_known() -> None:
    snapshot = make_snapshot(2)
    assert totals(snapshot) == "80.0G of 160G, 825W"
    assert totals(make_snapshot(devices=(Device(index=0),))) == ""


def test_shorter_summaries_keep_the_order_and_lose_what_is_busy_first() -> None:
    devices = (
        make_device(index=0),
        make_device(index=1, **IDLE),
        make_device(index=2, temperature_celsius=95, slowdown_temperature_celsius=90),
        make_device(index=3, **{**IDLE, "memory_used_bytes": 60 * GIB}),
    )
    processes = (make_process(devices=(make_process_device(index=3, sm_utilization_percent=0),)),)
    snapshot = make_snapshot(devices=devices, processes=processes)
    assert summary(snapshot) == "4 GPUs: 1 hot, 1 busy, 1 held idle, 1 free"
    assert shorter_summaries(snapshot, "~") == [
        "4 GPUs: 1 hot, 1 busy, 1 held, 1 free",
        "4 GPUs: 1 hot, 1 held, 1 free~",
        "4 GPUs: 1 hot, 1 free~",
        "4 GPUs: 1 free~",
    ]


def test_the_last_use_is_never_left_out() -> None:
    assert shorter_summaries(make_snapshot(2), "~") == ["2 GPUs: 2 busy"]
