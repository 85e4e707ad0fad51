import math
import os

import pytest
from msgspec.structs import replace

from gpudash.actions.kill.pin import ProcessState, Target
from gpudash.actions.kill.report import KillReport, Result, describe, describe_memory, held_by
from gpudash.actions.kill.signals import find_signal
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

ALIVE, GONE = ProcessState("alive", 4100, "torchrun"), ProcessState("gone")
STUCK = ProcessState("uninterruptible", 4100, "torchrun")
ZOMBIE = ProcessState("zombie", 4100, "torchrun")


def result(
    state: ProcessState, refusal: str | None = None, *, is_member: bool = False, **fields: object
) -> Result:
    return Result(Target(make_process(**fields), None), state, refusal, is_member)


def report(signal: str, *results: Result, seconds: float = 5, **fields: object) -> KillReport:
    known: dict[str, object] = {"before": make_snapshot(), "waited_seconds": seconds, **fields}
    return KillReport(signal=find_signal(signal), results=results, **known)  # type: ignore[arg-type]


def text(found: KillReport) -> str:
    return "; ".join(describe(found))


def test_the_end_of_a_process_names_owner_and_memory() -> None:
    before = host(on(range(8)))
    found = report("KILL", result(GONE), before=before)
    freed = found.with_memory(held_by(before.processes, before), host())
    assert text(freed) == "killed 4242 (alice): 80.0 GiB freed on GPU 0-7"
    assert freed.done


@pytest.mark.parametrize(
    ("signal", "words"),
    [
        ("TERM", "terminated 4242 (alice)"),
        ("INT", "interrupted 4242 (alice)"),
        ("HUP", "4242 (alice) ended after SIGHUP"),
    ],
)
def test_each_signal_has_its_words(signal: str, words: str) -> None:
    found = report(signal, result(GONE))
    assert (text(found), found.done) == (words, True)


def test_a_process_without_an_owner_is_its_pid() -> None:
    assert text(report("KILL", result(GONE, username=None))) == "killed 4242"


def test_d_state_is_explained() -> None:
    found = report("TERM", result(STUCK))
    assert text(found) == (
        "4242 (alice) is still in D state after 5 s; it gets the signal when its system call"
        " returns"
    )
    assert not found.done
    assert not found.stubborn, "SIGKILL would not reach it either"
    found = report("KILL", result(STUCK._replace(waits_in="nv_wait")))
    assert text(found).startswith("4242 (alice) is still in D state in nv_wait after 5 s")


def test_a_zombie_has_ended_and_names_its_parent_once_that_should_have_reaped_it() -> None:
    found = report("KILL", result(ZOMBIE))
    assert text(found) == "killed 4242 (alice); zombie: parent 4100 (torchrun) must reap it"
    assert found.done
    assert text(replace(found, reap_due_at=math.inf)) == "killed 4242 (alice)"


def test_one_that_ignored_sigterm_would_be_ended_by_sigkill() -> None:
    deaf = result(ALIVE)
    found = report("TERM", deaf, seconds=10)
    assert text(found) == "4242 (alice) ignored SIGTERM for 10 s"
    assert found.stubborn == (deaf.target,)
    assert not found.done


def test_sigkill_is_not_offered_after_itself() -> None:
    found = report("KILL", result(ALIVE))
    assert "has not ended after 5 s" in text(found)
    assert not found.stubborn


def test_a_signal_that_ends_nothing_is_done_when_sent() -> None:
    found = report("STOP", result(ALIVE))
    assert (text(found), found.done) == ("SIGSTOP sent to 4242 (alice)", True)


def test_a_refusal_is_its_reason_unless_the_process_ended() -> None:
    reason = "not permitted: PID 4242 is owned by alice; try sudo gpudash"
    refused = report("TERM", result(ALIVE, reason))
    assert (text(refused), refused.done, refused.stubborn) == (reason, False, ())
    ended = report("TERM", result(GONE, "already exited"))
    assert (text(ended), ended.done) == ("4242 (alice) already exited", True)


def test_several_are_counted_and_those_that_failed_are_named() -> None:
    found = report("TERM", result(GONE, pid=1001), result(ALIVE, pid=1002), seconds=10)
    assert describe(found) == (
        "1 of 2 processes ended after SIGTERM",
        "1002 (alice) ignored SIGTERM for 10 s",
    )
    assert not found.done
    paused = report("STOP", result(ALIVE, pid=1001), result(ALIVE, "no", pid=1002))
    assert describe(paused) == ("SIGSTOP sent to 1 of 2 processes", "no")


def test_members_of_a_tree_are_counted_and_those_that_live_on_are_named() -> None:
    members = result(GONE, pid=1001, is_member=True), result(ALIVE, pid=1002, is_member=True)
    assert describe(report("KILL", result(GONE), *members)) == (
        "killed 4242 (alice)",
        "1 child ended too",
        "1002 (alice) has not ended after 5 s; the kernel is still taking it down",
    )


def test_what_ended_is_seen_again_later() -> None:
    gone = Target(make_process(pid=os.getpid(), start_ticks=1, create_time=None), None)
    found = report("TERM", Result(gone, ALIVE))
    assert not found.done
    assert found.refreshed().done


# Memory


def on(gpus: range, used: int | None = 10 * GIB, pid: int = 4242, **fields: object) -> Process:
    held = (make_process_device(index=index, used_gpu_memory_bytes=used) for index in gpus)
    return make_process(pid=pid, devices=tuple(held), start_ticks=77, **fields)


def host(*processes: Process, **overrides: object) -> Snapshot:
    return make_snapshot(8, processes=processes, **overrides)


def judged(before: Snapshot, after: Snapshot, *ended: Process) -> KillReport:
    held = held_by(ended or before.processes, before)
    return report("KILL", result(GONE), before=before).with_memory(held, after)


