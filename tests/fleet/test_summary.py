from collections import Counter

import pytest

from gpudash.fleet.reduce import Reducer
from gpudash.fleet.summary import brief, fitting, host_rows, is_whole_and_free, totals
from gpudash.model.fleet import FleetHost, HostState
from gpudash.model.host_words import HOST_STATES
from gpudash.model.state import BUSY, FREE, HELD, IN_USE, LOST, UNKNOWN, UNUSABLE, State
from tests.fleet.many import device, fleet, host


def test_gpus_are_counted_by_what_they_do() -> None:
    (row,) = host_rows(fleet((host(0, "busy", "busy", "held-idle", "free", "lost"),)))
    assert [row.count(state) for state in (BUSY, HELD, FREE, LOST)] == [2, 1, 1, 1]


def test_instances_are_no_gpus() -> None:
    gpu = device(0, "busy")
    instance = device(0, "busy", parent_uuid=gpu.uuid)
    (row,) = host_rows(fleet((host(0, devices=(gpu, instance), expected_devices=1),)))
    assert (row.gpus, row.missing, len(row.devices)) == (1, 0, 2)


@pytest.mark.parametrize(
    ("instances", "status"),
    [
        (["busy", "held-idle", "free"], HELD),
        (["busy", "in-use"], BUSY),
        (["in-use", "free"], IN_USE),
        (["free", "unknown"], UNKNOWN),
        (["free", "free"], FREE),
        (["busy", "unusable"], UNUSABLE),
    ],
)
def test_a_gpu_in_instances_counts_once_by_the_worst_of_them(
    instances: list[str], status: State
) -> None:
    parts = [device(n, each, parent_uuid="GPU-0") for n, each in enumerate(instances)]
    whole = host(0, devices=(device(0, "divided"), *parts, device(1, "free")), expected_devices=2)
    rows = host_rows(fleet((whole,)))
    assert rows[0].counts == Counter([status.id, FREE.id])
    # Also where a filter leaves instances alone.
    rows = fitting(rows, lambda _, each: each is not None and each.parent_uuid is not None)
    assert rows[0].counts == {status.id: 1}
    assert totals(rows).gpus == 1


def test_a_host_is_whole_and_free_for_a_job_only_without_instances_and_as_a_whole() -> None:
    part = device(1, "free", parent_uuid="GPU-0")
    divided = host(0, devices=(device(0, "divided"), part, device(1, "free")), expected_devices=2)
    rows = host_rows(fleet((divided, host(1, "free", "busy", expected_devices=2))))
    assert [row.free for row in rows] == [2, 1]
    rows += fitting(rows, lambda _, each: each is not None and each.status == "free")
    assert not any(map(is_whole_and_free, rows))


@pytest.mark.parametrize("state", [state for state in HOST_STATES if state != "ok"])
def test_what_does_not_answer_is_unknown_and_neither_busy_nor_free(state: HostState) -> None:
    sums = totals(host_rows(fleet((host(0, "free", "busy", state=state), host(1, "busy")))))
    assert sums.counts == {BUSY.word: 1, UNKNOWN.word: 2}
    assert (sums.hosts, sums.answering, sums.utilization) == (2, 1, 90.0)
    (free,) = host_rows(fleet((host(0, *["free"] * 8, state=state),)))
    assert not is_whole_and_free(free)


def test_a_value_that_no_gpu_reports_is_unknown() -> None:
    bare = device(
        0,
        "unknown",
        gpu_utilization_percent=None,
        memory_used_bytes=None,
        power_usage_mw=None,
        temperature_celsius=None,
    )
    (row,) = host_rows(fleet((host(0, devices=(bare,)),)))
    assert (row.utilization, row.memory_used_bytes, row.power_mw, row.temperature) == (None,) * 4


def test_power_has_a_limit_only_if_that_of_all_gpus_is_known() -> None:
    whole, partly = host(0), host(1, devices=(device(0), device(1, enforced_power_limit_mw=None)))
    silent = host(2, devices=(device(0, power_usage_mw=None, enforced_power_limit_mw=None),))
    assert totals(host_rows(fleet((whole, silent)))).limit_mw == 8 * 700_000
    rows = host_rows(fleet((whole, partly)))
    assert [row.limit_mw for row in rows] == [8 * 700_000, None]
    assert totals(rows).limit_mw is None


