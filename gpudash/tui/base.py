"""What the app of one host and that of many share: theme, settings, messages, signals, leaving."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from gpudash.model.errors import ExitStatus
from gpudash.tui.cells import color_system
from gpudash.tui.keymap import Key
from gpudash.tui.preferences import Preferences
from gpudash.tui.status import StatusMessage
from gpudash.tui.terminal import Terminal, TerminalApp
from gpudash.tui.theme import Theme, textual_theme

if TYPE_CHECKING:
    from textual.actions import ActionParseResult
    from textual.driver import Driver

_SAVE_SECONDS = 1.0
TICK_SECONDS = 1.0
"""After which ages on screen are drawn again while no snapshot does that."""
WHILE_TYPING = frozenset({"move", "page", "redraw", "suspend_process"})
"""The actions of keys that no text needs."""


class Shown(Protocol):
    """The state of a screen, as far as every app needs it."""

    theme: Theme
    status_message: StatusMessage
    keys: tuple[Key, ...]


class BaseApp(TerminalApp):
    """An app over a state that has a theme, `dashboard`, with the settings of its user."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    dashboard: Shown
    """What is shown."""

    def __init__(
        self,
        *,
        driver_class: type[Driver] | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        self.preferences = preferences or Preferences()
        self._no_color = no_color
        super().__init__(
            driver_class=driver_class or Terminal, ansi_color=self.load_theme().is_ansi
        )
        self.animation_level = "none"
        self.failure: str | None = None
        """Why there was never a snapshot, in the words of the collector that ended."""
        self._is_acting = False

    # Start and end

    def obey_signals(self) -> None:
        """Leave by the signals that end a program, held back until now; save what was chosen."""
        loop = asyncio.get_running_loop()
        leaving = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        for number in leaving:
            loop.add_signal_handler(number, self.leave_with, 128 + number)
        # Held back since before there was a loop whose tasks an exit would leave behind.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, leaving)
        self.dashboard.status_message.on_expiry = lambda after: self.set_timer(after, self.redraw)
        self._saves = self.set_interval(_SAVE_SECONDS, self.save_changes, pause=True)

    def on_ready(self) -> None:
        """Show the screen, and keep the garbage collector off what start-up left for good."""
        self.redraw()
        gc.collect()
        # From here on memory is freed: what was imported is not searched for garbage again.
        gc.freeze()
        gc.enable()

    def hang_up(self) -> None:
        """Save what was changed: the terminal is gone, and the program about to be."""
        self.preferences.finish()

    def leave_with(self, status: int) -> None:
        """End the app, the program with this status."""
        self.exit(status, return_code=status)

    def pictured(self) -> tuple[str, datetime]:
        """Return what a saved picture is named after: the host or the like, and when it was so."""
        raise NotImplementedError

    # Actions and messages

    def show_message(self, message: str, *, stays: bool = False) -> None:
        """Show what an action led to in the footer, for some seconds unless it `stays`."""
        self.dashboard.status_message.show(message, stays=stays)
        self.outdated = True

    async def run_action(self, action: str | ActionParseResult, *where: Any, **named: Any) -> bool:
        """Carry out the action of a key, then draw what it changed; the last message is over.

        Where an action is looked up is passed on: later versions of Textual take more of it.
        """
        if not self.screen.is_modal:
            self.dashboard.status_message.show("")
        self._is_acting = True
        try:
            return await super().run_action(action, *where, **named)
        finally:
            self._is_acting = False
            if self.outdated or not self.screen.is_modal:
                self.redraw()

    def watch_outdated(self, outdated: bool) -> None:
        """Draw at once, or after the action that is being carried out."""
        if not self._is_acting:
            super().watch_outdated(outdated)

    def action_leave(self) -> None:
        """Quit."""
        self.leave_with(ExitStatus.OK)

    def action_redraw(self) -> None:
        """Send every cell again."""
        self.forget_frame()

    # Settings

    def load_theme(self) -> Theme:
        """Return the theme of the settings, as this terminal can show it."""
        colors = color_system(os.environ)
        return self.preferences.theme(no_color=self._no_color, color_system=colors)

    def apply_theme(self) -> None:
        """Show everything in the theme of the settings."""
        self.dashboard.theme = self.load_theme()
        self.apply_textual_theme()

    def apply_textual_theme(self) -> None:
        """Give Textual the same colours for what it draws by itself."""
        theme = textual_theme(self.preferences.current.theme, self.dashboard.theme)
        self.register_theme(theme)
        self.theme = theme.name

    def watch_theme(self) -> None:
        """Pass the terminal's own colours on as they are where the theme has them."""
        self.ansi_color = self.dashboard.theme.is_ansi
        self.outdated = True

    def prefer(self, **fields: object) -> None:
        """Note a setting that the user changed, to be saved a little later."""
        self.preferences.change(**fields)
        self._saves.reset()

    def save_changes(self, message: str = "") -> None:
        """Save what the user changed; once it is written, a `message` that is not empty is shown.

        Why it cannot be written is shown in any case.
        """
        self._saves.pause()
        loop = asyncio.get_running_loop()

        def tell(text: str, stays: bool) -> None:
            # After the loop has ended, `finish` reports what failed.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(partial(self.show_message, text, stays=stays))

        self.preferences.save(
            partial(tell, stays=True), partial(tell, message, False) if message else None
        )
