import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from gpudash.actions.kill.audit import Sending
from gpudash.actions.kill.report import KillReport, describe
from gpudash.actions.kill.run import Kill, KillRequest, Timeouts
from gpudash.actions.kill.signals import Signal, find_signal
from gpudash.actions.kill.tree import Tree
from gpudash.model.process import Holder as Unlisted
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from tests import waiting
from tests.actions.kill.family import LAUNCHER, Family
from tests.actions.kill.shown import HERE, pinned, shown
from tests.factories import GIB, make_device, make_process_device, make_snapshot
from tests.holders import Holder, Holders
from tests.waiting import child_of, has_ended

KILL, TERM, STOP = find_signal("KILL"), find_signal("TERM"), find_signal("STOP")
DEAF = "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"
DEAF_LOOP = "while :; do wait; done"
DEAF_HEAD = f"setsid sleep 600 & trap '' TERM; {DEAF_LOOP}"
"""A shell script that ignores SIGTERM, whose child in a session of its own does not."""


PATIENT = Timeouts(kill=60.0, end=60.0, root_first=0.2, reap=0.0, release=0.0, release_max=0.2)
"""For processes that end, however busy the machine is."""
IGNORED = PATIENT._replace(end=0.5)
RELEASED = PATIENT._replace(release=60.0, release_max=60.0)


def holding(pid: int) -> Process:
    return shown(pid, devices=(make_process_device(used_gpu_memory_bytes=8 * GIB),))


def host(*processes: Process, **device: object) -> Snapshot:
    return make_snapshot(devices=(make_device(**device),), host=HERE, processes=processes)


def carried_out(
    requests: Sequence[KillRequest],
    chosen: Signal = KILL,
    later: Iterable[Snapshot] = (),
    record: Callable[[Sequence[Sending]], None] = lambda _: None,
    timeouts: Timeouts = PATIENT,
) -> tuple[KillReport, list[str]]:
    """What came of it, and what was said on the way."""
    before = host(*(request.target.process for request in requests))
    coming, said = iter(later), list[str]()
    newest = before

    def latest() -> Snapshot:
        nonlocal newest
        newest = next(coming, newest)
        return newest

    kill = Kill(requests, chosen, record=record, timeouts=timeouts)
    kill.send()
    return kill.wait(before, latest=latest, progress=said.append), said


def text(report: KillReport) -> str:
    return "; ".join(describe(report))


def test_it_tells_what_was_sent_and_what_came_of_it(job: Holder) -> None:
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        report, said = carried_out(
            [KillRequest(target, None, False)], later=[host()], timeouts=RELEASED
        )
        assert said[0] == f"SIGKILL sent to {job.pid} (alice); waiting up to 60 s for it to end"
        assert said[1].endswith("waiting for the driver to release the memory")
        assert text(report).startswith(f"killed {job.pid} (alice): 8.0 GiB freed on GPU 0")
        assert report.done
        assert not report.stubborn


def test_a_zombie_is_reported_only_once_it_has_lasted(holders: Holders) -> None:
    (job, other) = holders(2)
    with pinned(job.pid, devices=()) as target:
        report, _ = carried_out([KillRequest(target, None, False)])
        assert text(report).startswith(f"killed {job.pid} (alice); zombie: parent ")
    with pinned(other.pid, devices=()) as target:
        patient = PATIENT._replace(reap=3600.0)
        report, _ = carried_out([KillRequest(target, None, False)], timeouts=patient)
        assert text(report) == f"killed {other.pid} (alice)"
        assert text(report.refreshed()) == text(report)


def test_a_later_sample_corrects_what_is_reported_memory(job: Holder) -> None:
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        still = host(target.process)
        report, _ = carried_out(
            [KillRequest(target, None, False)], later=[still, replace(still)] * 5
        )
        assert "still counts 8.0 GiB on GPU 0" in text(report)
        assert "still counts 8.0 GiB on GPU 0" in text(report.refreshed(replace(still)))
        assert "8.0 GiB freed on GPU 0" in text(report.refreshed(host()))


def test_a_collector_that_stopped_leaves_it_unknown(job: Holder) -> None:
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        report, _ = carried_out([KillRequest(target, None, False)])
        assert "GPU 0: no newer sample has arrived" in text(report)
        assert not report.stubborn


