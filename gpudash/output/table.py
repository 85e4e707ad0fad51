"""A snapshot as a table for people: the host, its devices, and their holders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import chain
from typing import Literal, TypeVar

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.columns.leases import LEASE_COLUMNS, lease_rows
from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.forest import in_ascii
from gpudash.analysis.health.findings import findings
from gpudash.analysis.health.rule import since
from gpudash.analysis.table import (
    GAP,
    BarGlyphs,
    Column,
    DeviceRow,
    FittedColumn,
    ProcessRow,
    bar_text,
    device_rows,
    fit,
    line_cells,
    process_rows,
)
from gpudash.analysis.usage import no_processes_text, tally, totals
from gpudash.model.snapshot import Finding, FindingLevel, Snapshot
from gpudash.model.state import BUSY, Level, State
from gpudash.model.text import clean, cut, fold, pad, width, wrap
from gpudash.model.units import ABSENT

Style = Literal["plain", "bold", "dim", "green", "yellow", "red"]
Line = list[tuple[str, Style]]
"""One line: texts with their styles."""

Row = TypeVar("Row")
_NUMBER = "0123456789."
_BLOCKS = BarGlyphs("█", tuple("▏▎▍▌▋▊▉"), " ", only_one_is_full=False)
_ASCII_BAR = BarGlyphs("#", (), ".", only_zero_is_empty=False, only_one_is_full=False)
LEVELS: dict[Level, Style] = {"unknown": "dim", "ok": "green", "warn": "yellow", "critical": "red"}
# A normal number has no colour, so that coloured ones stand out.
_NUMBERS: dict[Level, Style] = {**LEVELS, "ok": "plain"}
Paint = Callable[[str, Style], str]
"""Returns a text in a style."""

# The sixteen colours of the terminal's own theme, suitable for light and dark ones.
_SGR: dict[Style, str] = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "1;31"}
_MIN_BAR = 5
_MIN_MESSAGE = 24
_PAGE = 80
_IDENTITY = frozenset({"index", "name"})
_LEVELS: dict[FindingLevel, Style] = {"critical": "red", "warn": "yellow", "info": "plain"}
"""The styles of findings."""


def render(
    snapshot: Snapshot,
    *,
    width: int = 80,
    color: bool = False,
    ascii: bool = False,
    processes: Sequence[ProcessRow] | None = None,
) -> str:
    """Return the table, at most `width` cells wide.

    It lists `processes`, or all for None, while counts and states are of the whole host. With
    `ascii`, only ASCII is used and foreign text is escaped.
    """
    rows = device_rows(snapshot)
    columns = _device_columns(rows, width)
    sections = (
        _header(snapshot, min(width, max(line_cells(columns), _PAGE)), ascii),
        _devices(rows, columns, width, ascii),
        _processes(snapshot, processes, width, ascii),
        finding_lines(findings(snapshot), width, ascii=ascii),
        _errors(snapshot, width, ascii),
    )
    return painted(sections, width, color=color)


def render_leases(snapshot: Snapshot, *, width: int, color: bool) -> str:
    """Return a heading and a line for each lease, or a message that there is none."""
    rows = lease_rows(snapshot)
    if not rows:
        return "No GPU is leased: gpudash run -n 1 -- COMMAND leases one\n"
    return painted((listing(LEASE_COLUMNS, rows, width, ascii=False),), width, color=color)


def painted(sections: Sequence[Sequence[Line]], room: int, *, color: bool) -> str:
    """Return the nonempty sections, separated by blank lines; long lines are wrapped."""
    paint = painter(color)
    lines: list[str] = []
    for section in filter(None, sections):
        lines += [""] if lines else []
        for line in chain.from_iterable(_folded(line, room) for line in section):
            lines.append("".join([paint(text, style) for text, style in line]).rstrip(" "))
    return "".join(f"{line}\n" for line in lines)


def _header(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    host = snapshot.host
    left: Line = [(shown(host.hostname, ascii), "bold")]
    if host.simulated:
        left.append(("  simulated", "yellow"))
    for label, value in (("driver", host.driver_version), ("CUDA", host.cuda_driver_version)):
        if value is not None:
            left += [(f"  {label} ", "dim"), (shown(value, ascii), "plain")]
    return [spread(left, [(local_time(snapshot.taken_at), "dim")], room), *_summary(snapshot, room)]


def _summary(snapshot: Snapshot, room: int) -> list[Line]:
    opening, counts = tally(snapshot)
    line: Line = [(opening, "plain")]
    for count, state in counts:
        line += [(": " if len(line) == 1 else ", ", "plain")]
        line.append((f"{count} {state.word}", state_style(state)))
    if _cells(line) > room:
        return paragraph("".join(text for text, _ in line), "plain", room, ascii=True)
    return [spread(line, [(totals(snapshot), "dim")], room)]


def state_style(state: State) -> Style:
    """Return the style of a state's word."""
    if state.level == "critical":
        return "red"
    if state.level == "warn":
        return "yellow"
    return "green" if state is BUSY else "plain"