def test_missing_gpus_count_as_expected() -> None:
    rows = host_rows(fleet((host(0, "free", "free"),)))
    assert rows[0].missing == 6
    assert not is_whole_and_free(rows[0])
    sums = totals(rows)
    assert (sums.gpus, sums.expected_gpus) == (2, 8)


def test_a_whole_host_is_free_only_if_a_job_may_have_it() -> None:
    free, drained = host(0, *["free"] * 8), host(2, *["drained"] * 8)
    rows = host_rows(fleet((free, drained, host(1, *["free"] * 7, "busy"))))
    assert [is_whole_and_free(row) for row in rows] == [True, False, False]


def test_a_host_whose_gpus_sleep_is_free() -> None:
    (row,) = host_rows(fleet((host(0, "asleep", *["free"] * 7),)))
    assert row.free == 8
    assert is_whole_and_free(row)


def test_a_filter_leaves_what_passes() -> None:
    hosts = (host(0, "busy", "free"), host(1, "busy"), host(2, devices=(), state="down"))
    all_rows = host_rows(fleet(hosts))
    rows = fitting(all_rows, lambda _, each: each is not None and each.status == "free")
    assert [(row.host.name, row.gpus) for row in rows] == [("gpu0000", 1)]
    assert rows[0].missing == 6


def training(number: int, **fields: object) -> FleetHost:
    """A host of a job of eight hosts, whose last GPU has other fields."""
    own = {"sm_clock_mhz": 1980, "job": f"{number // 8}"}
    busy = [device(n, uuid=f"GPU-{number}-{n}", **own) for n in range(7)]
    last = device(7, **{"uuid": f"GPU-{number}-7", **own, **fields})
    return host(number, devices=(*busy, last))


def test_the_state_and_the_order_of_a_host_are_those_of_its_worst_finding() -> None:
    worst = {
        "1 LOST": training(0, state="lost"),
        "6 GONE": host(1, "hot", "busy"),
        "1 XID 79": training(2, xid=79),
        "DOWN": host(3, state="down"),
        "STALE": host(4, state="stale"),
        "1 XID 31": training(5, xid=31),
        "1 slow": training(6, sm_clock_mhz=1200),
        "1 hot": training(7, status="hot"),
        "1 held idle": training(8, status="held-idle", idle_seconds=7200.0, users=("bob",)),
        "drained": host(9, *["free"] * 8, drain_reason="firmware"),
        "ok": training(10),
    }
    found = Reducer().reduce(fleet(tuple(reversed(worst.values()))))
    rows = sorted(host_rows(found), key=lambda row: row.worst_first)
    assert [row.state_text for row in rows] == list(worst)
    levels = ["critical"] * 4 + ["warn"] * 5 + ["ok"] * 2
    assert [row.level for row in rows] == levels
    # The document has it, too, and a filter does not hide it.
    rules = {str(each.name): each.worst_finding for each in found.hosts}
    assert [rules[row.host.name] for row in rows[:3]] == [
        "gpus-lost",
        "gpus-missing",
        "xid-critical",
    ]
    (row, *_) = fitting(rows, lambda _, each: each is not None and each.status == "busy")
    assert row.state_text == "1 LOST"


def test_a_gpu_without_a_uuid_is_counted_as_any_other() -> None:
    lost = device(3, uuid=None, state="lost", job=None)
    several = host(0, devices=(*(device(n) for n in range(3)), lost), expected_devices=4)
    (row,) = host_rows(Reducer().reduce(fleet((several,))))
    assert (row.state_text, row.concerned) == ("1 LOST", 1)


def test_names_are_shortened_by_their_number() -> None:
    assert brief(()) == "-"
    assert brief(("a", "b")) == "a, b"
    assert brief(("a", "b", "c", "d")) == "a, b +2"
