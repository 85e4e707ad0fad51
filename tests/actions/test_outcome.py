from __future__ import annotations

import pytest

from gpudash.actions import Standing, find_signal, freed, outcome, still_held
from gpudash.snapshot import Process, Snapshot
from tests.factories import GIB, make_device, make_process, make_process_device, make_snapshot

KILL, TERM = find_signal("KILL"), find_signal("TERM")
GONE = Standing("gone")
PARENT = (4100, "torchrun")


def on(gpus: range, used: int | None = 10 * GIB, pid: int = 4242) -> Process:
    shares = (make_process_device(index=index, used_gpu_memory_bytes=used) for index in gpus)
    return make_process(pid=pid, devices=tuple(shares))


def host(*processes: Process) -> Snapshot:
    return make_snapshot(8, processes=processes)


def test_the_end_of_a_process_names_owner_and_memory() -> None:
    process = on(range(8))
    released = freed([process], host(process), host())
    said = outcome(process, KILL, GONE, waited_seconds=1, freed=released)
    assert said.text == "killed 4242 (alice): 80.0 GiB freed on GPU 0-7"
    assert said.done


@pytest.mark.parametrize(
    ("signal", "text"),
    [
        ("TERM", "terminated 4242 (alice)"),
        ("INT", "interrupted 4242 (alice)"),
        ("HUP", "4242 (alice) ended after SIGHUP"),
    ],
)
def test_each_signal_has_its_words(signal: str, text: str) -> None:
    said = outcome(make_process(), find_signal(signal), GONE, waited_seconds=1)
    assert (said.text, said.done) == (text, True)


def test_a_process_without_an_owner_is_its_pid() -> None:
    process = make_process(username=None)
    assert outcome(process, KILL, GONE, waited_seconds=1).text == "killed 4242"


def test_d_state_is_explained() -> None:
    said = outcome(make_process(), KILL, Standing("uninterruptible", *PARENT), waited_seconds=5)
    assert said.text == (
        "4242 (alice) still in D state after 5 s: the kernel delivers the signal when its system"
        " call returns"
    )
    assert not said.done
    assert said.question == said.text


def test_a_zombie_names_who_must_reap_it() -> None:
    said = outcome(make_process(), KILL, Standing("zombie", *PARENT), waited_seconds=1)
    assert said.text == "killed 4242 (alice); zombie: parent 4100 (torchrun) must reap it"
    assert said.done


def test_an_ignored_sigterm_offers_sigkill() -> None:
    said = outcome(make_process(), TERM, Standing("alive", *PARENT), waited_seconds=10)
    assert said.question == "4242 (alice) ignored SIGTERM for 10 s: send SIGKILL?"
    assert said.offer_kill
    assert not said.done


def test_sigkill_is_not_offered_after_itself() -> None:
    said = outcome(make_process(), KILL, Standing("alive", *PARENT), waited_seconds=5)
    assert "has not ended after 5 s" in said.question
    assert not said.offer_kill


def test_a_signal_that_ends_nothing_is_done_when_sent() -> None:
    said = outcome(make_process(), find_signal("STOP"), Standing("alive"), waited_seconds=0)
    assert (said.text, said.done) == ("SIGSTOP sent to 4242 (alice)", True)


def test_a_refusal_is_its_reason_unless_the_process_ended() -> None:
    reason = "not permitted: PID 4242 is owned by alice; try sudo gpudash"
    refused = outcome(make_process(), KILL, Standing("alive"), waited_seconds=0, refused=reason)
    assert (refused.text, refused.done) == (reason, False)
    ended = outcome(make_process(), KILL, GONE, waited_seconds=0, refused="already exited")
    assert (ended.text, ended.done) == ("4242 (alice) already exited", True)


def test_memory_that_the_driver_still_counts_is_not_called_freed() -> None:
    before, after = on(range(2)), on(range(1, 2))
    assert freed([before], host(before), host(after)) == (
        "10.0 GiB freed on GPU 0; the driver still counts 10.0 GiB on GPU 1"
    )
    assert freed([before], host(before), host(before)) == (
        "the driver still counts 20.0 GiB on GPU 0-1"
    )


def test_unknown_memory_is_not_invented() -> None:
    process = on(range(2), used=None)
    assert freed([process], host(process), host()) == ""


def test_memory_of_others_does_not_count() -> None:
    process, other = on(range(1)), on(range(1), pid=4300)
    assert freed([process], host(process, other), host(other)) == "10.0 GiB freed on GPU 0"
    assert still_held([4300, 4301], host(process, other)) == "10.0 GiB on GPU 0"
    assert still_held([4301], host(process, other)) == ""


def test_a_tree_frees_what_all_of_it_held() -> None:
    root, worker = on(range(0, 4)), on(range(2, 6), pid=4300)
    assert freed([root, worker], host(root, worker), host()) == "80.0 GiB freed on GPU 0-5"


def test_mig_instances_have_their_own_labels() -> None:
    parent = make_device(index=0, uuid="GPU-a", mig_mode=True)
    instance = make_device(index=1, uuid="MIG-b", parent_uuid="GPU-a")
    share = make_process_device(index=0, uuid="MIG-b", used_gpu_memory_bytes=GIB)
    process = make_process(devices=(share,))
    before = make_snapshot(devices=(parent, instance), processes=(process,))
    after = make_snapshot(devices=(parent, instance), processes=())
    assert freed([process], before, after) == "1.0 GiB freed on GPU 0:1"
