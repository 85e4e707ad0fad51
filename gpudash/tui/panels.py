"""The panels of the main screen as lines, for Textual's widgets and for the first frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from gpudash.analysis.usage import no_processes_text
from gpudash.model.snapshot import EMPTY
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.devices import Upper, UpperView
from gpudash.tui.draw.header import footer, header
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.processes import ProcessTable

Value = TypeVar("Value")


class Memo(Generic[Value]):
    """A function that returns its last result while its arguments equal those before."""

    def __init__(self, function: Callable[..., Value]) -> None:
        self._function = function
        self._last: tuple[object, Value] | None = None

    def __call__(self, *arguments: Any, **options: Any) -> Value:
        """Return the function's result for these arguments."""
        key = arguments, options
        if self._last is None or self._last[0] != key:
            self._last = key, self._function(*arguments, **options)
        return self._last[1]


class Panels(Struct, frozen=True):
    """The lines of each panel, from top to bottom."""

    header: list[Line]
    devices: list[Line]
    processes: list[Line]
    footer: list[Line]


class DashboardPanels:
    """Draws a dashboard; unchanged lines are the same objects."""

    def __init__(self, dashboard: DashboardModel, columns: Sequence[str] = ()) -> None:
        """Draw these columns of the processes, all if none are given."""
        self.process_table = ProcessTable()
        self.process_table.choose(columns)
        self._dashboard = dashboard
        self._draw_header = Memo(header)
        self._draw_footer = Memo(footer)
        self._draw_upper = Memo(Upper(dashboard.history).lines)

    def draw(self) -> Panels:
        """Return everything."""
        dashboard = self._dashboard
        top, bottom = [header_line(dashboard, dashboard.cells, self._draw_header)], self.footer()
        if dashboard.snapshot is EMPTY:
            return Panels(top, [], [], bottom)
        theme, devices = dashboard.value_theme, dashboard.devices
        unread = replace(theme, absent=theme.glyphs.ellipsis)
        view = UpperView(
            dashboard.revision,
            dashboard.snapshot.host,
            devices.rows,
            None if dashboard.snapshot.brief else dashboard.findings,
            unread if dashboard.snapshot.brief else theme,
            dashboard.cells,
            dashboard.layout,
            devices.first,
            devices.highlighted,
            dashboard.time.moment,
            dashboard.hidden,
            dashboard.metric,
            dashboard.keys,
        )
        processes = self.process_table.lines(
            dashboard.listing,
            dashboard.notes,
            theme,
            dashboard.cells,
            self.page + 1,
            empty_text=lambda: no_processes_text(dashboard.snapshot),
            focused=not devices.focused,
        )
        return Panels(top, self._draw_upper(view), processes, bottom)

    def footer(self) -> list[Line]:
        """Return the keys, or a message, which may take several lines."""
        dashboard = self._dashboard
        shown = dashboard.keys_in_focus, dashboard.status_text, dashboard.theme, dashboard.cells
        return self._draw_footer(*shown)

    @property
    def page(self) -> int:
        """Lines of processes in view at once."""
        dashboard = self._dashboard
        return max(1, dashboard.height - 2 - dashboard.layout.upper - len(self.footer()))

    def scroll_command(self, cells: int) -> None:
        """Scroll the command lines."""
        self.process_table.scroll(cells, self._dashboard.listing)


def header_line(dashboard: DashboardModel, cells: int, draw: Callable[..., Line] = header) -> Line:
    """Return the first line of every view, in its width."""
    return draw(
        dashboard.snapshot,
        dashboard.counted,
        dashboard.theme,
        cells,
        pace=dashboard.time.pace,
        marks=dashboard.marks,
        read_only=dashboard.read_only,
        dated=dashboard.time.is_recorded,
    )
