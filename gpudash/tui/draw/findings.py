"""Findings: the worst in a line each, or one in full with evidence and advice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby, islice

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.health.rule import LEFT_OUT, proof_text, rough_duration, since
from gpudash.model.snapshot import Evidence, Finding, FindingLevel
from gpudash.model.text import fold, width
from gpudash.tui.draw.line import Line, cells_of, highlighted, spread, with_signs
from gpudash.tui.theme import Theme

_MARKS: dict[FindingLevel, str] = {"critical": "!!", "warn": "! ", "info": "  "}
"""Marks before findings, so that their level is not shown by colour alone."""
_INDENT = 4
_MAX_SUBJECTS = _MAX_VALUES = 3
"""Processes or GPUs, and values of each, before the advice, which must be near its sentence."""


def worst(
    findings: Sequence[Finding],
    theme: Theme,
    cells: int,
    limit: int,
    key: str,
    *,
    now: datetime | None = None,
) -> list[Line]:
    """Return the first `limit` findings in a line each; the last counts the others.

    `key` is the one that shows all; with the time `now`, each has its start.
    """
    shown = findings[:limit]
    left = findings[limit:]
    new = sum(each.acknowledged is None for each in left)
    more = f"{new} more" if new else f"{len(left)} acknowledged"
    lines = []
    for number, finding in enumerate(shown, 1):
        right: Line = []
        if number == len(shown) and left:
            right = [Segment(f"  +{more}: ", theme.base), Segment(f"{key} ", theme.strong)]
        began = "" if now is None else _began(finding, now, (cells - cells_of(right)) // 2)
        right = [Segment(f"  {began} ", theme.dim)] * bool(began) + right
        # The text after it begins with blanks.
        line = _headline(finding, theme, cells - cells_of(right) + bool(right))
        lines.append(spread(line, right, cells, theme.base) if right else line)
    return lines


def _began(finding: Finding, now: datetime, cells: int) -> str:
    """Return the start of a finding, shortened if needed: half of the line is for its sentence."""
    whole = since(finding, now)
    return next((each for each in (whole, whole.partition(",")[0]) if width(each) <= cells), "")


def _headline(finding: Finding, theme: Theme, cells: int) -> Line:
    known = finding.acknowledged
    text = f" {_mark(finding)} {'' if known is None else f'({known}) '}{finding.sentence}"
    # Next to worse findings, an info is dimmed.
    style = (
        theme.dim if known is not None or finding.level == "info" else _level_style(finding, theme)
    )
    return [Segment(theme.cut(text, cells - 1), style)]


def _mark(finding: Finding) -> str:
    return _MARKS["info" if finding.acknowledged is not None else finding.level]


def _level_style(finding: Finding, theme: Theme) -> Style:
    if finding.acknowledged is not None:
        return theme.dim
    return theme.base if finding.level == "info" else theme.level(finding.level)


def whole(
    finding: Finding,
    theme: Theme,
    cells: int,
    *,
    under_cursor: bool,
    where: str = "",
    now: datetime | None = None,
) -> list[Line]:
    """Return a finding in full: sentence, start, evidence, places, and advice.

    Without the time `now`, show its duration instead of its start.
    """
    room = max(8, cells - _INDENT - 1)
    lines: list[Line] = []
    for number, text in enumerate(fold(finding.sentence, room)):
        mark = _mark(finding) if not number else "  "
        lines.append([Segment(f" {mark} {text}", _level_style(finding, theme))])
    held = "" if finding.held_seconds is None else f"for {rough_duration(finding.held_seconds)}"
    if now is not None:
        held = since(finding, now)
    if (finding.held_seconds or 0) >= 1 and not finding.sentence.endswith(held):
        lines.append(_indented(held, theme.dim))
    if finding.acknowledged is not None:
        known = fold(f"acknowledged: {finding.acknowledged}", room)
        lines += [_indented(part, theme.base) for part in known]
    for text in (*_proofs(finding.evidence), *filter(None, [where])):
        lines += [_indented(part, theme.dim) for part in fold(with_signs(text, theme), room)]
    style = theme.base if finding.acknowledged is None else theme.dim
    lines += [_indented(text, style) for text in fold(finding.advice, room)]
    if under_cursor:
        lines[0] = highlighted(lines[0], theme, cells)
    return lines


def _indented(text: str, style: Style) -> Line:
    return [Segment(" " * _INDENT + text, style)]


def _proofs(evidence: Sequence[Evidence]) -> list[str]:
    """Return a line of values for each subject, at most `_MAX_SUBJECTS`, then `and 18 more`."""
    counts = [proof.value for proof in evidence if proof.name == LEFT_OUT]
    left_out = sum(count for count in counts if isinstance(count, int))
    known = [proof for proof in evidence if proof.name != LEFT_OUT]
    # A value may be a list with commas.
    groups = [
        (f"{of}: " if of else "")
        + "; ".join(
            # Several values of one name, such as holders, are joined.
            proof_text(*same)
            for _, same in islice(groupby(proofs, key=lambda proof: proof.name), _MAX_VALUES)
        )
        for of, proofs in groupby(known, key=lambda proof: proof.of)
    ]
    left_out += len(groups[_MAX_SUBJECTS:])
    return groups[:_MAX_SUBJECTS] + ([f"and {left_out} more"] if left_out else [])
