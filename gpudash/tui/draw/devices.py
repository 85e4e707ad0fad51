"""The upper part of the screen: devices in a line each, the worst findings, charts.

On a wide terminal, a long list of devices takes two columns.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace
from rich.segment import Segment
from rich.style import Style

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.history import History
from gpudash.analysis.table import COMFORT_PRIORITY, Column, DeviceRow
from gpudash.model.snapshot import Finding, Host
from gpudash.model.state import Level
from gpudash.model.text import pad, width
from gpudash.model.units import ABSENT
from gpudash.tui.bindings import shown_key
from gpudash.tui.draw.bars import bar
from gpudash.tui.draw.findings import worst
from gpudash.tui.draw.grid import MARGIN, Grid, trend, with_trends
from gpudash.tui.draw.header import host_line
from gpudash.tui.draw.line import Line, beside, cells_of, fitted, highlighted, in_view, joined
from gpudash.tui.draw.main_charts import Trends, charts
from gpudash.tui.keymap import Key
from gpudash.tui.layout import MIN_DEVICE_CELLS, Layout
from gpudash.tui.theme import Theme

_ALARM = "!"
_GAP = 1
_WIDER_GAP = 3
_ROOMY = 16
"""Width of a device from which the gap after it is wider."""
_LABEL, _UTILIZATION, _MEMORY, _TEMPERATURE, _STATUS, _POWER = 2, 3, 4, 4, 9, 10
_MIN_BAR, _MAX_BAR = 3, 12
_BY_KEY: dict[str, Column[DeviceRow]] = {column.key: column for column in DEVICE_COLUMNS}


class _Parts(Struct, frozen=True):
    """The parts that fit besides number, utilization and memory."""

    label: int
    bar: int = 0
    temperature: bool = False
    status: bool = False
    power: bool = False


class DeviceCells:
    """Draws devices in the same number of cells each, with the same parts."""

    def __init__(self, rows: Sequence[DeviceRow], cells: int, theme: Theme) -> None:
        self._cells, self._theme = cells, theme
        room = cells - (_WIDER_GAP if cells >= _ROOMY else _GAP)
        self._parts = _parts(max((width(row.label) for row in rows), default=0), room)

    def heading(self) -> Line:
        """Return the heading of the numbers below."""
        parts = self._parts
        above_bar = " " * (parts.bar + _GAP if parts.bar else 0)
        # UTIL takes the gap before its number too: the narrowest have no room for GPU beside it.
        gpu = "GPU" if self._cells > MIN_DEVICE_CELLS else ""
        text = f"{gpu:{'>' if parts.bar else '<'}{1 + parts.label}}{above_bar}UTIL {above_bar}MEM%"
        text += " TEMP" if parts.temperature else ""
        text += f" {'POWER':>{_POWER}}" if parts.power else ""
        text += "  STATUS" if parts.status else ""
        return fitted([Segment(text, self._theme.heading)], self._cells, self._theme.base)

    def draw(self, row: DeviceRow) -> Line:
        """Return a device, with a mark before its number if it needs attention."""
        theme, parts = self._theme, self._parts
        status = _BY_KEY["status"]
        level = theme.level(_level(status, row))
        alarm = _level(status, row) in ("warn", "critical")
        line = [
            Segment(_ALARM if alarm else " ", level),
            Segment(pad(row.label, parts.label, ">"), theme.strong),
        ]
        if row.device.state != "ok":
            line.append(Segment(f" {status.text(row)}", level))
            return fitted(line, self._cells, theme.base)
        line += [*self._share("utilization", row), *self._share("memory_percent", row)]
        if parts.temperature:
            line += self._value("temperature", row, _TEMPERATURE)
        if parts.power:
            line += self._value("power", row, _POWER)
        if parts.status:
            line.append(Segment(f"  {status.text(row)}", level))
        return fitted(joined(line), self._cells, theme.base)

    def _share(self, key: str, row: DeviceRow) -> Line:
        """Return a percentage, after a bar if there is room."""
        theme, is_memory = self._theme, key == "memory_percent"
        column = _BY_KEY[key]
        line: Line = []
        if self._parts.bar:
            share = _BY_KEY["memory" if is_memory else key].share
            steps = theme.memory if is_memory else theme.utilization
            line.append(Segment(" ", theme.base))
            value = share(row) if share else None
            line += bar(value, self._parts.bar, steps, theme.track, theme.glyphs)
        text, style = self._text(column, row)
        cells = _MEMORY if is_memory else _UTILIZATION
        return [*line, Segment(f" {text.removesuffix('%'):>{cells}}", style)]

    def _value(self, key: str, row: DeviceRow, cells: int) -> Line:
        text, style = self._text(_BY_KEY[key], row)
        return [Segment(f" {text:>{cells}}", style)]

    def _text(self, column: Column[DeviceRow], row: DeviceRow) -> tuple[str, Style]:
        text, theme = column.text(row), self._theme
        if text == ABSENT:
            return theme.absent, theme.faint
        return text, theme.level(_level(column, row))


def _level(column: Column[DeviceRow], row: DeviceRow) -> Level:
    return column.level(row) if column.level else "ok"


def _parts(label: int, cells: int) -> _Parts:
    """Return the parts that fit, the most important first; bars take the rest."""
    label = max(_LABEL, label)
    spare = cells - (1 + label + 1 + _UTILIZATION + 1 + _MEMORY)
    if spare and label == _LABEL:
        # As wide as its heading.
        label, spare = label + 1, spare - 1
    temperature = spare > _TEMPERATURE
    spare -= 1 + _TEMPERATURE if temperature else 0
    length = _MIN_BAR if spare >= 2 * (_MIN_BAR + _GAP) else 0
    spare -= 2 * (length + _GAP) if length else 0
    status = spare > _STATUS + 1
    spare -= 2 + _STATUS if status else 0
    power = spare > _POWER
    spare -= 1 + _POWER if power else 0
    if length:
        length = min(_MAX_BAR, length + max(0, spare) // 2)
    return _Parts(label, length, temperature, status, power)


_BAR = 5

_NAMES = frozenset({"index", "name"})
_TREND, _CHARTED = "utilization_trend", "gpu_utilization_percent"
_ROLES = {"index": "strong", _TREND: "utilization"}
_CURVED_COLUMNS = with_trends(DEVICE_COLUMNS, {"utilization": trend(_TREND, _CHARTED, "", 7, 4)})
_BEFORE_BARS = frozenset({"name", "pcie", "encoder", "decoder"})
# A GPU alone has its bars' metrics charted below, but not these.
_COLUMNS_OF_ONE = [
    replace(column, priority=COMFORT_PRIORITY) if column.key in _BEFORE_BARS else column
    for column in DEVICE_COLUMNS
]


class DeviceTable:
    """Draws the devices of a snapshot under headings, with their past if there is room."""

    def __init__(self, trends: Trends) -> None:
        self._trends = trends
        curves = {_TREND: self._utilization}
        self._one = Grid(_COLUMNS_OF_ONE, _ROLES, bar=_BAR)
        self._plain = Grid(DEVICE_COLUMNS, _ROLES, bar=_BAR)
        self._curved = self._grid = Grid(_CURVED_COLUMNS, _ROLES, bar=_BAR, curves=curves)

    def lines(
        self,
        rows: Sequence[DeviceRow],
        theme: Theme,
        cells: int,
        plan: Layout,
        *,
        keys: Sequence[Key],
        first: int,
        cursor: int | None = None,
        curves: bool = True,
    ) -> list[Line]:
        """Return the headings and the devices from index `first` on, as laid out.

        The one at index `cursor` is highlighted; `keys` are those in force.
        """
        if not rows or not plan.devices:
            return []
        room = cells // plan.across
        visible = rows[first : first + plan.seen]
        if plan.compact:
            grid = DeviceCells(rows, room, theme)
            title, drawn = grid.heading(), [grid.draw(row) for row in visible]
        else:
            plain = self._plain if len(rows) > 1 else self._one
            self._grid = self._curved if curves else plain
            drawn = self._drawn(rows, visible, room, theme)
            title = self._title(theme)
        if cursor is not None and first <= cursor < first + len(drawn):
            drawn[cursor - first] = highlighted(drawn[cursor - first], theme, room)
        height = plan.device_lines
        blocks = [drawn[start : start + height] for start in range(0, len(drawn), height)]
        lines = [beside([title] * max(1, len(blocks)), room, theme.base)]
        lines += [beside(line, room, theme.base) for line in zip_longest(*blocks)]
        if plan.devices > height and len(visible) < len(rows):
            note = f" {in_view(first, len(visible), len(rows))}"
            lines += [[]] * (height + 1 - len(lines))
            turn, page = (shown_key(keys, name) for name in ("move.turn", "move.page_down"))
            how = f"   {turn}, {page} for the others"
            lines.append([Segment(note, theme.heading), Segment(how, theme.dim)])
        return lines

    def _drawn(
        self, rows: Sequence[DeviceRow], visible: Sequence[DeviceRow], room: int, theme: Theme
    ) -> list[Line]:
        """Draw the rows, widening columns that are too narrow."""
        members = tuple(row.device.key for row in rows)
        return self._grid.rows(
            rows, members, room, visible, lambda row: self._line(row, theme, room)
        )

    def _line(self, row: DeviceRow, theme: Theme, room: int) -> Line:
        if row.device.state == "ok":
            return self._grid.draw(row, theme)
        named = sum(each.column.key in _NAMES for each in self._grid.fitted)
        segments = self._grid.draw(row, theme, keep=named)
        return [*segments, *_fault(row, theme, room - cells_of(segments) - MARGIN)]

    def _utilization(self, row: DeviceRow, cells: int, theme: Theme) -> str:
        return self._trends.lines([row.device.key], _CHARTED, 100, (cells, 1), theme.glyphs)[0]

    def _title(self, theme: Theme) -> Line:
        """Return the headings; that of the curves is the time that they cover."""
        for fitted_column in self._grid.fitted:
            if fitted_column.column.key == _TREND:
                cells = fitted_column.width
                time = self._trends.filled(cells)
                past = time.partition(" ")[0]
                names = f"last {time}", f"last {past}", past
                name = next((each for each in names if len(each) <= cells), names[-1])
                return self._grid.heading(theme, names={_TREND: name})
        return self._grid.heading(theme)


def _fault(row: DeviceRow, theme: Theme, room: int) -> Line:
    """Return why there are no values, in their place."""
    word = f"  {row.state.word}  "
    reason: str = row.device.fault.message if row.device.fault else ""
    # The row is the GPU's: the advice has to fit beside its name.
    reason = reason.removeprefix(f"GPU {row.device.index} ")
    last = row.device.last_read
    if last is not None:
        # The word shows the state; what it held is worth more than the hanging call.
        reason = f"{last.memory} {last.ago}; {reason}"
    return [
        Segment(word, theme.level(row.level)),
        Segment(theme.cut(reason, room - width(word)), theme.dim),
    ]


class UpperView(Struct, frozen=True):
    """The contents of the upper part of the screen."""

    revision: int
    """Counts the samples: a new one may have the same rows, but other charts."""
    host: Host
    rows: Sequence[DeviceRow]
    findings: Sequence[Finding] | None
    """The worst first; None while unknown."""
    theme: Theme
    cells: int
    plan: Layout
    first: int
    """Index of the first device in view."""
    cursor: int | None
    """Index of the highlighted device."""
    moment: float | None
    """The instant at which curves end, None for now."""
    hidden: Collection[str]
    metric: str
    """The charted metric, empty for the default."""
    keys: tuple[Key, ...]
    """The keys in force, for texts."""


class Upper:
    """Draws the upper part of the screen, and keeps its past."""

    def __init__(self, history: History) -> None:
        self._trends = Trends(history)
        self._devices = DeviceTable(self._trends)

    def lines(self, view: UpperView) -> list[Line]:
        """Return the lines of the upper part, as many as laid out for it."""
        plan = view.plan
        self._trends.show(view.moment)
        lines: list[Line] = [host_line(view.host, view.theme, view.cells)] if plan.host else []
        if plan.spaces > bool(plan.charts):
            lines.append([])
        table = self._devices.lines(
            view.rows,
            view.theme,
            view.cells,
            plan,
            keys=view.keys,
            first=view.first,
            cursor=view.cursor,
            # A value with a chart below needs no curve beside it.
            curves="sparklines" not in view.hidden and not plan.charts,
        )
        lines += table + [[]] * (plan.headed - len(table))
        lines += _findings(view)
        if plan.charts:
            devices, size = [row.device for row in view.rows], (view.cells, plan.charts)
            drawn = charts(view.host, devices, self._trends, view.theme, size, view.metric)
            lines += [*drawn, *[[]] * (plan.charts - len(drawn))]
        return lines


def _findings(view: UpperView) -> list[Line]:
    """Return the worst findings in the lines laid out for them, or that there are none."""
    count, theme, found = view.plan.findings, view.theme, view.findings
    key = shown_key(view.keys, "view.findings")
    texts = worst(found or (), theme, view.cells, count, key) if count else []
    if count and view.rows and found is not None and not found:
        texts = [[Segment(" No problem found", theme.dim)]]
    return texts + [[]] * (count - len(texts))