def _device_columns(rows: list[DeviceRow], room: int) -> list[FittedColumn[DeviceRow]]:
    readable = any(row.device.state == "ok" for row in rows)
    columns = [column for column in DEVICE_COLUMNS if readable or column.key in _IDENTITY]
    return fit(columns, rows, room, bar=_MIN_BAR)


def _devices(
    rows: list[DeviceRow], columns: list[FittedColumn[DeviceRow]], room: int, ascii: bool
) -> list[Line]:
    lines = [heading(columns)] if rows else []
    for row, line in zip(rows, body(columns, rows, ascii=ascii), strict=True):
        lines += [line] if row.device.state == "ok" else _unread(row, columns, room, ascii)
    return lines


def _unread(
    row: DeviceRow, columns: list[FittedColumn[DeviceRow]], room: int, ascii: bool
) -> list[Line]:
    """Return the row of a device without values: its identity, then the fault in words."""
    identity = [fitted for fitted in columns if fitted.column.key in _IDENTITY]
    while len(identity) > 1 and room - line_cells(identity) - GAP < _MIN_MESSAGE:
        identity.pop()
    start = line_cells(identity) + GAP
    fault = row.device.fault
    style: Style = "red" if row.level == "critical" else "dim"
    message = fault.message if fault else row.state.reason
    words = paragraph(f"{row.state.word}: {message}", style, room - start, ascii=ascii)
    if row.device.last_read is not None:
        words += paragraph(str(row.device.last_read), "dim", room - start, ascii=ascii)
    first = [*body(identity, [row], ascii=ascii)[0], (" " * GAP, "plain"), *words[0]]
    return [first, *([(" " * start, "plain"), *line] for line in words[1:])]


def _processes(
    snapshot: Snapshot, chosen: Sequence[ProcessRow] | None, room: int, ascii: bool
) -> list[Line]:
    rows = process_rows(snapshot) if chosen is None else chosen
    if not rows and snapshot.processes:
        return [[("No process matches the filter", "plain")]]
    if not rows:
        return [[(no_processes_text(snapshot), "plain")]]
    rows = [in_ascii(row) for row in rows] if ascii else rows
    return listing(PROCESS_COLUMNS, rows, room, ascii=ascii)


def finding_lines(
    found: Iterable[Finding], room: int, *, ascii: bool, now: datetime | None = None
) -> list[Line]:
    """Return the findings, with advice for those above level info.

    With the time `now`, also their start.
    """
    lines: list[Line] = []
    for finding in found:
        began = "" if now is None else since(finding, now)
        text = f"{finding.level}: {finding.sentence}" + (f", {began}" if began else "")
        style = _LEVELS[finding.level]
        if finding.acknowledged is not None:
            text, style = f"acknowledged ({finding.acknowledged}): {finding.sentence}", "dim"
        lines += paragraph(text, style, room, ascii=ascii, indent=2)
        if finding.acknowledged is None and finding.level != "info" and finding.advice:
            words = paragraph(finding.advice, "dim", max(1, room - 2), ascii=ascii)
            lines += [[("  ", "plain"), *line] for line in words]
    return lines


def _errors(snapshot: Snapshot, room: int, ascii: bool) -> list[Line]:
    lines: list[Line] = []
    for error in snapshot.errors:
        lines += paragraph(f"! {error.message}", "yellow", room, ascii=ascii, indent=2)
    return lines


def listing(
    columns: Sequence[Column[Row]], rows: Sequence[Row], room: int, *, ascii: bool, bar: int = 0
) -> list[Line]:
    """Return a heading and a line for each row, empty without rows; `bar` is passed to `fit`."""
    fitted = fit(columns, rows, room, bar=bar)
    return [heading(fitted), *body(fitted, rows, ascii=ascii)] if rows else []


def heading(columns: Sequence[FittedColumn[Row]]) -> Line:
    """Return the headers, each above its bar and text."""
    line: Line = []
    for fitted in columns:
        align = "<" if fitted.bar else fitted.column.align
        line += [(pad(fitted.column.header, fitted.cells, align), "dim"), (" " * GAP, "plain")]
    return line[:-1]