def test_a_sample_that_cannot_tell_is_followed_by_one_that_can(job: Holder) -> None:
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        report, _ = carried_out(
            [KillRequest(target, None, False)],
            later=[host(state="lost"), host()],
            timeouts=RELEASED,
        )
        assert "8.0 GiB freed on GPU 0" in text(report)


def test_an_ignored_signal_leaves_it_stubborn(holders: Holders) -> None:
    (deaf,) = holders(1, (sys.executable, "-c", DEAF))
    until_deaf(deaf.pid)
    with pinned(deaf.pid) as target:
        report, _ = carried_out([KillRequest(target, None, False)], TERM, timeouts=IGNORED)
        assert report.stubborn == (target,)
        assert not report.done
        assert deaf.alive


def signals_of(pid: int, mask_name: str) -> set[int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":", 1) for line in lines)
    mask = int(status[mask_name], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def until_deaf(*pids: int) -> None:
    waiting.until(lambda: all(signal.SIGTERM in signals_of(pid, "SigIgn") for pid in pids))


def test_a_signal_that_ends_nothing_waits_for_nothing(job: Holder) -> None:
    with pinned(job.pid) as target:
        report, said = carried_out([KillRequest(target, None, False)], STOP)
        assert (report.done, said) == (True, [])
        target.send(signal.SIGKILL)


@pytest.mark.parametrize("whole", [False, True])
def test_each_sending_is_recorded(whole: bool) -> None:
    recorded: list[Sending] = []

    def record(sendings: Sequence[Sending]) -> None:
        recorded.extend(sendings)
        waiting.until(lambda: has_ended(family.pid))

    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.until(lambda alive: len(alive) == 2)
        with pinned(family.pid) as root:
            tree = Tree(root)
            carried_out([KillRequest(root, tree, whole)], TERM, record=record)
            tree.close()
        pids = {sending.target.process.pid for sending in recorded}
        assert pids == (alive if whole else {family.pid})
        assert {sending.signal for sending in recorded} == {TERM}
        assert not any(sending.refusal for sending in recorded)


@pytest.mark.parametrize("chosen", [KILL, TERM])
def test_one_that_has_ended_meanwhile_was_not_sent_anything(chosen: Signal) -> None:
    recorded: list[Sending] = []
    with Family(("sh", "-c", LAUNCHER)) as family:
        (worker,) = family.until(lambda alive: len(alive) == 2) - {family.pid}
        with pinned(family.pid) as root:
            tree = Tree(root)
            root.send(signal.SIGKILL)
            family.until(lambda alive: alive == {worker})
            requests = [KillRequest(root, tree, True)]
            report, _ = carried_out(requests, chosen, record=recorded.extend)
            tree.close()
        assert family.alive() == set()
    results = {each.target.process.pid: each.refusal for each in recorded}
    assert results.keys() == {family.pid, worker}
    assert "already exited" in (results[family.pid] or "")
    assert results[worker] is None
    assert text(report).startswith(f"{family.pid} (alice) already exited")
    assert "1 child ended too" in text(report)


def test_a_tree_whose_head_ignores_the_signal_gets_it_after_a_moment() -> None:
    recorded: list[Sending] = []
    with Family(("sh", "-c", DEAF_HEAD)) as family:
        (worker,) = family.started(2, sleepers=1) - {family.pid}
        until_deaf(family.pid)
        with pinned(family.pid) as root:
            tree = Tree(root)
            report, said = carried_out(
                [KillRequest(root, tree, True)], TERM, record=recorded.extend, timeouts=IGNORED
            )
            tree.close()
            assert family.alive() == {family.pid}
            assert (report.heads, report.with_tree) == ((root,), True)
    assert text(report) == (f"{family.pid} (alice) ignored SIGTERM for 0 s; 1 child ended too")
    assert said[1] == "SIGTERM sent to 1 child too; waiting up to 0 s for it to end"
    pids = [each.target.process.pid for each in recorded]
    assert pids == [family.pid, worker], "a second signal may mean more than the first"


def test_what_is_left_of_a_tree_is_named_by_its_heads() -> None:
    deaf = f"trap '' TERM; {sys.executable} -c '{DEAF}' & {DEAF_LOOP}"
    with Family(("sh", "-c", deaf)) as family:
        (worker,) = family.until(lambda alive: len(alive) == 2) - {family.pid}
        until_deaf(family.pid, worker)
        with pinned(family.pid) as root:
            tree = Tree(root)
            report, _ = carried_out([KillRequest(root, tree, True)], TERM, timeouts=IGNORED)
            assert [each.process.pid for each in report.stubborn] == [family.pid, worker]
            assert report.heads == (root,)
            root.send(signal.SIGKILL)
            waiting.until(lambda: not root.alive())
            requests = [KillRequest(root, tree, True)]
            report, _ = carried_out(requests, TERM, timeouts=IGNORED)
            assert [each.process.pid for each in report.heads] == [worker]
            tree.close()


def test_one_that_is_chosen_and_below_another_is_signalled_once() -> None:
    recorded: list[Sending] = []
    counting = "import signal; signal.signal(15, lambda *_: None)\nwhile True: signal.pause()"
    head = f"{sys.executable} -c '{counting}' & trap '' TERM; {DEAF_LOOP}"
    with Family(("sh", "-c", head)) as family:
        (worker,) = family.until(lambda alive: len(alive) == 2) - {family.pid}
        until_deaf(family.pid)
        waiting.until(lambda: signal.SIGTERM in signals_of(worker, "SigCgt"))
        with pinned(family.pid) as root, pinned(worker) as chosen:
            trees = Tree(root), Tree(chosen)
            requests = [KillRequest(each.root, each, True) for each in trees]
            carried_out(requests, TERM, record=recorded.extend, timeouts=IGNORED)
            for tree in trees:
                tree.close()
    assert [each.target.process.pid for each in recorded] == [family.pid, worker]


def test_a_tree_that_is_paused_is_paused_whole_at_once() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.started(2, sleepers=1)
        with pinned(family.pid) as root:
            tree = Tree(root)
            report, _ = carried_out([KillRequest(root, tree, True)], STOP)
            tree.close()
        assert report.done
        waiting.until(lambda: {psutil.Process(pid).status() for pid in alive} == {"stopped"})


def test_one_that_is_chosen_and_below_another_is_recorded_once() -> None:
    recorded: list[Sending] = []
    with Family(("sh", "-c", LAUNCHER)) as family:
        (worker,) = family.until(lambda alive: len(alive) == 2) - {family.pid}
        with pinned(family.pid) as root, pinned(worker) as chosen:
            trees = Tree(root), Tree(chosen)
            requests = [KillRequest(each.root, each, True) for each in trees]
            report, _ = carried_out(requests, record=recorded.extend)
            assert report.done
            for tree in trees:
                tree.close()
    assert [(each.target.process.pid, each.refusal) for each in recorded] == [
        (family.pid, None),
        (worker, None),
    ]


def test_spared_children_that_keep_memory_are_named_and_can_be_ended(
    gpu_holder: Callable[..., Holder],
) -> None:
    job = gpu_holder("(sleep 600 & exec sleep 600)")
    child = child_of(job.pid)
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        tree = Tree(target)
        still = host(target.process)
        report, _ = carried_out(
            [KillRequest(target, tree, False)], later=[still, replace(still)] * 5
        )
        assert [each.process.pid for each in report.survivors] == [child]
        assert report.stubborn == report.survivors
        assert text(report) == (
            f"killed {job.pid} (alice): the driver still counts 8.0 GiB on GPU 0; its child "
            f"{child} still runs and has a GPU open; zombie: parent "
            f"{psutil.Process().pid} ({psutil.Process().name()}) must reap it"
        )
        os.kill(child, signal.SIGKILL)
        tree.close()


def test_children_without_a_gpu_are_left_alone() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        family.until(lambda alive: len(alive) == 2)
        with pinned(family.pid, devices=holding(family.pid).devices) as root:
            tree = Tree(root)
            still = host(root.process)
            report, _ = carried_out(
                [KillRequest(root, tree, False)], later=[still, replace(still)] * 5
            )
            assert "still counts" in text(report)
            assert not report.stubborn
            tree.close()


def test_holders_that_the_driver_does_not_list_are_named(holders: Holders) -> None:
    (job,) = holders(1)
    unlisted = Unlisted(pid=4300, username="bob", command_line=("/usr/bin/python", "load.py"))
    with pinned(job.pid, devices=holding(job.pid).devices) as target:
        listed = host(target.process, holder_pids=(unlisted.pid,))
        still = replace(listed, holders=(unlisted,))
        report, _ = carried_out(
            [KillRequest(target, None, False)], later=[still, replace(still)] * 5
        )
        assert "; 4300 bob python has a GPU open, not listed by the driver" in text(report)
