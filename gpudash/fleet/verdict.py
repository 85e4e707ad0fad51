"""Whether many hosts can be left alone: the critical findings, else the warnings, since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from gpudash.analysis.health.rule import rough_duration, since_clock
from gpudash.fleet.summary import part_of
from gpudash.model.snapshot import Finding
from gpudash.model.state import Level
from gpudash.model.units import counted

_NEW_SECONDS = 3600.0
"""How long a finding counts as new, and its age is shown."""


class Verdict(NamedTuple):
    """A summary of all findings in a few short phrases, the most important first."""

    texts: tuple[str, ...]
    """Empty without hosts and findings."""
    level: Level


def verdict(
    findings: Sequence[Finding],
    answering: int,
    hosts: int,
    now: datetime,
    *,
    is_asking: bool,
    is_part: bool = False,
) -> Verdict:
    """Return the summary of findings about hosts at an instant, `answering` of which answer.

    Acknowledged findings are not news, and unknown is not taken for well: if hosts are silent, it
    says on how many nothing is critical, and if a finding's start is unknown, it does not say that
    none is new. `is_asking` means that sources are still being asked, `is_part` that a filter hides
    some.
    """
    if not hosts and not findings:
        return Verdict((), "unknown")
    news = [each for each in findings if each.acknowledged is None]
    critical = [each for each in news if each.level == "critical"]
    if critical:
        return Verdict((f"{len(critical):,} critical", _newest(critical, now)), "critical")
    if not answering:
        return Verdict(("not known: no host answers",), "unknown")
    known = sum(each.acknowledged is not None and each.level == "critical" for each in findings)
    is_whole = answering >= hosts
    text = "nothing critical" + (f" but {known:,} acknowledged" if known else "")
    text += " of what is shown" if is_part else ""
    text += "" if is_whole else f" on {part_of(answering, hosts, 'host')}"
    text += " so far" if is_asking else ""
    warnings = [each for each in news if each.level == "warn"]
    if warnings:
        return Verdict((text, counted(len(warnings), "warning"), _newest(warnings, now)), "warn")
    if is_asking:
        return Verdict((text, "still asking"), "unknown")
    return Verdict((text, "no warning"), "ok" if is_whole else "unknown")


def _newest(findings: Sequence[Finding], now: datetime) -> str:
    """Return how new the newest of some findings is: `newest 40 s ago`, `none new since 02:54`."""
    ages = []
    for each in findings:
        age = each.held_seconds if each.newest_seconds is None else each.newest_seconds
        if age is None:
            return "since when is not known of all"
        ages.append(age)
    newest = min(ages)
    if newest < _NEW_SECONDS:
        return f"newest {rough_duration(newest)} ago"
    return f"none new {since_clock(newest, now)}"
