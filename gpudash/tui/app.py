"""The live screen: a feed's snapshots, drawn, and the keys that act on them."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize

from gpudash.errors import ActionError, ExitStatus
from gpudash.feed import Feed, FeedState
from gpudash.rows import ProcessRow
from gpudash.snapshot import Snapshot
from gpudash.tui.backstage.display import BackstageApp
from gpudash.tui.backstage.driver import QuietDriver
from gpudash.tui.frame import color_system
from gpudash.tui.keymap import KEYS
from gpudash.tui.picture import Picture
from gpudash.tui.theme import look, textual_theme
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.footer import Footer
from gpudash.tui.widgets.lines import Lines
from gpudash.tui.widgets.processes import Processes

if TYPE_CHECKING:
    from textual.driver import Driver

    from gpudash.actions import Target

_LINK_RETRY_SECONDS = 0.1


class GpudashApp(BackstageApp):
    """Shows the snapshots of a feed until its user leaves."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #processes { height: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding(key.keys, key.action, key.help, show=False) for key in KEYS
    ]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def __init__(
        self, feed: Feed, *, driver_class: type[Driver] | None = None, no_color: bool = False
    ) -> None:
        super().__init__(driver_class=driver_class or QuietDriver, ansi_color=no_color)
        self.animation_level = "none"
        self.failure: str | None = None
        """Why there was never a snapshot, in the words of the collector that ended."""
        self._feed = feed
        theme = look(no_color=no_color, color_system=color_system(os.environ))
        self.picture = Picture(feed, theme)
        self._device_height = 0
        self._owes_draw = False
        self._header = Lines(theme.header, id="header")
        self._devices = Devices(theme.base, id="devices")
        self._processes = Processes(theme.base, id="processes")
        self._footer = Footer(theme.label, id="footer")
        if not no_color:
            self.register_theme(textual_theme())
            self.theme = textual_theme().name

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self._header
        yield self._devices
        yield self._processes
        yield self._footer

    def on_mount(self) -> None:
        """Start to listen to the feed and to the signals that end a program."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._leave_with, 128 + number)
        self.app_resume_signal.subscribe(self, lambda _app: self.forget_frame())
        self.picture.resize(*self.size)
        if self._feed.latest is not None:
            self.picture.take(self._feed.latest)
        self._devices.styles.height = self._device_height = self.picture.device_height
        self._feed.attach(loop, self._receive, self._tick)
        self.set_interval(1.0, self._tick)

    def on_ready(self) -> None:
        """Show the screen, and keep the garbage collector off what start-up left for good."""
        self._draw()
        gc.enable()
        gc.collect()
        gc.freeze()

    def on_unmount(self) -> None:
        """Let the collector go."""
        self._feed.stop()

    def on_resize(self, event: Resize) -> None:
        """Lay the panels out for the new size."""
        self.picture.resize(*event.size)
        self._draw()

    def _receive(self, snapshot: Snapshot) -> None:
        """Take a snapshot; while paused it is only kept by the feed."""
        if not self.picture.paused:
            self.picture.take(snapshot)
            self._draw()

    def _tick(self) -> None:
        """Keep ages true while no snapshot does, and leave if there will never be one."""
        feed = self._feed
        if feed.latest is None and (feed.exit_status or 0) > 0:
            self.failure = feed.error
            self._leave_with(feed.exit_status or ExitStatus.FAILURE)
        elif self.picture.paused or feed.state is not FeedState.LIVE:
            self._draw()

    def _leave_with(self, status: int) -> None:
        self.exit(status, return_code=status)

    def _draw(self) -> None:
        """Draw everything; what is the same as before costs nothing to send."""
        if not self.is_running or self.screen.is_modal:
            return
        if self.link_busy:
            self._draw_later()
            return
        height = self.picture.device_height
        if self._device_height != height:
            self._devices.styles.height = self._device_height = height
            self.call_after_refresh(self._draw)
            return
        panels = self.picture.panels()
        with self.one_frame():
            self._header.show(panels.header)
            self._devices.show(panels.devices)
            self._processes.show(panels.processes)
            self._footer.show(panels.footer)
        self.raise_curtain()

    def _draw_later(self) -> None:
        """Skip this frame on a slow link, so that no queue of old ones builds up."""
        if not self._owes_draw:
            self._owes_draw = True
            self.set_timer(_LINK_RETRY_SECONDS, self._draw_owed)

    def _draw_owed(self) -> None:
        self._owes_draw = False
        self._draw()

    def say(self, notice: str) -> None:
        """Show the outcome of an action in the footer until the next action."""
        self.picture.notice = notice
        self._draw()

    # Keys

    def action_leave(self) -> None:
        """Quit."""
        self._leave_with(ExitStatus.OK)

    def action_pause(self) -> None:
        """Freeze the screen, or catch up with the feed."""
        self.picture.paused = not self.picture.paused
        if not self.picture.paused and self._feed.latest is not None:
            self.picture.take(self._feed.latest)
        self.say("")

    def action_redraw(self) -> None:
        """Send every cell again."""
        self.forget_frame()

    def action_move(self, rows: int) -> None:
        """Move the cursor."""
        self.picture.listing.move(rows)
        self.say("")

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is in view."""
        self.action_move(pages * self.picture.page)

    def action_move_to(self, index: int) -> None:
        """Move the cursor to a row, counted from the end if negative."""
        listing = self.picture.listing
        listing.move_to(index if index >= 0 else len(listing.rows) + index)
        self.say("")

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        keys, listing = self.picture.processes.sortable, self.picture.listing
        if keys:
            place = keys.index(listing.sort_key) if listing.sort_key in keys else 0
            listing.sort_by(keys[(place + step) % len(keys)])
        self.say("")

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.picture.listing.reverse()
        self.say("")

    def action_scroll_devices(self, pages: int) -> None:
        """Show other devices where not all fit."""
        self.picture.scroll_devices(pages * self.picture.device_lines)
        self._draw()

    def action_help(self) -> None:
        """Show all keys."""
        from gpudash.tui.screens.help import HelpScreen

        self.push_screen(HelpScreen(self.picture.theme), lambda _result: self._draw())

    def action_kill(self) -> None:
        """Ask whether to kill the selected process, pinned before the question is put."""
        row = self.picture.listing.selected
        if row is None:
            self.say("no process is selected")
            return
        from gpudash.actions import pin

        try:
            target = pin(row.process, self.picture.snapshot.host)
        except ActionError as error:
            self.say(f"refused: {error}")
            return
        self._ask_to_kill(row, target)

    def _ask_to_kill(self, row: ProcessRow, target: Target) -> None:
        from gpudash.tui.killing import kill
        from gpudash.tui.screens.kill import Answer, KillScreen

        def answered(answer: Answer | None) -> None:
            if answer is Answer.KILL:
                self.run_worker(kill(row, target, self.say))
                return
            target.close()
            self.say(f"{row.process.pid} exited by itself" if answer is Answer.GONE else "")

        self.push_screen(KillScreen(row, target, self.picture.theme), answered)

    # Messages of the panels

    def on_devices_scrolled(self, message: Devices.Scrolled) -> None:
        """Scroll the devices by the wheel."""
        self.picture.scroll_devices(message.rows)
        self._draw()

    def on_processes_clicked(self, message: Processes.Clicked) -> None:
        """Sort by a heading, or select a row."""
        table = self.picture.processes
        if message.line:
            self.action_move_to(table.top + message.line - 1)
            return
        key = table.column_at(message.x)
        if key is not None:
            self.picture.listing.sort_by(key)
            self.say("")

    def on_processes_moved(self, message: Processes.Moved) -> None:
        """Move by the wheel."""
        self.action_move(message.rows)

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does."""
        await self.run_action(message.action)