def memory(found: KillReport) -> str:
    return "; ".join(describe_memory(found))


def test_what_is_not_listed_any_more_is_freed() -> None:
    found = judged(host(on(range(8))), host())
    assert memory(found) == "80.0 GiB freed on GPU 0-7"
    assert found.is_memory_freed


def test_memory_that_the_driver_still_counts_is_not_called_freed() -> None:
    before, after = host(on(range(2))), host(on(range(1, 2)))
    found = judged(before, after)
    assert memory(found) == "10.0 GiB freed on GPU 0; the driver still counts 10.0 GiB on GPU 1"
    assert found.is_memory_kept
    # The same facts in a later sample.
    assert memory(judged(before, replace(before))) == "the driver still counts 20.0 GiB on GPU 0-1"


def test_a_pid_without_a_process_is_still_counted() -> None:
    held = on(range(1))
    ghost = replace(held, start_ticks=None, create_time=None, hidden_reason="exited")
    found = judged(host(held), host(ghost))
    assert memory(found) == "the driver still counts 10.0 GiB on GPU 0"
    assert found.is_memory_kept


def test_a_reused_pid_is_neither_freed_nor_held() -> None:
    held = on(range(1))
    found = judged(host(held), host(replace(held, start_ticks=78)))
    assert memory(found) == (
        "cannot tell whether memory was freed on GPU 0: its PID has been reused"
    )
    assert not found.is_memory_kept
    assert not found.is_memory_freed


def test_a_reused_pid_on_another_gpu_says_nothing_about_this_one() -> None:
    elsewhere = on(range(3, 4))
    after = host(replace(elsewhere, start_ticks=78))
    assert memory(judged(host(on(range(1))), after)) == "10.0 GiB freed on GPU 0"


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("lost", "the GPU fell off the bus"),
        ("reset-required", "the GPU needs a reset"),
        ("failed", "the GPU cannot be read"),
        ("asleep", "the GPU is asleep"),
    ],
)
def test_a_device_that_does_not_answer_frees_nothing(state: str, reason: str) -> None:
    devices = (make_device(index=0, state=state), make_device(index=1))
    found = judged(host(on(range(2))), make_snapshot(devices=devices, processes=()))
    assert memory(found) == (
        f"10.0 GiB freed on GPU 1; cannot tell whether memory was freed on GPU 0: {reason}"
    )
    assert not found.is_memory_freed


def test_a_device_that_is_not_shown_any_more_frees_nothing() -> None:
    after = make_snapshot(devices=(make_device(index=1),), processes=())
    assert "freed on GPU 0: the GPU is no longer shown" in memory(judged(host(on(range(1))), after))


@pytest.mark.parametrize("uuid", [gpu_uuid(0), None])
def test_processes_that_could_not_be_listed_are_not_gone(uuid: str | None) -> None:
    fault = Fault(source="processes", message="GPU 0: no permission", code=4, uuid=uuid)
    found = judged(host(on(range(1))), host(errors=(fault,)))
    assert memory(found).endswith("GPU 0: its processes could not be listed")
    other = replace(fault, uuid=gpu_uuid(1))
    assert judged(host(on(range(1))), host(errors=(other,))).is_memory_freed


def test_without_a_later_sample_nothing_is_known() -> None:
    before = host(on(range(1)))
    assert memory(judged(before, before)).endswith("GPU 0: no newer sample has arrived")


def test_memory_that_stays_in_use_by_no_process_is_not_called_freed() -> None:
    def with_unaccounted(amount: int | None, *processes: Process) -> Snapshot:
        device = make_device(index=0, memory_unaccounted_bytes=amount)
        return make_snapshot(devices=(device,), processes=processes)

    before = with_unaccounted(GIB, on(range(1)))
    found = judged(before, with_unaccounted(11 * GIB))
    assert memory(found) == "10.0 GiB still in use on GPU 0, where the driver lists no owner"
    assert found.is_memory_kept
    assert judged(before, with_unaccounted(2 * GIB)).is_memory_freed
    assert judged(before, with_unaccounted(None)).is_memory_freed


def test_what_the_last_good_sample_showed_counts_where_none_shows_it_now() -> None:
    held = on(range(1))
    assert memory(judged(host(), replace(host()), held)) == "10.0 GiB freed on GPU 0"


def test_unknown_memory_is_not_invented() -> None:
    assert memory(judged(host(on(range(2), used=None)), host())) == ""


def test_memory_of_others_does_not_count() -> None:
    process, other = on(range(1)), on(range(1), pid=4300)
    found = judged(host(process, other), host(other), process)
    assert memory(found) == "10.0 GiB freed on GPU 0"


def test_several_free_what_all_of_them_held() -> None:
    root, worker = on(range(0, 4)), on(range(2, 6), pid=4300)
    assert memory(judged(host(root, worker), host())) == "80.0 GiB freed on GPU 0-5"


def test_mig_instances_have_their_own_labels_and_their_parents_faults() -> None:
    parent = make_device(index=0, uuid="GPU-a", mig_mode=True)
    instance = make_device(index=1, uuid="MIG-b", parent_uuid="GPU-a")
    share = make_process_device(index=0, uuid="MIG-b", used_gpu_memory_bytes=GIB)
    process = make_process(devices=(share,))
    before = make_snapshot(devices=(parent, instance), processes=(process,))
    after = make_snapshot(devices=(parent, instance), processes=())
    assert memory(judged(before, after)) == "1.0 GiB freed on GPU 0:1"
    lost = make_snapshot(devices=(replace(parent, state="lost"), instance), processes=())
    assert memory(judged(before, lost)).endswith("freed on GPU 0:1: the GPU fell off the bus")
