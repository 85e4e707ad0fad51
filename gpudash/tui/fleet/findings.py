"""The page of what is wrong or wasteful: the evidence first, then what to do about it."""

from __future__ import annotations

from itertools import groupby

from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.health.rule import proof_text, rough_duration
from gpudash.fleet.summary import brief
from gpudash.model.fleet import FleetFinding
from gpudash.model.text import fold
from gpudash.tui.draw.devices import MARKS, level_style
from gpudash.tui.draw.line import Line, highlighted
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.theme import Theme

_INDENT = 4


class FindingsPage:
    """Findings one below the other, the worst first, a cursor on one."""

    def __init__(self) -> None:
        self._first = 0
        self._starts: list[int] = []
        """The line of each finding, as they were drawn."""
        self._page = 1

    def lines(self, model: FleetModel, theme: Theme, cells: int, height: int) -> list[Line]:
        """Return the findings in view, the one under the cursor whole."""
        if not model.findings:
            return [[], [Segment(" Nothing is wrong", theme.dim)]]
        lines: list[Line] = []
        self._starts = []
        for number, finding in enumerate(model.findings):
            block = _block(finding, theme, cells)
            if number == model.finding:
                block[0] = highlighted(block[0], theme, cells)
            self._starts.append(len(lines))
            lines += [*block, []]
        start = self._starts[model.finding]
        end = (
            self._starts[model.finding + 1] if model.finding + 1 < len(self._starts) else len(lines)
        )
        self._first = min(max(self._first, end - height), start, max(0, len(lines) - height))
        self._page = max(1, height // max(1, len(lines) // len(self._starts)))
        return lines[self._first : self._first + height]

    def move(self, model: FleetModel, rows: int) -> None:
        """Move the cursor by findings."""
        model.finding = max(0, min(model.finding + rows, len(model.findings) - 1))

    def page(self, model: FleetModel, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.move(model, pages * self._page)

    def clicked(self, model: FleetModel, _x: int, y: int) -> bool:
        """Put the cursor on a finding; return whether it was there."""
        line = y + self._first
        before = model.finding
        found = [n for n, start in enumerate(self._starts) if start <= line]
        if found:
            model.finding = found[-1]
        return model.finding == before


def _block(finding: FleetFinding, theme: Theme, cells: int) -> list[Line]:
    """Return a finding: its sentence, what proves it, where, and what to do."""
    room = max(20, cells - _INDENT - 1)
    lines: list[Line] = []
    for number, text in enumerate(fold(str(finding.sentence), room)):
        mark = MARKS[finding.level] if not number else "  "
        lines.append([Segment(f" {mark} {text}", level_style(finding, theme))])
    for of, proofs in groupby(finding.evidence, key=lambda proof: proof.of):
        proof = "; ".join(map(proof_text, proofs))
        lines += _indented(f"{of}: {proof}" if of else proof, theme.base, room)
    where = f"on {brief(finding.hosts, 6)}" if finding.hosts else ""
    since = finding.held_seconds
    lasting = "" if since is None else f"for {rough_duration(since)}"
    lines += _indented("; ".join(filter(None, (lasting, where))), theme.base, room)
    return lines + _indented(str(finding.advice), theme.dim, room)


def _indented(text: str, style: Style, room: int) -> list[Line]:
    return [[Segment(" " * _INDENT + part, style)] for part in fold(text, room)] if text else []
