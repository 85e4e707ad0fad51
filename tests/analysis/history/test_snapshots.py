from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpudash.analysis.history.snapshots import Reference, restore
from gpudash.model import wire
from gpudash.model.fault import Fault
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from tests.factories import make_device, make_process, make_process_device, make_snapshot
from tests.strategies import snapshots


def told(before: Snapshot, after: Snapshot) -> Snapshot:
    reference = Reference(before)
    return restore(reference.packed, reference.patch(after))


@settings(deadline=None, max_examples=50)
@given(snapshots(), snapshots())
def test_any_snapshot_can_be_told_from_any_other(before: Snapshot, after: Snapshot) -> None:
    assert told(before, after) == after


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8))
def test_processes_that_come_go_and_move_are_told(before: list[int], after: list[int]) -> None:
    def of(pids: list[int], load: int) -> Snapshot:
        return make_snapshot(1, processes=tuple(changed(pid, load + pid) for pid in pids))

    def changed(pid: int, load: int) -> Process:
        shares = (make_process_device(sm_utilization_percent=load),) * (1 + pid % 2)
        return make_process(pid=pid, devices=shares, cpu_percent=float(load))

    assert told(of(before, 1), of(after, 50)) == of(after, 50)


def test_a_process_that_takes_another_device_is_told() -> None:
    one, two = make_process_device(index=0), make_process_device(index=1)
    before = make_snapshot(2, processes=(make_process(devices=(one,)),))
    after = make_snapshot(2, processes=(make_process(devices=(one, two)),))
    assert told(before, after) == after


def test_a_device_that_is_lost_is_told_with_its_fault() -> None:
    before = make_snapshot(2)
    lost = make_device(index=1, state="lost", fault=Fault(source="nvml", message="gone", code=15))
    after = replace(before, devices=(before.devices[0], lost))
    assert told(before, after) == after


def test_what_did_not_change_takes_no_room() -> None:
    before = make_snapshot(64)
    after = replace(before, devices=(make_device(gpu_utilization_percent=1), *before.devices[1:]))
    reference = Reference(before)
    assert len(reference.patch(after)) < len(wire.encode(after)) / 100
