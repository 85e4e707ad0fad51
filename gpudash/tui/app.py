"""The app: pages over feeds, stacked, of which the front one is drawn.

It holds what all pages share: theme, settings, messages, signals, the palette, help, leaving.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.color import ColorSystem

from gpudash.model.errors import ExitStatus
from gpudash.tui.bindings import remap
from gpudash.tui.cells import color_system
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.dialogs.dialog import Dialog, put_above
from gpudash.tui.keymap import Key
from gpudash.tui.page import WHILE_TYPING, Page
from gpudash.tui.preferences import Preferences
from gpudash.tui.terminal import Terminal, TerminalApp
from gpudash.tui.theme import PALETTES, Theme, textual_theme
from gpudash.tui.widgets.edit import Edit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from textual.actions import ActionParseResult
    from textual.driver import Driver

_SAVE_SECONDS = 1.0
_TICK_SECONDS = 1.0
"""Redraw interval for ages on the screen while no snapshot arrives."""
_NOT_LISTED = frozenset({"screen.palette"})


class GpudashApp(TerminalApp):
    """Shows a first page, and pages opened from it, until the user leaves."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = Edit.CSS

    guard_seconds = 0.3, 1.0
    """Seconds for which a signal question ignores input once it is drawn, as a key may be held.

    For a question that a key asked for, and one that opens unasked; tests set 0.
    """

    def __init__(
        self,
        first: Page,
        *,
        driver_class: type[Driver] | None = None,
        no_color: bool = False,
        preferences: Preferences | None = None,
    ) -> None:
        self.preferences = preferences or Preferences()
        self._no_color = no_color
        self.first = first
        super().__init__(
            driver_class=driver_class or Terminal, ansi_color=self.load_theme().is_ansi
        )
        self.animation_level = "none"
        self.failure: str | None = None
        """Why there was never a snapshot, in the words of the collector that ended."""
        self._is_acting = False
        remap(self, self.preferences.current.keys)
        self._prepare(first)
        self.apply_textual_theme()

    # Start and end

    def get_default_screen(self) -> Page:
        """Return the first page."""
        return self.first

    def on_mount(self) -> None:
        """Handle the signals that end the program or free the GPUs, blocked until now."""
        loop = asyncio.get_running_loop()
        leaving = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        for number in leaving:
            loop.add_signal_handler(number, self.leave_with, 128 + number)
        # `kill -USR1` does the same as the key, from the shell in which a reset is made.
        loop.add_signal_handler(signal.SIGUSR1, self._release)
        # Blocked since before there was a loop whose tasks an exit would leave behind.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*leaving, signal.SIGUSR1])
        self._saves = self.set_interval(_SAVE_SECONDS, self.save_changes, pause=True)
        self._ticks = self.set_interval(_TICK_SECONDS, self._tick, pause=True)

    def on_ready(self) -> None:
        """Show the screen, and exempt the start's permanent objects from garbage collection."""
        self.redraw()
        gc.collect()
        # Memory is freed from here on; imported objects are not searched again.
        gc.freeze()
        gc.enable()

    def hang_up(self) -> None:
        """Save changes: the terminal is gone, and the program is about to exit."""
        self.preferences.finish()

    def leave_with(self, status: int) -> None:
        """End the app and set the program's exit status."""
        self.exit(status, return_code=status)

    def leave_feed(
        self, root: Page, failure: str | None = None, status: int = ExitStatus.OK
    ) -> None:
        """Leave the first page of a feed: quit, or return to the page below it.

        `failure` is why there was never a snapshot. A page already left is not affected.
        """
        if root not in self.pages:
            return
        if root is self.first:
            self.failure = failure
            self.leave_with(status)
        else:
            self.close_above(root)
            root.dismiss(failure)

    def _release(self) -> None:
        # Regardless of open dialogs: the shell that sent it cannot see them.
        self.root.release_gpus()
        self.outdated = True

    # Pages

    @property
    def pages(self) -> list[Page]:
        """The open pages, the front one last."""
        found = [each for each in self.screen_stack if isinstance(each, Page)]
        return found or [self.first]

    @property
    def front(self) -> Page:
        """The page in front, whatever dialog is above it."""
        return self.pages[-1]

    def open_feed(self, page: Page, closed: Callable[[str | None], object]) -> None:
        """Show the first page of another feed; `closed` gets the reason if it could not stay."""
        self._prepare(page)
        put_above(self, page, closed)

    def _prepare(self, page: Page) -> None:
        page.is_root = True
        page.model.theme = self.load_theme()
        page.apply(self.preferences)
        page.model.status_message.on_expiry = lambda after: self.set_timer(after, self.redraw)

    @property
    def root(self) -> Page:
        """The first page of the feed that the front page shows."""
        return next(each for each in reversed(self.pages) if each.is_root)

    def close_above(self, page: Page, *, but: int = 0) -> None:
        """Close everything above a page, except for the lowest `but`."""
        kept = self.screen_stack.index(page) + 1 + but
        while len(self.screen_stack) > kept:
            # Dialogs undo what they tried out.
            self.screen.dismiss(None)

    def show_above_root(self, name: str) -> None:
        """Show an installed page above its feed's first one, replacing any there."""
        self.close_above(self.root, but=1)
        if self.screen is self.root:
            self.push_screen(name)
        else:
            self.switch_screen(name)

    # Drawing

    def _tick(self) -> None:
        self.front.tick()
        if self.front.is_aging:
            self.front.ask()
            self.outdated = True

    def redraw(self) -> None:
        """Draw the front page, including what is visible around a dialog.

        Unchanged cells cost nothing to send.
        """
        if not self.is_running:
            return
        # Ages on the screen change even if no snapshot arrives.
        self._ticks.resume() if self.front.is_aging else self._ticks.pause()
        # A frame that cannot be sent yet is not worth drawing.
        self.outdated = self.held_back()
        if not self.outdated:
            with self.one_frame():
                self.front.draw()

    def watch_outdated(self, outdated: bool) -> None:
        """Draw at once, or after the running action."""
        if not self._is_acting:
            super().watch_outdated(outdated)

    # Actions

    async def run_action(self, action: str | ActionParseResult, *where: Any, **named: Any) -> bool:
        """Run the action of a key, then draw its changes; clears the last message.

        Extra arguments are passed on: later versions of Textual have more of them.
        """
        if not self.screen.is_modal:
            self.front.model.status_message.show("")
        self._is_acting = True
        try:
            if await super().run_action(action, *where, **named):
                return True
            if self.screen is self.front and isinstance(action, str):
                self.front.explain_refusal(action)
            return False
        finally:
            self._is_acting = False
            self.front.ask()
            if self.outdated or not self.screen.is_modal:
                self.redraw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse actions without visible effect, or not meant for the front screen."""
        if self.screen.is_modal:
            # Any other action is for a key pressed before the dialog opened.
            return action in ("suspend_process", "help", "save_screen")
        if isinstance(self.focused, Edit) and action not in WHILE_TYPING:
            return False
        return super().check_action(action, parameters)

    def show_message(self, message: str, *, stays: bool = False) -> None:
        """Show the result of an action in the footer of the front page, and of a dialog above."""
        self.front.show_message(message, stays=stays)
        if isinstance(self.screen, Dialog):
            self.screen.show_message(message)

    def action_leave(self) -> None:
        """Quit; from an entered host, go back to where it was entered."""
        self.leave_feed(self.root)

    def action_redraw(self) -> None:
        """Send every cell again."""
        self.forget_frame()

    def action_help(self) -> None:
        """Show all working keys, those of the page, dialog or prompt first."""
        screen, page = self.screen, self.front
        first = screen.KEYS if isinstance(screen, (Page, Dialog)) else ()
        if screen is page and isinstance(self.focused, Edit):
            first = tuple(key for key in page.model.keys if key.group == "Filter")
        put_above(self, page.help(first))

    def action_mistakes(self) -> None:
        """Show all mistakes in the settings file."""
        from gpudash.tui.dialogs.text import MistakesScreen

        if self.preferences.mistakes:
            put_above(self, MistakesScreen(self.front.model.theme, self.preferences.mistakes))
        else:
            self.show_message("there are no mistakes in the settings")

    def action_save_screen(self) -> None:
        """Save a picture of the screen."""
        from gpudash.tui.screenshot import save_screen

        page = self.front
        save_screen(
            page.subject,
            page.model.snapshot.taken_at,
            lambda title: self.export_screenshot(title=title),
            in_loop(self.show_message),
        )

    def action_palette(self) -> None:
        """Choose any action by name, and run it."""
        page = self.front

        def works(key: Key) -> bool:
            of_app, _, name = key.action.partition("(")[0].rpartition(".")
            owner = self if of_app else page
            return hasattr(owner, f"action_{name}") and owner.check_action(name, ()) is not False

        found = palette_entries(key for key in page.listed_keys if works(key))

        async def chosen(id: str | None) -> None:
            if id is not None:
                await self.run_action(found[id].action, default_namespace=page)

        choices = [entry.choice for entry in found.values()]
        page.choose("Actions", choices, chosen)

    # Settings

    def load_theme(self) -> Theme:
        """Return the theme of the settings, adapted to this terminal."""
        colors = color_system(os.environ)
        return self.preferences.theme(no_color=self._no_color, color_system=colors)

    def apply_theme(self) -> None:
        """Show everything in the theme of the settings."""
        theme = self.load_theme()
        for page in self.pages:
            page.model.theme = theme
        self.apply_textual_theme()

    def apply_textual_theme(self) -> None:
        """Give Textual the same colours for its own widgets."""
        theme = textual_theme(self.preferences.current.theme, self.front.model.theme)
        self.register_theme(theme)
        self.theme = theme.name

    def watch_theme(self) -> None:
        """Pass on the terminal's own colours unchanged if the theme uses them."""
        self.ansi_color = self.front.model.theme.is_ansi
        self.outdated = True

    def action_choose_theme(self) -> None:
        """Choose the theme; the screen previews the entry under the cursor."""
        current = self.preferences.current.theme

        def preview(name: str) -> Theme:
            if name != self.preferences.current.theme:
                self.preferences.try_out(theme=name)
                self.apply_theme()
            return self.front.model.theme

        def chosen(name: str | None) -> None:
            if name is None:
                preview(current)
                return
            self.prefer(theme=name)
            self.apply_theme()

        choices = [Choice(name, name, marked=name == current) for name in PALETTES]
        has_16 = color_system(os.environ) is ColorSystem.STANDARD
        few = "no" if self._no_color else "16" if has_16 else ""
        hint = f"{few} colours here: themes show on other terminals" if few else "type to find"
        self.front.choose("Theme", choices, chosen, current=current, pointed=preview, hint=hint)

    def prefer(self, **fields: object) -> None:
        """Note a setting changed by the user, to be saved a little later."""
        self.preferences.change(**fields)
        self._saves.reset()

    def action_save_settings(self) -> None:
        """Save changes made by keys to the settings: the order, the panels and the interval."""
        if not self.preferences.has_file:
            self.show_message("there is no settings file to save to")
            return
        current = self.preferences.current
        fields: dict[str, object] = {
            name: getattr(current, name)
            for name in ("sort", "reverse", "per_gpu", "hidden_panels", "interval")
        }
        self.prefer(**fields)
        what = "the order, the panels and the interval"
        if self.preferences.is_saved:
            self.show_message(f"nothing to save: {what} have not changed")
        else:
            # Until it is written, which takes long if the folder hangs.
            self.show_message(f"saving {what}", stays=True)
            self.save_changes(f"saved: {what}")

    def save_changes(self, message: str = "") -> None:
        """Save the user's changes; once written, show `message` unless it is empty.

        A write error is shown in any case.
        """
        self._saves.pause()
        show = in_loop(self.show_message)
        self.preferences.save(
            partial(show, stays=True), partial(show, message) if message else None
        )


def in_loop(call: Callable[..., object]) -> Callable[..., None]:
    """Return a function that makes a call on this loop, from a thread that may outlive it."""
    # A timer started in a thread's own context, like a message's, finds no app.
    loop, context = asyncio.get_running_loop(), copy_context()

    def passed_on(*arguments: Any, **named: Any) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(partial(call, *arguments, **named), context=context)

    return passed_on


class PaletteEntry(NamedTuple):
    """An action and its entry in the list."""

    action: str
    choice: Choice


def palette_entries(keys: Iterable[Key]) -> dict[str, PaletteEntry]:
    """Return the callable actions by id; of two with one id, the first."""
    found: dict[str, PaletteEntry] = {}
    for key in keys:
        if key.id not in _NOT_LISTED and "{key}" not in key.action:
            found.setdefault(key.id, PaletteEntry(key.action, _palette_choice(key)))
    return found


def _palette_choice(key: Key) -> Choice:
    """Return an action's list entry, which its name in the settings finds too."""
    text = key.help.partition(" (")[0]
    words = f"{key.id} {key.group} {key.label} {key.words}"
    return Choice(key.id, text[:1].upper() + text[1:], key.shown, words=words)