def body(columns: Sequence[FittedColumn[Row]], rows: Sequence[Row], *, ascii: bool) -> list[Line]:
    """Return one line for each row."""
    lines: list[Line] = [[] for _ in rows]
    for fitted in columns:
        for line, row, text in zip(lines, rows, _texts(fitted, rows, ascii), strict=True):
            gap: Line = [(" " * GAP, "plain")] if line else []
            line.extend(gap + _bar_before(fitted, row, ascii) + _cell(fitted, row, text))
    return lines


def _texts(fitted: FittedColumn[Row], rows: Sequence[Row], ascii: bool) -> list[str]:
    """Return the texts of a column cut to its width, in the short form if any is too long."""
    column = fitted.column
    texts = [shown(column.text(row), ascii) for row in rows]
    if column.short and any(width(text) > fitted.width for text in texts):
        texts = [shown(column.short(row), ascii) for row in rows]
    return [pad(text, fitted.width, column.align, mark=ellipsis(ascii)) for text in texts]


def _bar_before(fitted: FittedColumn[Row], row: Row, ascii: bool) -> Line:
    share = fitted.column.share
    if not fitted.bar or share is None:
        return []
    value, glyphs = share(row), _ASCII_BAR if ascii else _BLOCKS
    drawn = " " * fitted.bar if value is None else "".join(bar_text(value, fitted.bar, glyphs))
    return [(drawn, _style(LEVELS, fitted.column.level, row)), (" ", "plain")]


def _cell(fitted: FittedColumn[Row], row: Row, text: str) -> Line:
    """Return a text in its style; a number's unit and limit are dimmed."""
    level = fitted.column.level
    if text.strip() == ABSENT:
        return [(text, "dim")]
    if fitted.column.align == "<":
        return [(text, _style(LEVELS, level, row))]
    unit = text.lstrip(" ").lstrip(_NUMBER)
    # `3m07s` is one number of two units; text after a slash is another number.
    unit = unit if "/" in unit or not any(map(str.isdigit, unit)) else ""
    number = text.removesuffix(unit)
    return [(number, _style(_NUMBERS, level, row)), (unit, "dim")]


def _style(styles: dict[Level, Style], level: Callable[[Row], Level] | None, row: Row) -> Style:
    return styles[level(row)] if level else "plain"


def paragraph(text: str, style: Style, room: int, *, ascii: bool, indent: int = 0) -> list[Line]:
    """Return text wrapped at words, with later lines indented."""
    first, *others = wrap(shown(text, ascii), room - indent, mark=ellipsis(ascii))
    return [[(first, style)], *([(" " * indent, "plain"), (line, style)] for line in others)]


def spread(left: Line, right: Line, room: int) -> Line:
    """Return both sides of a line, or only the left one if the two do not fit."""
    space = room - _cells(left) - _cells(right)
    return [*left, (" " * space, "plain"), *right] if space >= GAP else left


def _folded(line: Line, room: int) -> list[Line]:
    """Return a line wrapped between texts or words."""
    lines: list[Line] = [[]]
    left = room
    for text, style in line:
        for whole in [text] if width(text) <= room else fold(text, room):
            part = whole
            if width(part) > left:
                part = cut(part.strip(" "), room, mark="")
                lines += [[]] if part else []
                left = room if part else 0
            lines[-1].append((part, style))
            left -= width(part)
    return lines


def _cells(line: Line) -> int:
    return sum(width(text) for text, _ in line)


def local_time(moment: datetime) -> str:
    """Return a time in local time, to the second."""
    with suppress(OverflowError, OSError):  # at either end of the calendar it stays UTC
        moment = moment.astimezone()
    return moment.isoformat(" ", "seconds")[: len("2026-01-02 03:04:05")]


def ellipsis(ascii: bool) -> str:
    """Return the mark of a part left out."""
    return "..." if ascii else "…"


def shown(text: str, ascii: bool) -> str:
    """Return text fit for a terminal; with `ascii`, all other characters are escaped.

    The texts of a snapshot are already clean, but those from a check of the machine may not be.
    """
    safe = clean(text)
    return safe.encode("ascii", "backslashreplace").decode("ascii") if ascii else safe


def painter(color: bool) -> Paint:
    """Return a function that paints texts, or leaves them unchanged."""
    return _paint if color else _leave


def _paint(text: str, style: Style) -> str:
    code = _SGR.get(style)
    bare = text.strip(" ")
    if code is None or not bare:
        return text
    return text.replace(bare, f"\x1b[{code}m{bare}\x1b[0m", 1)


def _leave(text: str, style: Style) -> str:
    return text
