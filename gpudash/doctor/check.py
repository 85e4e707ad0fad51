"""What a check found out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Verdict = Literal["PASS", "WARN", "FAIL"]

_ORDER: tuple[Verdict, ...] = ("PASS", "WARN", "FAIL")


class Check(Struct, frozen=True, kw_only=True):
    """One thing looked at: how it stands, what was seen, and what to do if it is not well."""

    topic: str
    verdict: Verdict
    finding: str
    advice: str | None = None


def worst(checks: Iterable[Check]) -> Verdict:
    """Return the gravest verdict, PASS when there is none."""
    return max((check.verdict for check in checks), key=_ORDER.index, default="PASS")


def passed(topic: str, finding: str) -> Check:
    """Return a check that found all well."""
    return Check(topic=topic, verdict="PASS", finding=finding)


def warned(topic: str, finding: str, advice: str | None = None) -> Check:
    """Return a check that found something which limits what can be seen or done."""
    return Check(topic=topic, verdict="WARN", finding=finding, advice=advice)


def failed(topic: str, finding: str, advice: str | None = None) -> Check:
    """Return a check that found something broken."""
    return Check(topic=topic, verdict="FAIL", finding=finding, advice=advice)
