"""What the doctor found, for people: a line per check, and under it what to do."""

from __future__ import annotations

from collections.abc import Sequence

from gpudash.doctor import Check, Verdict
from gpudash.model.text import pad, wrap
from gpudash.output.table import Style, painter, shown

_STYLES: dict[Verdict, Style] = {"PASS": "green", "WARN": "yellow", "FAIL": "red"}
_INDENT = 6
_LINES = 8


def render(checks: Sequence[Check], *, width: int, color: bool, ascii: bool) -> str:
    """Return the checks, wrapped to that many columns, and a line that counts them."""
    paint = painter(color)
    topics = max((len(check.topic) for check in checks), default=0)
    margin = _INDENT + topics + 2
    out: list[str] = []
    for check in checks:
        head = paint(check.verdict, _STYLES[check.verdict])
        first, *others = _wrapped(check.finding, width - margin, ascii)
        out.append(f"{head}  {pad(check.topic, topics)}  {first}")
        out += [" " * margin + line for line in others]
        if check.advice:
            arrow = "-> " if ascii else "→ "
            lines = _wrapped(arrow + check.advice, width - margin, ascii)
            out += [" " * margin + paint(line, "bold") for line in lines]
    return "\n".join([*out, "", _count(checks)]) + "\n"


def _wrapped(text: str, cells: int, ascii: bool) -> list[str]:
    return wrap(shown(text, ascii), max(cells, 20), lines=_LINES)


def _count(checks: Sequence[Check]) -> str:
    counts = {verdict: sum(check.verdict == verdict for check in checks) for verdict in _STYLES}
    return ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
