"""The live screen: panels over a feed, drawn when something changed, and what its keys do."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen

from gpudash.analysis.filter import parse
from gpudash.analysis.health.changes import FindingChanges
from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.errors import ExitStatus, FilterError
from gpudash.model.wire import Received
from gpudash.tui.actions import choices, processes, screenshot, time, views
from gpudash.tui.base import TICK_SECONDS, WHILE_TYPING, BaseApp
from gpudash.tui.bindings import (
    ACTIONS_OF_OVERVIEW,
    ACTIONS_OF_PANELS,
    ACTIONS_OF_SELECTION,
    bindings,
    remap,
)
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.keymap import KEYS, OVERVIEW_KEYS
from gpudash.tui.panels import DashboardPanels
from gpudash.tui.preferences import Preferences
from gpudash.tui.views.view import View, put_above
from gpudash.tui.widgets.edit import Edit
from gpudash.tui.widgets.filter_prompt import FilteredProcesses, FilterPrompt
from gpudash.tui.widgets.lines import Footer, Lines
from gpudash.tui.widgets.panels import DevicePanel, Panel, ProcessPanel

if TYPE_CHECKING:
    from textual.driver import Driver

    from gpudash.model.snapshot import Snapshot


class Overview(Screen[None], inherit_bindings=False):
    """The main screen, on which only the keys of the one table work."""


class GpudashApp(BaseApp):
    """Shows the snapshots of a feed until its user leaves."""

    CSS = (
        Edit.CSS
        + """
    Screen { layout: vertical; overflow: hidden; }
    #processes { height: 1fr; }
    Footer.-covered { display: none; }
    """
    )
    BINDINGS: ClassVar[list[Any]] = bindings(OVERVIEW_KEYS)

    guard_seconds = 0.3, 1.0
    """For which a question about a signal ignores input once it is on the terminal: a held key's.

    One that a key has asked for, and one that opens unasked; tests, whose keys are meant, set 0.
    """

    def __init__(
        self,
        feed: SnapshotFeed,
        *,
        driver_class: type[Driver] | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class, no_color=no_color, preferences=preferences)
        self.feed = feed
        self.is_entered = False
        """Whether Esc, with nothing left to clear, leads back to the screen of many hosts."""
        self.dashboard: DashboardModel = DashboardModel(feed, self.load_theme())
        self._critical = FindingChanges("critical")
        self.preferences.arrange(self.dashboard)
        self.panels = DashboardPanels(self.dashboard, self.preferences.current.columns)
        self._heights = (0, 1)
        self._terminal_size: Size | None = None
        self._header = Lines(id="header")
        self._devices = DevicePanel(self.dashboard)
        self._processes = ProcessPanel(self.dashboard, self.panels.process_table)
        self.prompt = FilterPrompt(FilteredProcesses(self.dashboard))
        self._footer = Footer(id="footer")
        remap(self, self.preferences.current.keys)
        self.apply_textual_theme()

    # Start and end

    def get_default_screen(self) -> Overview:
        """Return the main screen."""
        return Overview(id="_default")

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self._header
        yield self._devices
        yield self._processes
        yield self.prompt
        yield self._footer

    def on_mount(self) -> None:
        """Start to listen to the feed and to the signals that end a program or free the GPUs."""
        loop = asyncio.get_running_loop()
        self.obey_signals()
        # `kill -USR1` does what the key does, from the shell in which a reset is made.
        loop.add_signal_handler(signal.SIGUSR1, self.action_release)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGUSR1])
        self._ticks = self.set_interval(TICK_SECONDS, self._tick, pause=True)
        self._lay_out()
        self.dashboard.begin()
        self._fit_panels()
        self.feed.attach(loop, self._receive, self._feed_changed)

    def pictured(self) -> tuple[str, datetime]:
        """Return the host, and when the sample was taken."""
        snapshot = self.dashboard.snapshot
        return snapshot.host.hostname or "", snapshot.taken_at

    def on_unmount(self) -> None:
        """Let the collector go."""
        self.feed.stop()

    # The feed

    def _receive(self, received: Sequence[Received[Snapshot]], after_jump: bool) -> None:
        """Take what the feed brings; while a live screen is paused it is only kept for later."""
        if self.feed.player is not None:
            self.dashboard.replay(received, after_jump)
            self.outdated = True
            return
        if self.preferences.current.bell:
            for sample in received:
                self._ring(sample.snapshot)
        if self.dashboard.receive(received[-1].snapshot, received[-1].line):
            self.outdated = True

    def _ring(self, snapshot: Snapshot) -> None:
        """Ring the terminal for critical findings that appear, also while it is paused."""
        for change in self._critical.update(snapshot):
            if change.event == "appeared":
                self.ring(f"gpudash: {snapshot.host.hostname}: {change.finding.sentence}")

    def _feed_changed(self) -> None:
        """Show a change of a recording at once, as its snapshots do not age."""
        if self.feed.player is not None:
            self.outdated = True
        else:
            self._tick()

    def _tick(self) -> None:
        """Keep ages true while no snapshot does, and leave if there will never be one."""
        feed = self.feed
        self.dashboard.preview()
        if feed.latest is None and (feed.exit_status or 0) > 0:
            self.failure = feed.error
            self.leave_with(feed.exit_status or ExitStatus.FAILURE)
        elif self._is_aging:
            self.outdated = True

    @property
    def _is_aging(self) -> bool:
        """Whether the age of what is shown is on screen."""
        return self.dashboard.playhead.paused or self.feed.state is not FeedState.LIVE

    # Drawing

    def on_resize(self, event: Resize) -> None:
        """Lay the panels out for the new size."""
        self._terminal_size = event.size
        self._lay_out()
        self.outdated = True

    def _lay_out(self) -> None:
        """Give the dashboard the terminal, less the prompt, which is a line higher than keys."""
        cells, height = self._terminal_size or self.size
        covered = self.prompt.lines - 1 if self.prompt.is_open else 0
        self.dashboard.resize(cells, max(1, height - covered))
        self._footer.set_class(self.prompt.is_open, "-covered")

    def redraw(self) -> None:
        """Draw everything, what shows through around a dialog too.

        What is the same as before costs nothing to send.
        """
        if not self.is_running:
            return
        # While ages are shown, no snapshot may come that keeps them true.
        self._ticks.resume() if self._is_aging else self._ticks.pause()
        if self.held_back():
            # A frame that is not on screen yet is not worth its drawing.
            self.outdated = True
            return
        self.outdated = False
        front = next(screen for screen in reversed(self.screen_stack) if not screen.is_modal)
        if isinstance(front, View):
            with self.one_frame():
                front.draw()
            return
        if self._fit_panels():
            self.call_after_refresh(self.redraw)
            return
        if not self._header.size:
            # Not laid out yet: `on_ready` draws.
            return
        panels, theme = self.panels.draw(), self.dashboard.theme
        with self.one_frame():
            self._header.show(panels.header, theme.header)
            self._devices.show(panels.devices, theme.base)
            self._processes.show(panels.processes, theme.base)
            self._footer.take_keys(self.dashboard.keys_in_focus, self.dashboard.status_text)
            self._footer.show(panels.footer, theme.label)
            if self.prompt.is_open:
                self.prompt.draw()
        self.start_display()

    def _fit_panels(self) -> bool:
        """Give the panels the heights of what they show; return whether that is a change."""
        heights = self.dashboard.layout.upper, len(self.panels.footer())
        if self._heights == heights:
            return False
        self._heights = heights
        self._devices.styles.height, self._footer.styles.height = heights
        return True

    # Keys: the screen

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what would not be seen, or is not for what is in front."""
        if self.screen.is_modal:
            # Any other is of a key that was on its way here when a dialog came above.
            return action == "suspend_process"
        if isinstance(self.focused, Edit) and action not in WHILE_TYPING:
            return False
        if self.dashboard.enlarged and action in ACTIONS_OF_PANELS:
            return False
        if isinstance(self.screen, View) and (
            action in ACTIONS_OF_OVERVIEW
            or (action in ACTIONS_OF_SELECTION and not self.screen.may_signal)
        ):
            return False
        return super().check_action(action, parameters)

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)

    def action_help(self) -> None:
        """Show all keys that work."""
        from gpudash.tui.dialogs.text import HelpScreen

        keys = self.dashboard.in_force(KEYS)
        put_above(self, HelpScreen(self.dashboard.theme, keys))

    action_palette = choices.choose_action
    action_choose_theme = choices.choose_theme
    action_save_settings = choices.save_settings
    action_save_screen = screenshot.save_screen

    # Keys: time and the driver

    action_pause = time.pause
    action_step = time.step
    action_interval = time.change_interval
    action_seek = time.seek
    action_release = time.release
    action_wake = time.wake

    # Keys: views

    action_open = views.open_selected
    action_view = views.open_view
    action_view_process = views.open_process
    action_mistakes = views.open_mistakes

    def on_view_open(self, message: View.Open) -> None:
        """Open the view that another one asks for."""
        views.show_view(self, message.view)

    def on_view_filter(self, message: View.Filter) -> None:
        """Show the processes that a view asks for alone."""
        try:
            self.filter_by(message.text)
        except FilterError as error:
            self.show_message(str(error))

    # Keys: focus and cursor

    def action_turn(self) -> None:
        """Give the focus to the devices, or back to the processes."""
        self.dashboard.toggle_focus()

    def action_enlarge(self) -> None:
        """Give the part in focus all the room, or share it out again."""
        self.dashboard.enlarged = not self.dashboard.enlarged

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.dashboard.move(rows)
        self.prompt.follow_cursor()

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        focused = self.dashboard.devices.focused
        self.action_move(pages * (self.dashboard.layout.seen if focused else self.panels.page))

    def action_move_to(self, index: int) -> None:
        """Move the cursor to the first row (0) or the last (-1)."""
        dashboard = self.dashboard
        part = dashboard.devices if dashboard.devices.focused else dashboard.listing
        self.action_move(len(part.rows) if index else -len(part.rows))

    action_scroll_command = processes.scroll_command
    action_scroll_command_to = processes.scroll_command_to

    # Keys: which GPUs, columns and processes, in what order

    action_choose_devices = choices.choose_devices
    action_choose_columns = choices.choose_columns
    action_choose_metric = choices.choose_metric
    action_choose_sort = choices.choose_sort
    action_choose_order = choices.choose_order
    action_sort = processes.sort
    action_reverse = processes.reverse
    action_toggle_device = choices.toggle_device
    action_toggle_panel = choices.toggle_panel

    def action_clear(self) -> None:
        """Go back to the present; from there, drop the tags, the filter, the choice of GPUs."""
        if not self.dashboard.clear() and self.is_entered:
            self.action_leave()

    # Keys: the filter

    def filter_by(self, text: str) -> None:
        """Show the processes that fit a filter, in the overview.

        Raises FilterError if it is none.
        """
        wanted = parse(text)
        while isinstance(self.screen, View):
            self.pop_screen()
        self.dashboard.listing.filter_by(wanted)
        self.show_message("")

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        self.prompt.open()

    def on_filter_prompt_changed(self, _message: FilterPrompt.Changed) -> None:
        """Show what fits so far."""
        self.outdated = True

    def on_filter_prompt_resized(self, _message: FilterPrompt.Resized) -> None:
        """Give the prompt its lines, or the panels theirs back."""
        self._lay_out()
        self.call_after_refresh(self.redraw)

    # Keys: the selected process

    action_tag = processes.tag
    action_copy_pid = processes.copy_pid
    action_copy_command = processes.copy_command
    action_kill = processes.kill

    # The mouse

    def on_panel_changed(self, _message: Panel.Changed) -> None:
        """Draw what a click or the wheel led to."""
        self.show_message("")

    async def on_panel_opened(self, _message: Panel.Opened) -> None:
        """Open what was clicked twice."""
        await self.run_action("open")

    async def on_device_panel_findings_opened(self, _message: DevicePanel.FindingsOpened) -> None:
        """Show what is wrong."""
        await self.run_action("view('findings')")

    def on_process_panel_heading_clicked(self, message: ProcessPanel.HeadingClicked) -> None:
        """Sort by the column."""
        processes.sort_by(self, message.key)
        self.show_message("")
