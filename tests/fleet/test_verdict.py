from datetime import datetime

import pytest

from gpudash.fleet.verdict import verdict
from gpudash.model.snapshot import Finding, FindingLevel

NOON = datetime(2026, 11, 27, 12).astimezone()


def finding(level: FindingLevel, hours: float | None = 3.0, **fields: object) -> Finding:
    held = None if hours is None else hours * 3600
    return Finding(rule="x", level=level, sentence="x", held_seconds=held, **fields)  # type: ignore[arg-type]


CRITICAL, WARNING, REMARK = finding("critical"), finding("warn", 1), finding("info", 0.5)
NEWER = finding("critical", 9, newest_seconds=600.0)
KNOWN = finding("critical", 0.1, acknowledged="RMA 4711")


@pytest.mark.parametrize(
    ("findings", "answering", "text", "level"),
    [
        ([CRITICAL, WARNING], 4, "1 critical, none new since 09:00", "critical"),
        ([CRITICAL, NEWER, KNOWN], 4, "2 critical, newest 10 min ago", "critical"),
        ([CRITICAL, finding("critical", 0.0)], 4, "2 critical, newest 0 s ago", "critical"),
        ([CRITICAL], 0, "1 critical, none new since 09:00", "critical"),
        ([WARNING, REMARK], 4, "nothing critical, 1 warning, none new since 11:00", "warn"),
        ([REMARK], 4, "nothing critical, no warning", "ok"),
        ([KNOWN], 4, "nothing critical but 1 acknowledged, no warning", "ok"),
        ([finding("critical", 15)], 4, "1 critical, none new since 11-26 21:00", "critical"),
        # What is not known is no comfort.
        (
            [CRITICAL, finding("critical", None)],
            4,
            "2 critical, since when is not known",
            "critical",
        ),
        ([], 3, "nothing critical on 3 of 4 hosts, no warning", "unknown"),
        ([], 0, "not known: no host answers", "unknown"),
        ([WARNING], 0, "not known: no host answers", "unknown"),
    ],
)
def test_whether_all_can_be_left_alone(
    findings: list[Finding], answering: int, text: str, level: str
) -> None:
    found = verdict(findings, answering, 4, NOON, is_asking=False)
    assert ", ".join(found.texts).removesuffix(" of all") == text
    assert found.level == level


def test_without_hosts_nothing_is_said() -> None:
    assert verdict([], 0, 0, NOON, is_asking=False).texts == ()
    # That no source answers is a finding.
    assert verdict([CRITICAL], 0, 0, NOON, is_asking=False).level == "critical"
    assert verdict([WARNING], 0, 0, NOON, is_asking=False).texts == ("not known: no host answers",)


def test_while_sources_are_asked_nothing_is_well_yet() -> None:
    assert verdict([], 4, 4, NOON, is_asking=True) == (
        ("nothing critical so far", "still asking"),
        "unknown",
    )
    texts = verdict([WARNING], 4, 4, NOON, is_asking=True).texts
    assert texts[:2] == ("nothing critical so far", "1 warning")
    assert verdict([CRITICAL], 4, 4, NOON, is_asking=True).level == "critical"


def test_what_a_filter_leaves_is_not_taken_for_all() -> None:
    found = verdict([], 1, 1, NOON, is_asking=False, is_part=True)
    assert found.texts == ("nothing critical of what is shown", "no warning")
