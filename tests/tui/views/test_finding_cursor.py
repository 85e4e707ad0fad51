"""The cursor among findings: it stands on one of them, whatever comes, goes or changes its rank."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.snapshot import Evidence, Finding
from gpudash.tui.views.findings import FindingCursor
from tests.factories import gpu_uuid


def finding(rule: str, *gpus: int, **more: Any) -> Finding:
    fields: dict[str, Any] = {"level": "warn", "sentence": f"GPU {gpus}: {rule}"}
    uuids = tuple(map(gpu_uuid, gpus))
    return Finding(**{**fields, "rule": rule, "uuids": uuids, "indices": gpus, **more})


HELD = finding("held-idle", 0, 1, pids=(7, 8))
CAPPED = finding("power-capped", 2)
LOST = finding("lost", 3, level="critical")


def on(cursor: FindingCursor) -> str:
    assert cursor.finding is not None
    return cursor.finding.rule


def test_it_stands_on_the_first_from_the_first_sample_on() -> None:
    cursor = FindingCursor()
    cursor.follow([HELD, CAPPED])
    cursor.follow([LOST, CAPPED, HELD])
    assert (on(cursor), cursor.place) == ("held-idle", 2)


@pytest.mark.parametrize(
    "later",
    [
        finding("held-idle", 0, 1, pids=(7, 8, 9)),
        finding("held-idle", 1, pids=(8,)),
        finding("held-idle", 0, 1, 2, 3, pids=(6, 7, 8, 9), level="info", sentence="others"),
    ],
)
def test_it_stays_while_processes_and_gpus_join_and_leave(later: Finding) -> None:
    cursor = FindingCursor()
    cursor.follow([HELD])
    cursor.follow([LOST, finding("held-idle", 0, 1, pids=(70,)), later])
    assert cursor.place == 2


def test_another_owner_on_the_same_gpu_is_another_finding() -> None:
    cursor = FindingCursor()
    cursor.follow([HELD, CAPPED])
    cursor.follow([finding("held-idle", 0, 1, pids=(99,)), HELD])
    assert cursor.place == 1


def test_two_of_a_rule_on_one_gpu_are_told_apart_by_their_proof() -> None:
    def xid(code: int, *gpus: int) -> Finding:
        proofs = tuple(Evidence(name="xid_code", value=code, of=f"GPU {gpu}") for gpu in gpus)
        return finding("xid", *gpus, evidence=proofs)

    cursor = FindingCursor()
    cursor.follow([xid(63, 0)])
    cursor.follow([xid(48, 0), xid(63, 0, 1)])
    assert cursor.place == 1


def test_it_goes_back_to_one_that_a_sample_left_out() -> None:
    cursor = FindingCursor()
    cursor.follow([LOST, CAPPED, HELD])
    cursor.move_to(1, [LOST, CAPPED, HELD])
    cursor.follow([LOST, HELD])
    assert on(cursor) == "held-idle"
    cursor.follow([HELD, LOST])
    assert on(cursor) == "held-idle"
    cursor.follow([HELD, LOST, CAPPED])
    assert on(cursor) == "power-capped"


def test_it_does_not_go_back_once_it_was_moved() -> None:
    cursor = FindingCursor()
    cursor.follow([CAPPED, HELD, LOST])
    cursor.follow([HELD, LOST])
    cursor.move_to(1, [HELD, LOST])
    cursor.follow([CAPPED, HELD, LOST])
    assert on(cursor) == "lost"


def test_without_findings_it_stands_on_none_and_waits() -> None:
    cursor = FindingCursor()
    cursor.follow([])
    assert cursor.finding is None
    cursor.follow([CAPPED])
    cursor.follow([])
    assert (cursor.finding, cursor.place) == (None, 0)
    cursor.follow([HELD, CAPPED])
    assert on(cursor) == "power-capped"


RULES = [finding(rule, gpu) for rule in ("lost", "xid", "held-idle") for gpu in range(3)]


@given(st.sampled_from(RULES), st.lists(st.permutations(RULES), min_size=1, max_size=6))
def test_no_order_moves_it(chosen: Finding, orders: list[list[Finding]]) -> None:
    cursor = FindingCursor()
    cursor.follow(RULES)
    cursor.move_to(RULES.index(chosen), RULES)
    for order in orders:
        cursor.follow(order)
        assert cursor.finding == chosen
        assert order[cursor.place] == chosen
