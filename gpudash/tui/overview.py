"""The overview of a host: its GPUs and processes, the first page over its feed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.health.changes import FindingChanges
from gpudash.analysis.history.metrics import device_metrics
from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received
from gpudash.tui.bindings import QUIT, bindings, shown_key
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.device_list import DeviceList
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.draw.main_charts import charted_fields
from gpudash.tui.host import NONE_SELECTED, HostPage
from gpudash.tui.keymap import LIST_KEYS
from gpudash.tui.listing import PROCESS_ORDERS, starts_largest
from gpudash.tui.page import Filtering
from gpudash.tui.panels import DashboardPanels
from gpudash.tui.preferences import Preferences
from gpudash.tui.theme import PLAIN
from gpudash.tui.widgets.filter_prompt import FilteredProcesses, FilterPrompt
from gpudash.tui.widgets.panels import DevicePanel, Panel, ProcessPanel

_PANEL_NAMES = {"host": "line of the host", "history": "charts", "sparklines": "sparklines"}
_COMMAND_STEP, _END = 8, 1 << 20
_ALL = "all"
_BY_LETTER = {
    "g": "gpu_memory",
    "s": "utilization",
    "b": "memory_bandwidth",
    "c": "cpu",
    "m": "resident_memory",
    "t": "time",
    "i": "idle",
    "u": "user",
    "p": "pid",
    "n": "gpus",
    "f": "tree",
}
"""The columns by letter, as nvitop's `o` key has them."""


