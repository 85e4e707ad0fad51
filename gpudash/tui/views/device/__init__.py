"""The view of one device: a chart of any metric, its processes, and all its metrics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.segment import Segment

from gpudash.analysis.history.metrics import device_metrics
from gpudash.analysis.labels import pcie_link, short_name
from gpudash.analysis.table import DeviceRow, device_rows
from gpudash.analysis.usage import no_gpus_text
from gpudash.model.device import device_fields
from gpudash.model.fields import Field
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import fold, width
from gpudash.model.units import ABSENT, Unit, readable, short, span
from gpudash.tui.bindings import keys_while_enlarged, shown_key
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.draw.chart import drawn
from gpudash.tui.draw.findings import worst
from gpudash.tui.draw.line import Line, cells_of, spread
from gpudash.tui.keymap import DEVICE_KEYS, Key
from gpudash.tui.theme import Theme
from gpudash.tui.views.device.chart import LONG, Charting, Time, legend, title
from gpudash.tui.views.device.details import (
    DeviceDetails,
    HolderTable,
    Sheet,
    holders,
    last_lines,
    lease_lines,
    missing,
    no_processes_on,
    shares_of,
    sheet,
)
from gpudash.tui.views.view import View

_MAX_FAULT_LINES = 3


class Tabs(NamedTuple):
    """The line of devices, and the position of each."""

    line: Line
    ends: list[tuple[int, str]]
    """The cell at which each tab ends, and the key of its device."""

    def key_at(self, x: int) -> str | None:
        """Return the device under a cell."""
        return next((key for end, key in self.ends if x < end), None) if x else None


def tabs(rows: Sequence[DeviceRow], key: str, theme: Theme, cells: int) -> Tabs:
    """Return the labels of the devices around this one, with its name and status at the end.

    Its clock and its link come before these, if there is room beside all labels.
    """
    index = next(number for number, row in enumerate(rows) if row.device.key == key)
    device = rows[index].device
    right = [
        Segment(f" {short_name(device)}  ", theme.base),
        Segment(
            f"{rows[index].state.word} ",
            theme.level(rows[index].level),
        ),
    ]
    line: Line = [Segment(" GPU ", theme.heading)]
    facts = (short(device.sm_clock_mhz, Unit.MEGAHERTZ), pcie_link(device))
    more = [Segment(f"  {fact}", theme.dim) for fact in facts if fact != ABSENT]
    taken = cells_of([*line, *more, *right]) + 2
    if taken + sum(width(row.label) + 2 for row in rows) <= cells:
        right[:0] = [*more, Segment(" ", theme.dim)]
    room = max(0, cells - cells_of(right) - cells_of(line) - 2)
    first, last = _window([width(row.label) + 2 for row in rows], index, room)
    line.append(Segment("<" if first else " ", theme.dim))
    ends = []
    for row in rows[first:last]:
        chosen = row.device.key == key
        style = theme.button_focused if chosen else theme.base
        line.append(Segment(f"[{row.label}]" if chosen else f" {row.label} ", style))
        ends.append((cells_of(line), row.device.key))
    line.append(Segment(">" if last < len(rows) else " ", theme.dim))
    return Tabs(spread(line, right, cells, theme.base), ends)


def _window(widths: Sequence[int], index: int, room: int) -> tuple[int, int]:
    """Return the range around `index` that fits, as far to the left as possible."""
    first = 0
    while sum(widths[first : index + 1]) > room and first < index:
        first += 1
    last = index + 1
    while last < len(widths) and sum(widths[first : last + 1]) <= room:
        last += 1
    return first, last


def trouble(row: DeviceRow, theme: Theme, cells: int) -> list[Line]:
    """Return why a device has no values, no line if it has some.

    Its state is in the line above.
    """
    device = row.device
    if device.state == "ok":
        return []
    reason = device.fault.message if device.fault else row.state.reason
    style = theme.level(row.level)
    texts = fold(reason, max(1, cells - 2))[:_MAX_FAULT_LINES]
    return [[Segment(f" {text}", style)] for text in texts]


_ROOMY = 30
"""Height from which several findings are shown, and a blank line below the chart."""
_MAX_CHART = 22
_MIN_BELOW = 5
"""Lines that the metrics get before the chart gets any."""


class DeviceView(View):
    """Shows everything about a GPU or a MIG instance, a metric of it charted beside that of others.

    Keys switch to the other devices.
    """

    KEYS = DEVICE_KEYS

    def __init__(self, dashboard: DashboardModel, key: str | None = None) -> None:
        """Show the device of this key, else the one under the cursor or of the process there."""
        super().__init__(dashboard)
        self.charting = Charting(dashboard.history, dashboard.time)
        self.large = False
        """Whether the chart fills the view."""
        self.explained = False
        """Whether each metric has its help sentence."""
        self.key = key or _device_under_cursor(dashboard)
        self.index = 0
        """Index of the shown device among all."""
        self._rows_of: Snapshot | None = None
        self._all: list[DeviceRow] = []
        self._tabs = Tabs([], [])
        self._chart_lines = range(0)
        self._pinned = 0
        self._sheet = Sheet([], [])
        self._sheet_line = 0
        self._table = HolderTable()

    def on_mount(self) -> None:
        """Load plotext."""
        self.run_worker(self.load_charts())

    def rows(self) -> list[DeviceRow]:
        """Return the devices, looked up once per snapshot."""
        snapshot = self.model.snapshot
        if self._rows_of is not snapshot:
            self._rows_of, self._all = snapshot, device_rows(snapshot)
        return self._all

    def row(self) -> DeviceRow | None:
        """Return the shown device, or the one at its index if it is gone."""
        rows = self.rows()
        if not rows:
            return None
        keys = [row.device.key for row in rows]
        if self.key in keys:
            self.index = keys.index(self.key)
        self.index = min(self.index, len(rows) - 1)
        return rows[self.index]

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the devices, the findings about this one, and the chart."""
        theme, row = self.model.value_theme, self.row()
        if row is None:
            self._tabs, self._pinned, self._chart_lines = Tabs([], []), 0, range(0)
            return ()
        self._tabs = tabs(self.rows(), row.device.key, theme, cells)
        above = [self._tabs.line, *trouble(row, theme, cells)]
        if row.device.state == "ok" and not self.large:
            limit = 3 if height >= _ROOMY else 1
            key = shown_key(self.model.keys, "view.findings")
            above += worst(row.findings, theme, cells, limit, key)
        lines = [*above, *self.charted(row, cells, height - len(above))][:height]
        self._chart_lines = range(len(above), len(lines))
        self._pinned = len(lines)
        return lines

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return its holders, then the metrics."""
        theme, row = self.model.value_theme, self.row()
        if row is None:
            return [[], [Segment(" " + no_gpus_text(self.model.snapshot), theme.dim)]]
        if self.large:
            return []
        field = self.charting.field(row.device)
        details = DeviceDetails(row.device, field.name, device_metrics(), self.explained)
        self._sheet = sheet(details, cells, theme)
        held = holders(self.model.snapshot, row.device)
        nothing = no_processes_on(row.device, self.model.snapshot)
        before = [
            *last_lines(row.device, theme, cells),
            *lease_lines(self.model.snapshot, row.device, theme, cells),
            *self._table.lines(held, nothing, theme, cells),
        ]
        self._sheet_line = len(before)
        return [
            *before,
            *self._sheet.lines,
            *missing(details, shown_key(self.keys, "device.explain"), cells, theme),
        ]

    def charted(self, row: DeviceRow, cells: int, height: int) -> list[Line]:
        """Return title, chart and legend in at most `height` lines."""
        theme, charting = self.model.value_theme, self.charting
        field = charting.field(row.device)
        time = self._time()
        asked = charting.shown(self.rows(), row.device.key, theme)
        shown = charting.legible(asked, row.device.key, field, time)
        below = legend(shown, len(asked), field, theme, cells) if len(shown) > 1 else []
        if height >= _ROOMY and not self.large:
            below.append([])
        room = height - 1 - len(below)
        lines = room if self.large else min(_MAX_CHART, (2 * height + 2) // 5, room - _MIN_BELOW)
        size = (cells, max(0, lines))
        order = sorted(shown, key=lambda each: each.device.key == row.device.key)
        chart, numbers = charting.chart(field, order, time, size)
        of = f" of GPU {row.label}" if len(shown) > 1 else ""
        heading = title(field, of, row.device, numbers[-1], self._range(), theme, cells)
        return [heading, *drawn(chart, *size, theme), *below]

    def _time(self) -> Time:
        """Return the instant shown, which is in the past during a pause."""
        dashboard = self.model
        taken_at = dashboard.snapshot.taken_at.astimezone()
        if dashboard.time.is_live:
            return Time(None, "now", taken_at)
        return Time(dashboard.time.moment, taken_at.strftime("%H:%M:%S"), taken_at)

    def _range(self) -> str:
        loading = "loading: " if self.charting.is_loading else ""
        # The minimum and the mean come from its numbers per minute.
        by = " by the minute" if self.charting.seconds in LONG else ""
        return f"{loading}last {span(self.charting.seconds)}{by}"

    def chart_metric(self, name: str | None) -> None:
        """Chart a metric by name; None changes nothing."""
        if name is not None:
            self.charting.wanted = name

    # Keys

    def action_metric(self, step: int) -> None:
        """Chart another metric."""
        row = self.row()
        if row is not None:
            self.charting.step_field(row.device, step)

    def action_list_metrics(self) -> None:
        """Choose the metric from a list."""
        row = self.row()
        if row is None:
            return
        current = self.charting.field(row.device).name
        fields = [device_fields()[name] for name in self.charting.fields(row.device)]
        choices = [_choice(field, row, current) for field in fields]
        self.choose("Chart", choices, self.chart_metric, current=current)

    def action_range(self) -> None:
        """Show the next time range."""
        self.charting.step_range()

    def action_zoom(self, step: int) -> None:
        """Show a longer or a shorter time range."""
        self.charting.zoom(step)

    def action_overlay_all(self) -> None:
        """Show the curves of all devices, or of only one again."""
        self.charting.toggle(row.device.key for row in self.rows())

    def action_compare(self) -> None:
        """Choose devices to compare with; the digit of a GPU chooses it at once."""
        shown = self.row()
        others = {row.label: row.device for row in self.rows() if row is not shown}
        if shown is None or not others:
            self.show_message("there is no other GPU to compare with")
            return

        def choices() -> list[Choice]:
            overlaid = self.charting.overlaid
            return [
                Choice(label, f"{label}  {short_name(device)}", marked=device.key in overlaid)
                for label, device in others.items()
            ]

        def toggled(label: str) -> list[Choice]:
            self.charting.toggle([others[label].key])
            return choices()

        def chosen(label: str | None) -> None:
            if label is not None:
                toggled(label)

        title = f"Compare GPU {shown.label} with"
        self.choose(title, choices(), chosen, toggled=toggled, by_letter=True)

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys for the footer."""
        return keys_while_enlarged(self.keys) if self.large else self.keys

    def action_large(self) -> None:
        """Enlarge the chart, or show everything again."""
        self.large = not self.large

    def show_device(self, key: str) -> None:
        """Show another device here."""
        self.key = key

    def action_turn(self, step: int) -> None:
        """Show the next device or the previous one."""
        rows = self.rows()
        if rows:
            self.key = rows[(self.index + step) % len(rows)].device.key

    def action_explain(self) -> None:
        """Show the meanings of all metrics, or only their values."""
        self.explained = not self.explained

    def clicked(self, x: int, y: int) -> bool:
        """Show the clicked device, or chart the clicked metric."""
        if y == 0:
            key = self._tabs.key_at(x)
            if key is not None:
                self.key = key
        elif y in self._chart_lines:
            self.action_list_metrics()
        else:
            name = self._sheet.field_at(x, y - self._pinned + self.first - self._sheet_line)
            if y >= self._pinned and name is not None:
                self.chart_metric(name)
        return False


def _choice(field: Field, row: DeviceRow, current: str) -> Choice:
    value = readable(getattr(row.device, field.name), field.unit)
    return Choice(field.name, field.label, value, field.name == current)


def _device_under_cursor(dashboard: DashboardModel) -> str | None:
    """Return the key of the device under the cursor, else of the selected process's first."""
    if dashboard.devices.focused_row is not None:
        return dashboard.devices.focused_row.device.key
    row = dashboard.listing.selected
    if row is None:
        return None
    devices = dashboard.snapshot.devices
    return next((d.key for d in devices if shares_of(row.process, d)), None)
