"""What is wrong or wasteful: a line each for the worst, or all with their proof and a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.health.rule import LEFT_OUT, spoken
from gpudash.model.device_fields import label
from gpudash.model.snapshot import Evidence, Finding, FindingLevel
from gpudash.model.text import cut, fold
from gpudash.model.units import Unit, readable
from gpudash.tui.draw.line import Line, cells_of, highlighted, spread
from gpudash.tui.theme import Theme

MARKS: dict[FindingLevel, str] = {"critical": "!!", "warn": "! ", "info": "  "}
"""What stands before a finding, so that its level is not told by colour alone."""

_INDENT = 4
_UNITS = {unit.suffix: unit for unit in Unit}


def worst(findings: Sequence[Finding], theme: Theme, cells: int, most: int) -> list[Line]:
    """Return so many findings in a line each; the last says how many more there are."""
    shown = findings[:most]
    lines = [_headline(finding, theme, cells) for finding in shown]
    left = len(findings) - len(shown)
    if left and lines:
        more = [Segment(f"  +{left} more: w ", theme.dim)]
        lines[-1] = _headline(shown[-1], theme, cells - cells_of(more))
        lines[-1] = spread(lines[-1], more, cells, theme.base)
    return lines


def _headline(finding: Finding, theme: Theme, cells: int) -> Line:
    text = f" {MARKS[finding.level]} {finding.sentence}"
    mark = theme.glyphs.ellipsis
    return [Segment(cut(text, max(0, cells - 1), mark=mark), level_style(finding, theme))]


def level_style(finding: Finding, theme: Theme) -> Style:
    """Return how a finding looks."""
    return theme.base if finding.level == "info" else theme.level(finding.level)


def whole(finding: Finding, theme: Theme, cells: int, *, under_cursor: bool) -> list[Line]:
    """Return a finding in full: its sentence, since when, the proof, and what to do."""
    room = max(8, cells - _INDENT - 1)
    lines: list[Line] = []
    for number, text in enumerate(fold(finding.sentence, room)):
        mark = MARKS[finding.level] if not number else "  "
        lines.append([Segment(f" {mark} {text}", level_style(finding, theme))])
    lines += [_indented(text, theme.base) for text in fold(finding.advice, room)]
    if finding.held_seconds is not None:
        lines.append(_indented(f"for {spoken(finding.held_seconds)}", theme.dim))
    for of, proofs in groupby(finding.evidence, key=lambda proof: proof.of):
        # A value may be a list with commas.
        told = "; ".join(map(_told, proofs))
        text = f"{of}: {told}" if of else told
        lines += [_indented(part, theme.dim) for part in fold(text, room)]
    if under_cursor:
        lines[0] = highlighted(lines[0], theme, cells)
    return lines


def _indented(text: str, style: Style) -> Line:
    return [Segment(" " * _INDENT + text, style)]


def _told(proof: Evidence) -> str:
    """Return a number as people read it: `Power usage 412.3 W`, a span as sentences tell it.

    The number of those whose proof is left out ends the list: `and 18 more`.
    """
    if proof.unit == Unit.SECOND.suffix and isinstance(proof.value, (int, float)):
        return f"{label(proof.name)} {spoken(proof.value)}"
    if proof.name == LEFT_OUT:
        return f"and {readable(proof.value, Unit.NONE)} more"
    return f"{label(proof.name)} {readable(proof.value, _UNITS.get(proof.unit, Unit.NONE))}"


def heading(findings: Sequence[Finding]) -> str:
    """Return how many there are of each level: `2 critical, 1 warn, 3 info`."""
    levels: tuple[FindingLevel, ...] = ("critical", "warn", "info")
    counts = [(sum(each.level == level for each in findings), level) for level in levels]
    return ", ".join(f"{count} {level}" for count, level in counts if count)
