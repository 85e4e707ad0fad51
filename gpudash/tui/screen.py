"""The screen itself: panels over a feed, drawn when something changed. Keys are in `actions`."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen

from gpudash.feed.protocol import FeedState, SnapshotFeed
from gpudash.model.errors import ExitStatus
from gpudash.model.snapshot import Snapshot
from gpudash.tui.bindings import remap
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.prompt import Prompt
from gpudash.tui.preferences import Preferences
from gpudash.tui.terminal.app import TerminalApp
from gpudash.tui.terminal.driver import QuietDriver
from gpudash.tui.terminal.screen_buffer import color_system
from gpudash.tui.theme import Theme, textual_theme
from gpudash.tui.views.view import View
from gpudash.tui.widgets.devices import Devices
from gpudash.tui.widgets.lines import Footer, Lines
from gpudash.tui.widgets.processes import Processes

if TYPE_CHECKING:
    from textual.driver import Driver


class Overview(Screen[None], inherit_bindings=False):
    """The main screen, on which only the keys of the one table work."""


_SAVE_SECONDS = 1.0
_TICK_SECONDS = 1.0


class LiveApp(TerminalApp):
    """Draws the snapshots of a feed until its user leaves."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; }
    #processes { height: 1fr; }
    Footer.-covered { display: none; }
    """

    def __init__(
        self,
        feed: SnapshotFeed,
        *,
        driver_class: type[Driver] | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        self.preferences = preferences or Preferences()
        self._no_color = no_color
        theme = self.look()
        super().__init__(driver_class=driver_class or QuietDriver, ansi_color=_is_own(theme))
        self.animation_level = "none"
        self.failure: str | None = None
        """Why there was never a snapshot, in the words of the collector that ended."""
        self.feed = feed
        self.dashboard = DashboardModel(feed, theme)
        self.preferences.arrange(self.dashboard)
        self._heights = (0, 1)
        self._owes_draw = self._owes_save = self._awaits_tick = False
        self._terminal_size: Size | None = None
        self._header = Lines(theme.header, id="header")
        self._devices = Devices(theme.base, id="devices")
        self._processes = Processes(theme.base, id="processes")
        self.prompt = Prompt(theme.header, id="prompt")
        self._footer = Footer(theme.label, self.dashboard.keys, id="footer")
        remap(self, self.preferences.current.keys)
        self._apply_textual_theme()

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
        """Start to listen to the feed and to the signals that end a program."""
        loop = asyncio.get_running_loop()
        leaving = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        for number in leaving:
            loop.add_signal_handler(number, self._leave_with, 128 + number)
        # Held back since before there was a loop whose tasks an exit would leave behind.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, leaving)
        self.app_resume_signal.subscribe(self, lambda _app: self.forget_frame())
        self.dashboard.status_message.on_passing = lambda seconds: self.set_timer(
            seconds, self.redraw
        )
        self.lay_out()
        if self.feed.latest is not None:
            self.dashboard.receive(self.feed.latest)
        self._fit_panels()
        self.feed.attach(loop, self._receive, self._feed_changed)

    def on_ready(self) -> None:
        """Show the screen, and keep the garbage collector off what start-up left for good."""
        self.redraw()
        gc.collect()
        # From here on memory is freed: what was imported is not searched for garbage again.
        gc.freeze()
        gc.enable()

    def on_unmount(self) -> None:
        """Let the collector go."""
        self.feed.stop()

    def on_resize(self, event: Resize) -> None:
        """Lay the panels out for the new size."""
        self._terminal_size = event.size
        self.lay_out()
        self.redraw()

    def hang_up(self) -> None:
        """Save what was changed: the terminal is gone, and the program about to be."""
        self.preferences.finish()

    def look(self) -> Theme:
        """Return the theme that is wanted, as this terminal can show it."""
        colors = color_system(os.environ)
        return self.preferences.look(no_color=self._no_color, color_system=colors)

    def apply_theme(self) -> None:
        """Put on the colours that are wanted."""
        theme = self.look()
        self.dashboard.set_theme(theme)
        self._header.set_theme(theme.header)
        self._devices.set_theme(theme.base)
        self._processes.set_theme(theme.base)
        self.prompt.set_theme(theme.header)
        self._footer.set_theme(theme.label)
        for screen in self.screen_stack:
            if isinstance(screen, View):
                screen.set_theme(theme)
        self.ansi_color = _is_own(theme)
        self._apply_textual_theme()

    def _apply_textual_theme(self) -> None:
        """Give Textual the same colours for what it draws by itself."""
        if not self._no_color:
            theme = textual_theme(self.preferences.current.theme)
            self.register_theme(theme)
            self.theme = theme.name

    def lay_out(self) -> None:
        """Give the picture what the terminal has, less the prompt, which is a line higher."""
        cells, height = self._terminal_size or self.size
        covered = self.prompt.height - 1 if self.prompt.is_open else 0
        self.dashboard.resize(cells, max(1, height - covered))
        self._footer.set_class(self.prompt.is_open, "-covered")

    @property
    def view(self) -> View | None:
        """The view above the overview, be it below a dialog; None if there is none."""
        screen = next(screen for screen in reversed(self.screen_stack) if not screen.is_modal)
        return screen if isinstance(screen, View) else None

    def redraw(self) -> None:
        """Draw everything, what shows through around a dialog too.

        What is the same as before costs nothing to send.
        """
        if not self.is_running:
            return
        self._tick_while_aging()
        if self.held_back():
            # A frame that nobody can see yet is not worth its drawing.
            self._owes_draw = True
            return
        view = self.view
        if view is not None:
            with self.one_frame():
                view.draw()
            return
        if self._fit_panels():
            self.call_after_refresh(self.redraw)
            return
        if not self._header.size:
            # Not laid out yet: `on_ready` draws.
            return
        panels = self.dashboard.panels()
        with self.one_frame():
            self._header.show(panels.header)
            self._devices.show(panels.devices)
            self._processes.show(panels.processes)
            self._footer.take_keys(self.dashboard.keys_in_focus, self.dashboard.status_text)
            self._footer.show(panels.footer)
            self.draw_prompt()
        self.start_display()

    def _fit_panels(self) -> bool:
        """Give the panels the heights of what they show; return whether that is a change."""
        heights = self.dashboard.device_height, len(self.dashboard.bottom)
        if self._heights == heights:
            return False
        self._heights = heights
        self._devices.styles.height, self._footer.styles.height = heights
        return True

    def draw_prompt(self) -> None:
        """Draw what is being typed; for the topic that asks."""

    def show_message(self, notice: str, *, stays: bool = False) -> None:
        """Show the outcome of an action in the footer, for some seconds unless it `stays`."""
        self.dashboard.status_message.show(notice, stays=stays)
        self.redraw()

    def prefer(self, **fields: object) -> None:
        """Note a setting that the user changed, to be saved a little later."""
        self.preferences.change(**fields)
        if not self._owes_save and not self.preferences.is_saved:
            self._owes_save = True
            self.set_timer(_SAVE_SECONDS, self._save)

    def _save(self) -> None:
        self._owes_save = False
        loop = asyncio.get_running_loop()

        def failed(reason: str) -> None:
            # Whoever has left meanwhile is told by `finish`.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(partial(self.show_message, reason, stays=True))

        self.preferences.save(failed)

    def _receive(self, snapshots: Sequence[Snapshot], after_jump: bool) -> None:
        """Take what the feed brings; while a live screen is paused it is only kept for later."""
        if self.feed.player is not None:
            self.dashboard.replay(snapshots, after_jump)
            self.redraw()
        elif self.dashboard.receive(snapshots[-1]):
            self.redraw()

    def _feed_changed(self) -> None:
        """Show a change of a recording at once, as its snapshots do not age."""
        if self.feed.player is not None:
            self.redraw()
        else:
            self._tick()

    def _tick(self) -> None:
        """Keep ages true while no snapshot does, and leave if there will never be one."""
        feed = self.feed
        if feed.latest is None and (feed.exit_status or 0) > 0:
            self.failure = feed.error
            self._leave_with(feed.exit_status or ExitStatus.FAILURE)
        elif self._is_aging:
            self.redraw()

    @property
    def _is_aging(self) -> bool:
        """Whether what is shown says how old it is."""
        return self.dashboard.playhead.paused or self.feed.state is not FeedState.LIVE

    def _tick_while_aging(self) -> None:
        """Draw again in a second if ages are shown: no snapshot may come that does."""
        if self._is_aging and not self._awaits_tick:
            self._awaits_tick = True
            self.set_timer(_TICK_SECONDS, self._tick_again)

    def _tick_again(self) -> None:
        self._awaits_tick = False
        self._tick()

    def _leave_with(self, status: int) -> None:
        self.exit(status, return_code=status)

    def draw_owed(self) -> None:
        """Draw what was not drawn while the link was busy."""
        if self._owes_draw:
            self._owes_draw = False
            self.redraw()


def _is_own(theme: Theme) -> bool:
    """Whether a look uses the terminal's own colours, which Textual must pass on as they are."""
    ground = theme.base.bgcolor
    return ground is None or ground.is_default
