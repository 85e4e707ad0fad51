"""The app: pages over feeds, one above the other, of which the one in front is drawn.

It has what all pages share: theme, settings, messages, signals, the palette, help, leaving.
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
"""After which ages on screen are drawn again while no snapshot does that."""
_NOT_LISTED = frozenset({"screen.palette"})


class GpudashApp(TerminalApp):
    """Shows a first page, and those that are opened from it, until its user leaves."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = Edit.CSS

    guard_seconds = 0.3, 1.0
    """Seconds for which a question about a signal ignores input once it is drawn: a held key's.

    Of one that a key has asked for, and of one that opens unasked; tests set 0.
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
        """Obey the signals that end a program or free the GPUs, held back until now."""
        loop = asyncio.get_running_loop()
        leaving = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
        for number in leaving:
            loop.add_signal_handler(number, self.leave_with, 128 + number)
        # `kill -USR1` does what the key does, from the shell in which a reset is made.
        loop.add_signal_handler(signal.SIGUSR1, self._release)
        # Held back since before there was a loop whose tasks an exit would leave behind.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [*leaving, signal.SIGUSR1])
        self._saves = self.set_interval(_SAVE_SECONDS, self.save_changes, pause=True)
        self._ticks = self.set_interval(_TICK_SECONDS, self._tick, pause=True)

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

    def leave_feed(
        self, root: Page, failure: str | None = None, status: int = ExitStatus.OK
    ) -> None:
        """Leave the first page of a feed: the program, or for the page below it.

        `failure` is why there was never a snapshot. A page that was left before stays so.
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
        # Whatever dialog is open: the shell from which it comes cannot see that.
        self.root.release_gpus()
        self.outdated = True

    # Pages

    @property
    def pages(self) -> list[Page]:
        """The pages that are open, the one in front last."""
        found = [each for each in self.screen_stack if isinstance(each, Page)]
        return found or [self.first]

    @property
    def front(self) -> Page:
        """The page in front, whatever dialog is above it."""
        return self.pages[-1]

    def open_feed(self, page: Page, closed: Callable[[str | None], object]) -> None:
        """Show the first page of another feed; `closed` is called with why it could not stay."""
        self._prepare(page)
        put_above(self, page, closed)

    def _prepare(self, page: Page) -> None:
        page.is_root = True
        page.shown.theme = self.load_theme()
        page.apply(self.preferences)
        page.shown.status_message.on_expiry = lambda after: self.set_timer(after, self.redraw)

    @property
    def root(self) -> Page:
        """The first page of the feed that the page in front is over."""
        return next(each for each in reversed(self.pages) if each.is_root)

    def close_above(self, page: Page, *, but: int = 0) -> None:
        """Close all that lies above a page; `but` is how many of them stay."""
        kept = self.screen_stack.index(page) + 1 + but
        while len(self.screen_stack) > kept:
            # Dialogs take back what they tried out.
            self.screen.dismiss(None)

    def show_above_root(self, name: str) -> None:
        """Show an installed page above the first one of its feed, in place of what is there."""
        self.close_above(self.root, but=1)
        if self.screen is self.root:
            self.push_screen(name)
        else:
            self.switch_screen(name)

    # Drawing

    def _tick(self) -> None:
        self.front.tick()
        if self.front.is_aging:
            self.outdated = True

    def redraw(self) -> None:
        """Draw the page in front, what shows through around a dialog too.

        What is the same as before costs nothing to send.
        """
        if not self.is_running:
            return
        # While ages are shown, no snapshot may come that keeps them true.
        self._ticks.resume() if self.front.is_aging else self._ticks.pause()
        # A frame that is not on screen yet is not worth its drawing.
        self.outdated = self.held_back()
        if not self.outdated:
            with self.one_frame():
                self.front.draw()

    def watch_outdated(self, outdated: bool) -> None:
        """Draw at once, or after the action that is being carried out."""
        if not self._is_acting:
            super().watch_outdated(outdated)

    # Actions

    async def run_action(self, action: str | ActionParseResult, *where: Any, **named: Any) -> bool:
        """Carry out the action of a key, then draw what it changed; the last message is over.

        Where an action is looked up is passed on: later versions of Textual take more of it.
        """
        if not self.screen.is_modal:
            self.front.shown.status_message.show("")
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
        """Refuse what would have no visible effect, or is not for the screen in front."""
        if self.screen.is_modal:
            # Any other is of a key that was pressed before the dialog opened.
            return action in ("suspend_process", "help", "save_screen")
        if isinstance(self.focused, Edit) and action not in WHILE_TYPING:
            return False
        return super().check_action(action, parameters)

    def show_message(self, message: str, *, stays: bool = False) -> None:
        """Show what an action led to in the footer of the page in front, and of a dialog above."""
        self.front.show_message(message, stays=stays)
        if isinstance(self.screen, Dialog):
            self.screen.show_message(message)

    def action_leave(self) -> None:
        """Quit; from a host that was entered, go back to where that was done."""
        self.leave_feed(self.root)

    def action_redraw(self) -> None:
        """Send every cell again."""
        self.forget_frame()

    def action_help(self) -> None:
        """Show all keys that work, first those of the page or dialog, or of what is typed."""
        screen, page = self.screen, self.front
        first = screen.KEYS if isinstance(screen, (Page, Dialog)) else ()
        if screen is page and isinstance(self.focused, Edit):
            first = tuple(key for key in page.shown.keys if key.group == "Filter")
        put_above(self, page.help(first))

    def action_mistakes(self) -> None:
        """Show all that is wrong in the file of settings."""
        from gpudash.tui.dialogs.text import MistakesScreen

        if self.preferences.mistakes:
            put_above(self, MistakesScreen(self.front.shown.theme, self.preferences.mistakes))
        else:
            self.show_message("there are no mistakes in the settings")

    def action_save_screen(self) -> None:
        """Save a picture of the screen."""
        from gpudash.tui.screenshot import save_screen

        page = self.front
        save_screen(
            page.subject,
            page.shown.snapshot.taken_at,
            lambda title: self.export_screenshot(title=title),
            in_loop(self.show_message),
        )

    def action_palette(self) -> None:
        """Choose any action by its name, and carry it out."""
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
        """Return the theme of the settings, as this terminal can show it."""
        colors = color_system(os.environ)
        return self.preferences.theme(no_color=self._no_color, color_system=colors)

    def apply_theme(self) -> None:
        """Show everything in the theme of the settings."""
        theme = self.load_theme()
        for page in self.pages:
            page.shown.theme = theme
        self.apply_textual_theme()

    def apply_textual_theme(self) -> None:
        """Give Textual the same colours for what it draws by itself."""
        theme = textual_theme(self.preferences.current.theme, self.front.shown.theme)
        self.register_theme(theme)
        self.theme = theme.name

    def watch_theme(self) -> None:
        """Pass the terminal's own colours on as they are where the theme has them."""
        self.ansi_color = self.front.shown.theme.is_ansi
        self.outdated = True

    def action_choose_theme(self) -> None:
        """Choose the colours; meanwhile the screen has those of the entry under the cursor."""
        current = self.preferences.current.theme

        def preview(name: str) -> Theme:
            if name != self.preferences.current.theme:
                self.preferences.try_out(theme=name)
                self.apply_theme()
            return self.front.shown.theme

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
        """Note a setting that the user changed, to be saved a little later."""
        self.preferences.change(**fields)
        self._saves.reset()

    def action_save_settings(self) -> None:
        """Make settings of what keys changed: the order, the panels and the interval."""
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
            # Until it is written, which takes long where the folder hangs.
            self.show_message(f"saving {what}", stays=True)
            self.save_changes(f"saved: {what}")

    def save_changes(self, message: str = "") -> None:
        """Save what the user changed; once it is written, a `message` that is not empty is shown.

        Why it cannot be written is shown in any case.
        """
        self._saves.pause()
        show = in_loop(self.show_message)
        self.preferences.save(
            partial(show, stays=True), partial(show, message) if message else None
        )


def in_loop(call: Callable[..., object]) -> Callable[..., None]:
    """Return a function that makes a call on this loop, from a thread that may outlive it."""
    # A timer started in a thread's own context, as the one that clears a message, finds no app.
    loop, context = asyncio.get_running_loop(), copy_context()

    def passed_on(*arguments: Any, **named: Any) -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(partial(call, *arguments, **named), context=context)

    return passed_on


class PaletteEntry(NamedTuple):
    """An action and how it is listed."""

    action: str
    choice: Choice


def palette_entries(keys: Iterable[Key]) -> dict[str, PaletteEntry]:
    """Return what can be called, by id; of two with one id the first."""
    found: dict[str, PaletteEntry] = {}
    for key in keys:
        if key.id not in _NOT_LISTED and "{key}" not in key.action:
            found.setdefault(key.id, PaletteEntry(key.action, _palette_choice(key)))
    return found


def _palette_choice(key: Key) -> Choice:
    """Return how an action is listed; its name in the settings finds it, too."""
    text = key.help.partition(" (")[0]
    words = f"{key.id} {key.group} {key.label} {key.words}"
    return Choice(key.id, text[:1].upper() + text[1:], key.shown, words=words)
