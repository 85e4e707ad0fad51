import pytest

from gpudash.analysis.process_choice import choose
from gpudash.model.errors import UsageError
from gpudash.model.snapshot import Snapshot
from tests.factories import GIB, make_process, make_process_device, make_snapshot


def _snapshot() -> Snapshot:
    held = [(30, "bob", 2), (10, "alice", 8), (20, "bob", 4), (40, "alice", 8), (50, None, 1)]
    return make_snapshot(
        processes=tuple(
            make_process(
                pid=pid,
                username=user,
                devices=(make_process_device(used_gpu_memory_bytes=size * GIB),),
            )
            for pid, user, size in held
        )
    )


@pytest.mark.parametrize(
    ("options", "pids"),
    [
        ({"filter": "mem>3G"}, [10, 20, 40]),
        ({"filter": "mem>3G", "users": "bob"}, [20]),
        ({"users": "bob,alice", "sort": "pid"}, [40, 30, 20, 10]),
        ({"users": "bo"}, []),
        ({"pids": "10, 30,99"}, [30, 10]),
        ({"sort": "gpu_memory"}, [10, 40, 20, 30, 50]),
        ({"sort": "user,gpu-memory"}, [50, 10, 40, 20, 30]),
        ({"sort": "gpu_memory,PID"}, [40, 10, 20, 30, 50]),
        ({"sort": "owner,mem"}, [50, 10, 40, 20, 30]),
    ],
)
def test_choice_names_processes_and_their_order(options: dict[str, str], pids: list[int]) -> None:
    choice = choose(**options)
    assert [row.process.pid for row in choice.rows(_snapshot())] == pids


def test_no_option_is_no_choice() -> None:
    assert choose() is None


def test_a_tree_orders_siblings_by_the_other_columns() -> None:
    parents = {30: 10, 20: 10, 10: 1, 40: 20, 50: 1}
    snapshot = make_snapshot(
        processes=tuple(make_process(pid=pid, parent_pid=up) for pid, up in parents.items())
    )
    for sort, pids in (("tree", [10, 30, 20, 40, 50]), ("pid,tree", [50, 10, 30, 20, 40])):
        choice = choose(sort=sort)
        assert [row.process.pid for row in choice.rows(snapshot)] == pids


def test_idle_sorts_the_longest_first_and_those_that_work_last_and_is_tested_where_known() -> None:
    spans = {10: None, 20: 30.0, 30: 900.0, 40: 0.0}
    snapshot = make_snapshot(
        processes=tuple(make_process(pid=pid, idle_seconds=span) for pid, span in spans.items())
    )
    for choice, pids in (
        (choose(sort="idle"), [30, 20, 40, 10]),
        (choose(filter="idle>10m", has_past=True), [30]),
    ):
        assert [row.process.pid for row in choice.rows(snapshot)] == pids


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"filter": "mem>"}, "mem"),
        ({"filter": "idle>10m"}, "--loop or --replay"),
        ({"sort": "speed"}, "gpu_memory"),
        ({"sort": "user,-Time"}, "'-Time': choose from"),
        ({"sort": "pid,"}, "columns"),
        ({"users": ""}, "alice"),
        ({"pids": "12,x"}, "PIDs"),
        ({"pids": "9" * 5000}, "PIDs"),
    ],
)
def test_what_cannot_be_chosen_is_refused(options: dict[str, str], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        choose(**options)
