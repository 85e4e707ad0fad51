"""Each rule: what it finds in one sample, and what is no problem."""

from __future__ import annotations

from typing import Any

import pytest

from gpudash.analysis.health.findings import findings
from gpudash.analysis.health.rule import Rule
from gpudash.analysis.health.rules import FAMILIES, RULES
from gpudash.model.state import STATES
from tests.analysis.health.examined import of_device, rules
from tests.factories import GIB

ORPHAN: dict[str, Any] = {"memory_unaccounted_bytes": 12 * GIB, "minor_number": 3}
ERRING: dict[str, Any] = {
    "nvlink_count": 18,
    "nvlink_erring_links": (3,),
    "nvlink_crc_errors_per_second": 0.0,
    "nvlink_replays_per_second": 0.0,
    "nvlink_recoveries_per_second": 0.0,
}
CAPPED: dict[str, Any] = {"clocks_event_reasons": ("sw-power-cap",)}


def test_each_rule_that_a_family_declares_is_in_the_table() -> None:
    declared = {
        each for family in FAMILIES for each in vars(family).values() if isinstance(each, Rule)
    }
    assert declared == set(RULES)
    assert len({rule.rank for rule in RULES}) == len(RULES)


def test_what_is_found_is_in_the_table() -> None:
    found = rules(of_device(state="lost")) | rules(of_device(remapped_rows_failed=True))
    assert set(found) <= {rule.id for rule in RULES}


@pytest.mark.parametrize("state", [state.id for state in STATES if state.is_unreadable])
def test_every_state_in_which_a_gpu_cannot_be_read_is_a_finding_with_advice(state: str) -> None:
    of_gpu = findings(of_device(state=state))
    assert of_gpu
    assert all(finding.advice for finding in of_gpu)
