from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpudash.actions.kill.report import Release, release, shares
from gpudash.model.fault import Fault
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)


def on(gpus: range, used: int | None = 10 * GIB, pid: int = 4242, **fields: object) -> Process:
    held = (make_process_device(index=index, used_gpu_memory_bytes=used) for index in gpus)
    return make_process(pid=pid, devices=tuple(held), start_ticks=77, **fields)


def host(*processes: Process, **overrides: object) -> Snapshot:
    return make_snapshot(8, processes=processes, **overrides)


def judged(before: Snapshot, after: Snapshot, *ended: Process) -> Release:
    return release(shares(ended or before.processes, before), before, after)


def test_what_is_not_listed_any_more_is_freed() -> None:
    found = judged(host(on(range(8))), host())
    assert found.text == "80.0 GiB freed on GPU 0-7"
    assert found.settled


def test_memory_that_the_driver_still_counts_is_not_called_freed() -> None:
    before, after = host(on(range(2))), host(on(range(1, 2)))
    found = judged(before, after)
    assert found.text == "10.0 GiB freed on GPU 0; the driver still counts 10.0 GiB on GPU 1"
    assert found.kept
    # The same facts in a later sample.
    assert judged(before, replace(before)).text == "the driver still counts 20.0 GiB on GPU 0-1"


def test_a_pid_without_a_process_is_still_counted() -> None:
    held = on(range(1))
    ghost = replace(held, start_ticks=None, create_time=None, hidden_reason="exited")
    found = judged(host(held), host(ghost))
    assert found.text == "the driver still counts 10.0 GiB on GPU 0"
    assert found.kept


def test_a_reused_pid_is_neither_freed_nor_held() -> None:
    held = on(range(1))
    found = judged(host(held), host(replace(held, start_ticks=78)))
    assert found.text == (
        "whether memory came free on GPU 0 is not known: another process has its PID by now"
    )
    assert not found.kept
    assert not found.settled


def test_a_reused_pid_on_another_gpu_says_nothing_about_this_one() -> None:
    elsewhere = on(range(3, 4))
    after = host(replace(elsewhere, start_ticks=78))
    assert judged(host(on(range(1))), after).text == "10.0 GiB freed on GPU 0"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("lost", "it fell off the bus"),
        ("reset-required", "it needs a reset"),
        ("failed", "it cannot be read"),
        ("asleep", "it is asleep"),
    ],
)
def test_a_device_that_does_not_answer_frees_nothing(state: str, reason: str) -> None:
    devices = (make_device(index=0, state=state), make_device(index=1))
    found = judged(host(on(range(2))), make_snapshot(devices=devices, processes=()))
    assert found.text == (
        f"10.0 GiB freed on GPU 1; whether memory came free on GPU 0 is not known: {reason}"
    )
    assert not found.settled


def test_a_device_that_is_not_shown_any_more_frees_nothing() -> None:
    after = make_snapshot(devices=(make_device(index=1),), processes=())
    assert "GPU 0 is not known: it is not shown" in judged(host(on(range(1))), after).text


@pytest.mark.parametrize("uuid", [gpu_uuid(0), None])
def test_processes_that_could_not_be_listed_are_not_gone(uuid: str | None) -> None:
    fault = Fault(source="processes", message="GPU 0: no permission", code=4, uuid=uuid)
    found = judged(host(on(range(1))), host(errors=(fault,)))
    assert found.text.endswith("not known: its processes could not be listed")
    other = replace(fault, uuid=gpu_uuid(1))
    assert judged(host(on(range(1))), host(errors=(other,))).settled


def test_without_a_later_sample_nothing_is_known() -> None:
    before = host(on(range(1)))
    assert judged(before, before).text.endswith("not known: no sample came since")


def test_memory_that_stays_in_use_by_nobody_is_not_called_freed() -> None:
    def with_unaccounted(amount: int | None, *processes: Process) -> Snapshot:
        device = make_device(index=0, memory_unaccounted_bytes=amount)
        return make_snapshot(devices=(device,), processes=processes)

    before = with_unaccounted(GIB, on(range(1)))
    found = judged(before, with_unaccounted(11 * GIB))
    assert found.text == "10.0 GiB on GPU 0 stays in use, and the driver lists nobody for it"
    assert found.kept
    assert judged(before, with_unaccounted(2 * GIB)).settled
    assert judged(before, with_unaccounted(None)).settled


def test_what_the_last_good_sample_showed_counts_where_none_shows_it_now() -> None:
    held = on(range(1))
    assert judged(host(), replace(host()), held).text == "10.0 GiB freed on GPU 0"


def test_unknown_memory_is_not_invented() -> None:
    assert judged(host(on(range(2), used=None)), host()).text == ""


def test_memory_of_others_does_not_count() -> None:
    process, other = on(range(1)), on(range(1), pid=4300)
    found = judged(host(process, other), host(other), process)
    assert found.text == "10.0 GiB freed on GPU 0"


def test_several_free_what_all_of_them_held() -> None:
    root, worker = on(range(0, 4)), on(range(2, 6), pid=4300)
    assert judged(host(root, worker), host()).text == "80.0 GiB freed on GPU 0-5"


def test_mig_instances_have_their_own_labels_and_their_parents_faults() -> None:
    parent = make_device(index=0, uuid="GPU-a", mig_mode=True)
    instance = make_device(index=1, uuid="MIG-b", parent_uuid="GPU-a")
    share = make_process_device(index=0, uuid="MIG-b", used_gpu_memory_bytes=GIB)
    process = make_process(devices=(share,))
    before = make_snapshot(devices=(parent, instance), processes=(process,))
    after = make_snapshot(devices=(parent, instance), processes=())
    assert judged(before, after).text == "1.0 GiB freed on GPU 0:1"
    lost = make_snapshot(devices=(replace(parent, state="lost"), instance), processes=())
    assert judged(before, lost).text.endswith("on GPU 0:1 is not known: it fell off the bus")
