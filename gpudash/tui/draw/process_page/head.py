"""The top of the page about a process: who it is, how it is doing, where and by which command."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace
from rich.segment import Segment

from gpudash.analysis.inspection import Inspection
from gpudash.analysis.labels import command, short_command
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.secrets import mask_arguments
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import cut, fold, pad
from gpudash.model.units import ABSENT, Unit, duration, readable, size
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.theme import Theme

SPANS = (60.0, 120.0, 300.0)
"""How far back the curves may reach, in seconds."""


def span_of(seen_seconds: float) -> float:
    """Return how far back they reach for a process that was seen for so long."""
    return next((span for span in SPANS if seen_seconds <= span), SPANS[-1])


class Sight(NamedTuple):
    """A process as it was seen last, and what is known beside its row."""

    row: ProcessRow
    snapshot: Snapshot
    mark: str = ""
    """Why the numbers of the row are not those of now, empty if they are."""
    idle_seconds: float | None = None
    series: Callable[[str, int], Sequence[float | None]] = lambda _field, points: [None] * points
    """Gives so many points of a number of PROCESS_METRICS over the last `span` seconds."""
    span: float = SPANS[-1]
    inspection: Inspection | None = None
    waiting: str = ""
    """That the first look is still awaited, or the next one overdue; else empty."""
    disk_rates: tuple[float | None, float | None] = (None, None)
    """Bytes read and written per second."""
    shows_secrets: bool = False
    reveal_key: str = "x"
    """The key that shows and hides them."""

    def command(self, process: Process, *, short: bool = False) -> str:
        """Return a command line, secrets in it hidden until asked for."""
        if process.command_line:
            process = replace(process, command_line=self._arguments(process))
        return short_command(process) if short else command(process)

    def _arguments(self, process: Process) -> tuple[str, ...]:
        line = tuple(process.command_line or ())
        if not self.shows_secrets:
            return _masked(line)
        if self.inspection is None or process.key != self.row.process.key:
            return line
        # A snapshot holds no secrets, what was read here does.
        return self.inspection.command_line or line


@lru_cache(maxsize=512)
def _masked(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return mask_arguments(arguments)


_LABEL = 9
_FACT = 26
"""Cells of a label and a short value."""

_MOST_ACROSS = 4
_COMMAND_LINES = 3

Fact = tuple[str, str]


def head(sight: Sight, theme: Theme, cells: int) -> list[Line]:
    """Return the name and all facts that are numbers or short texts."""
    room = cells - 2 * MARGIN
    across = max(1, min(_MOST_ACROSS, room // _FACT))
    facts = _facts(sight)
    lines = [_title(sight, theme, cells), []]
    for start in range(0, len(facts), across):
        lines.append(_beside(facts[start : start + across], room // across, theme))
    for label, text in _places(sight):
        lines.append(_labelled(label, cut(text, room - _LABEL, mark=theme.glyphs.ellipsis), theme))
    for number, text in enumerate(_command(sight, room - _LABEL, theme)):
        lines.append(_labelled("" if number else "command", text, theme))
    return lines


def command_is_cut(sight: Sight, cells: int) -> bool:
    """Whether the head of that width shows only the beginning of the command line."""
    return len(_folded(sight, cells - 2 * MARGIN - _LABEL)) > _COMMAND_LINES


def _title(sight: Sight, theme: Theme, cells: int) -> Line:
    process = sight.row.process
    name = (process.command_line or ("",))[0].rpartition("/")[2].partition(" ")[0]
    left = [
        Segment(" " * MARGIN, theme.base),
        Segment(str(process.pid), theme.strong),
        Segment("  ", theme.base),
        Segment(process.name or name or ABSENT, theme.title),
    ]
    if process.username:
        left += [Segment(" of ", theme.dim), Segment(process.username, theme.owner)]
    left.append(Segment(f"  on GPU {sight.row.gpus}", theme.dim))
    right: Line = []
    if sight.mark:
        right = [Segment(f" {sight.mark} ", theme.mark)]
    elif sight.waiting:
        right = [Segment(sight.waiting + theme.glyphs.ellipsis, theme.dim)]
    return spread(left, [*right, Segment(" " * MARGIN, theme.base)], cells, theme.base)


def _facts(sight: Sight) -> list[Fact]:
    process, seen = sight.row.process, sight.inspection
    read, written = sight.disk_rates
    facts = [
        ("state", process.status or ABSENT),
        ("age", duration(sight.row.age_seconds)),
        ("cpu", readable(process.cpu_percent, Unit.PERCENT)),
        ("resident", size(process.resident_memory_bytes)),
    ]
    if seen is None or seen.thread_count is not None or seen.open_file_count is not None:
        facts += [
            ("threads", readable(seen and seen.thread_count)),
            ("files", readable(seen and seen.open_file_count)),
            ("reads", readable(read, Unit.BYTE_PER_SECOND)),
            ("writes", readable(written, Unit.BYTE_PER_SECOND)),
        ]
    return facts


def _places(sight: Sight) -> list[Fact]:
    """Return what it belongs to and where it runs, as far as that is known."""
    places = []
    if sight.row.process.job is not None:
        places.append(("job", sight.row.process.job.label))
    if sight.inspection is not None and sight.inspection.working_directory is not None:
        places.append(("folder", str(sight.inspection.working_directory)))
    return places


def _command(sight: Sight, cells: int, theme: Theme) -> list[str]:
    lines = _folded(sight, cells)
    shown = lines[:_COMMAND_LINES]
    if len(lines) > _COMMAND_LINES:
        mark = theme.glyphs.ellipsis
        shown[-1] = cut(f"{shown[-1]} {lines[_COMMAND_LINES]}", max(0, cells - 1), mark="") + mark
    return shown


def _folded(sight: Sight, cells: int) -> list[str]:
    return fold(sight.command(sight.row.process), cells)


def _beside(facts: Sequence[Fact], cells: int, theme: Theme) -> Line:
    line = [Segment(" " * MARGIN, theme.base)]
    for label, text in facts:
        value, unit = text.rsplit(" ", 1) if " " in text else (text, "")
        style = theme.faint if text == ABSENT else theme.base
        taken = len(value) + len(unit) + bool(unit)
        line += [
            Segment(pad(label, _LABEL), theme.dim),
            Segment(value, style),
            Segment(f" {unit}" if unit else "", theme.dim),
            Segment(" " * max(1, cells - _LABEL - taken), theme.base),
        ]
    return line


def _labelled(label: str, text: str, theme: Theme) -> Line:
    return [
        Segment(" " * MARGIN, theme.base),
        Segment(pad(label, _LABEL), theme.dim),
        Segment(text, theme.base),
    ]