class Overview(Filtering, HostPage):
    """Panels over a feed, drawn when something has changed."""

    DEFAULT_CSS = """
    Overview > #processes { height: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = bindings(LIST_KEYS)

    def __init__(self, feed: SnapshotFeed, *, is_entered: bool = False) -> None:
        """`is_entered` is whether Esc, with nothing left to clear, goes back to many hosts."""
        super().__init__(DashboardModel(feed, PLAIN))
        self.is_entered = is_entered
        self._critical = FindingChanges("critical")
        self._heights = (0, 1)
        self.panels = DashboardPanels(self.model)
        self._devices = DevicePanel(self.model)
        self._processes = ProcessPanel(self.model, self.panels.process_table)
        self.prompt = FilterPrompt(FilteredProcesses(self.model))

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self.top
        yield self._devices
        yield self._processes
        yield self.prompt
        yield self.bottom

    def apply(self, preferences: Preferences) -> None:
        """Apply the user's settings."""
        preferences.arrange(self.model)
        if self.is_entered:
            self.model.keys = tuple(
                key._replace(label="back", help="go back to the hosts") if key.id == QUIT else key
                for key in self.model.keys
            )
        self.panels.process_table.choose(preferences.current.columns)

    def on_mount(self) -> None:
        """Show what is there already."""
        self._lay_out()
        self.model.begin()
        self._fit_panels()

    # The feed

    def receive(self, received: Sequence[Received[Snapshot]], after_jump: bool) -> None:
        """Ring the terminal for new critical findings, even while it is paused."""
        if self.app.preferences.current.bell and not self.model.time.is_recorded:
            for snapshot in (each.snapshot for each in received):
                for change in self._critical.update(snapshot):
                    if change.event == "appeared":
                        name = snapshot.host.hostname
                        self.app.ring(f"gpudash: {name}: {change.finding.sentence}")
        if self.app.root is self:
            self.model.watch([each.snapshot for each in received])
        super().receive(received, after_jump)

    # Drawing

    def on_resize(self) -> None:
        """Lay the panels out for the new size."""
        self._lay_out()
        self.app.outdated = True

    def on_filter_prompt_resized(self, _message: FilterPrompt.Resized) -> None:
        """Give the panels the lines that the prompt leaves."""
        self._lay_out()

    def _lay_out(self) -> None:
        """Give the dashboard the terminal, less the lines of the prompt beyond that of the keys."""
        cells, height = self.size
        covered = self.prompt.lines - 1 if self.prompt.is_open else 0
        self.model.resize(cells, height, covered)

    def draw(self) -> None:
        """Draw the panels; unchanged lines cost nothing."""
        if self._fit_panels():
            self.draw_later()
            return
        if not self.top.size or not self.is_current:
            # Not laid out yet: `on_ready` draws.
            return
        panels, theme = self.panels.draw(), self.model.theme
        self.top.show(panels.header, theme.header)
        self._devices.show(panels.devices, theme.base)
        self._processes.show(panels.processes, theme.base)
        self.bottom.take_keys(self.model.keys_in_focus, self.model.status_text)
        self.bottom.show(panels.footer, theme.label)
        if self.prompt.is_open:
            self.prompt.draw()
        self.app.start_display()

    def _fit_panels(self) -> bool:
        """Resize the panels to their contents; return whether that changes anything."""
        heights = self.model.layout.upper, len(self.panels.footer())
        if self._heights == heights:
            return False
        self._heights = heights
        self._devices.styles.height, self.bottom.styles.height = heights
        return True

    # Focus and cursor

    @property
    def may_signal(self) -> bool:
        """It shows the selected process."""
        return True

    def action_turn(self) -> None:
        """Move the focus to the devices, or back to the processes."""
        self.model.toggle_focus()

    def action_enlarge(self) -> None:
        """Enlarge the part in focus, or show all parts again."""
        self.model.enlarged = not self.model.enlarged

    def move(self, rows: int) -> None:
        """Move the cursor."""
        self.model.move(rows)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a page of the part in focus."""
        focused = self.model.devices.focused
        self.action_move(pages * (self.model.layout.seen if focused else self.panels.page))

    def action_scroll_command(self, steps: int) -> None:
        """Scroll the command lines; move between columns of devices."""
        layout = self.model.layout
        if self.model.devices.focused and layout.across > 1:
            self.action_move(steps * layout.device_lines)
        else:
            self.panels.scroll_command(steps * _COMMAND_STEP)

    def action_scroll_command_to(self, end: int) -> None:
        """Show the beginning of the command lines (0), or the end of the longest (-1)."""
        self.panels.scroll_command(_END if end else -_END)

    def action_tag(self) -> None:
        """Tag the selected process, or untag it, and move to the next."""
        listing = self.model.listing
        if self.model.devices.focused:
            self.explain_focus()
            return
        listing.tag()
        listing.move(1)
        if not listing.rows:
            self.show_message(NONE_SELECTED)

    def action_clear(self) -> None:
        """Reattach to the driver, else go back to the present, else clear the choices."""
        if self.feed.state is FeedState.RELEASED:
            self.release_gpus()
        elif not self.model.clear() and self.is_entered:
            self.app.action_leave()

    # The order

    def action_sort(self, step: int) -> None:
        """Sort by a column next to the present one."""
        self.model.listing.sort_beside(self.panels.process_table.grid.sortable, step)
        self._try_out_order()

    def action_per_gpu(self) -> None:
        """Show a process on several GPUs once for each of them, or only once."""
        listing = self.model.listing
        several = any(len(row.process.devices) > 1 for row in listing.everything)
        if several or listing.is_per_gpu:
            listing.toggle_per_gpu()
            self.app.preferences.try_out(per_gpu=listing.is_per_gpu)
        else:
            self.show_message("no process uses more than one GPU")

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.sort_by(self.model.listing.sort_key)

    def sort_by(self, key: str) -> None:
        """Sort by a column, or reverse the present one."""
        self.model.listing.sort_by(key)
        self._try_out_order()

    def _try_out_order(self) -> None:
        listing = self.model.listing
        reverse = listing.descending is not starts_largest(listing.sort_key)
        self.app.preferences.try_out(sort=listing.sort_key, reverse=reverse)

    def action_choose_sort(self) -> None:
        """Choose the column to sort by from all, including those without room on the screen."""
        current = self.model.listing.sort_key

        def chosen(key: str | None) -> None:
            if key is not None and key != self.model.listing.sort_key:
                self.sort_by(key)
                self.app.prefer(sort=key, reverse=self.app.preferences.current.reverse)

        choices = [
            Choice(
                column.key,
                column.key.replace("_", " "),
                column.header,
                column.key == current,
                _term_names(column.key),
            )
            for column in PROCESS_ORDERS
        ]
        self.choose("Sort by", choices, chosen, current=current)

    def action_choose_order(self) -> None:
        """Choose the column to sort by with a letter, a capital for the opposite direction."""
        listing = self.model.listing
        headers = {column.key: column.header for column in PROCESS_ORDERS}

        def chosen(letter: str | None) -> None:
            if letter is None:
                return
            key = _BY_LETTER[letter.lower()]
            if key != listing.sort_key:
                self.sort_by(key)
            # In a tree, that of the siblings.
            column, descending = listing.leading
            if descending is not (starts_largest(column) is letter.islower()):
                self.action_reverse()

        choices = [
            Choice(letter, f"{letter}  {headers[key]}", "", key == listing.sort_key)
            for letter, key in _BY_LETTER.items()
        ]
        current = next((each.value for each in choices if each.marked), "")
        title = "Sort by letter, a capital reverses"
        self.choose(title, choices, chosen, current=current, by_letter=True)

    # What is shown

    def action_choose_metric(self) -> None:
        """Choose the metric that the charts show for all GPUs."""
        dashboard = self.model
        if self._explain_enlarged():
            return
        fields = charted_fields(dashboard.snapshot.devices)
        current = dashboard.metric or device_metrics()[0]

        def chosen(name: str | None) -> None:
            dashboard.metric = name or dashboard.metric

        choices = [Choice(each.name, each.label, marked=each.name == current) for each in fields]
        self.choose("Chart", choices, chosen, current=current)

    def action_choose_columns(self) -> None:
        """Choose the columns of the processes with the space bar; none means all."""
        every = tuple(column.key for column in PROCESS_COLUMNS)
        preferences = self.app.preferences

        def choices() -> list[Choice]:
            shown = preferences.current.columns or every
            return [
                Choice(column.key, column.key.replace("_", " "), note, column.key in shown)
                for column in PROCESS_COLUMNS
                for note in (f"{column.header}{' above zero' if column.worth else ''}",)
            ]

        def toggled(key: str) -> list[Choice]:
            shown = preferences.current.columns or every
            if key in shown:
                shown = tuple(each for each in shown if each != key)
            else:
                # In its default order, as far as the others are in theirs.
                index = sum(every.index(each) < every.index(key) for each in shown)
                shown = (*shown[:index], key, *shown[index:])
            self.app.prefer(columns=() if shown == every else shown)
            self.panels.process_table.choose(preferences.current.columns)
            return choices()

        self.choose("Columns", choices(), toggled=toggled, marks_only=True)

    def action_choose_devices(self) -> None:
        """Choose one GPU from a list, or mark some with the space bar."""
        dashboard = self.model

        def choices() -> list[Choice]:
            hidden = dashboard.devices.hidden
            gpus = [
                Choice(str(device.index), f"GPU {device.index}", str(device.name or ""), shown)
                for device in dashboard.snapshot.devices
                if not device.is_mig
                for shown in (device.index not in hidden,)
            ]
            return [Choice(_ALL, "all", "", not hidden), *gpus]

        def toggled(value: str) -> list[Choice]:
            if value == _ALL:
                dashboard.hide_devices(DeviceList.show_all)
            else:
                dashboard.hide_devices(lambda devices: devices.toggle(int(value)))
            self.app.outdated = True
            return choices()

        def chosen(value: str | None) -> None:
            if value == _ALL:
                dashboard.hide_devices(DeviceList.show_all)
            elif value is not None:
                dashboard.hide_devices(lambda devices: devices.only(int(value)))

        self.choose("Show only GPU", choices(), chosen, toggled=toggled)

    def action_toggle_panel(self, panel: str) -> None:
        """Hide a panel or show it again, with a message, as the change may be invisible."""
        dashboard = self.model
        if self._explain_enlarged():
            return
        before = self.panels.draw().devices
        dashboard.toggle_panel(panel)
        self.app.preferences.try_out(hidden_panels=tuple(sorted(dashboard.hidden)))
        did = f"{_PANEL_NAMES[panel]} {'off' if panel in dashboard.hidden else 'on'}"
        if self.panels.draw().devices == before:
            are_beside = panel == "sparklines" and dashboard.layout.charts
            why = "they show where no charts are" if are_beside else "no room or no values here"
            did += f": {why}"
        self.show_message(did)

    def _explain_enlarged(self) -> bool:
        """Return whether one part is enlarged; if so, show which key shows the panels."""
        key = shown_key(self.model.keys, "move.enlarge")
        if self.model.enlarged:
            self.show_message(f"one part has the whole screen: {key} shows the others again")
        return self.model.enlarged

    # The mouse

    def on_panel_changed(self, _message: Panel.Changed) -> None:
        """Redraw after a click or the wheel."""
        self.show_message("")

    async def on_panel_opened(self, _message: Panel.Opened) -> None:
        """Open the item that was clicked twice."""
        await self.app.run_action("open", default_namespace=self)

    async def on_device_panel_findings_opened(self, _message: DevicePanel.FindingsOpened) -> None:
        """Show the findings."""
        await self.app.run_action("view('findings')", default_namespace=self)

    def on_process_panel_heading_clicked(self, message: ProcessPanel.HeadingClicked) -> None:
        """Sort by the column."""
        self.sort_by(message.key)
        self.show_message("")


def _term_names(key: str) -> str:
    """Return the filter's term for a column: `mem` is GPU memory there too."""
    return next((" ".join(term.names) for term in TERMS if key in term.names), "")
