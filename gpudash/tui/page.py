"""A page: a whole screen over a feed, with a header, a body of lines, and a footer with keys.

Pages are stacked: a cluster, one of its hosts, a GPU of that. Each has its own keys and actions;
the app draws the front one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from textual.app import ComposeResult
from textual.events import Click
from textual.screen import Screen

from gpudash.feed.protocol import Feed, FeedState
from gpudash.feed.timeline import Timeline
from gpudash.model.errors import ExitStatus
from gpudash.model.wire import Document, Received
from gpudash.tui.bindings import bindings
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.dialogs.dialog import Closing, put_above
from gpudash.tui.draw import chart
from gpudash.tui.draw.header import footer
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import SCREEN_KEYS, Key
from gpudash.tui.status import StatusMessage
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import Edit
from gpudash.tui.widgets.lines import Footer, Lines

if TYPE_CHECKING:
    from gpudash.tui.app import GpudashApp
    from gpudash.tui.preferences import Preferences
    from gpudash.tui.widgets.filter_prompt import FilterPrompt

WHILE_TYPING = frozenset({"move", "page", "redraw", "suspend_process", "help"})
"""Actions whose keys cannot be part of a text."""
_ALL = 1_000_000
"""More rows than any page has."""


class Shown(Protocol):
    """What is shown of a feed, as far as every page needs it."""

    @property
    def snapshot(self) -> Document:
        """The snapshot shown, dated 1970 before the first."""

    @property
    def feed(self) -> Feed[Any]:
        """The source of snapshots."""

    time: Timeline[Any]
    theme: Theme
    status_message: StatusMessage
    keys: tuple[Key, ...]
    in_force: Callable[[Iterable[Key]], tuple[Key, ...]]


class Page(Closing[str], inherit_bindings=False):
    """A whole screen about one thing. If it closes with a text, that says why it could not stay."""

    DEFAULT_CSS = """
    Page { layout: vertical; overflow: hidden; }
    Page > #body { height: 1fr; }
    Page > Footer.-covered { display: none; }
    """
    BINDINGS: ClassVar[list[Any]] = bindings(SCREEN_KEYS)
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """Its keys besides common ones, all of which are bound; listed first in help."""
    is_root = False
    """Whether it is the first page over its feed."""
    page_rows = 1
    """How many rows a page key moves by."""
    above = 0
    """Lines of the body above those that handle clicks."""

    def __init_subclass__(cls, **options: Any) -> None:
        if "KEYS" in cls.__dict__ and "BINDINGS" not in cls.__dict__:
            cls.BINDINGS = bindings(cls.KEYS)
        super().__init_subclass__(**options)

    def __init__(self, model: Shown) -> None:
        super().__init__()
        self.model, self.feed = model, model.feed
        self._footer_lines = 1
        """Lines of the footer, more than one for a long message."""
        self.top, self.body = Lines(id="header"), Lines(id="body")
        self.bottom = Footer(id="footer")

    @property
    def app(self) -> GpudashApp:  # type: ignore[override]
        """The app."""
        return cast("GpudashApp", super().app)

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self.top
        yield self.body
        yield self.bottom

    def apply(self, preferences: Preferences) -> None:
        """Apply the user's settings, as the first page of a feed."""

    # What a page is

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return the lines of its body, around its cursor if it has one."""
        raise NotImplementedError

    @property
    def position(self) -> str:
        """Which rows are in view, empty if all are: `1-22 of 155`."""
        return ""

    def move(self, rows: int) -> None:
        """Move the cursor, or scroll if there is none, within bounds."""
        raise NotImplementedError

    def clicked(self, x: int, y: int) -> bool:
        """Put the cursor on a cell of the lines; return whether to open the item there."""
        return False

    def ask(self) -> None:
        """Request everything shown besides the present, if that has changed.

        Called in front after any event: a key, a sample, a new size.
        """

    # Drawing

    def draw(self) -> None:
        """Draw the present state; unchanged cells cost nothing to send."""
        raise NotImplementedError

    def show(self, top: Line, lines: Sequence[Line], keys: Sequence[Key], notice: str) -> None:
        """Show the header, the body, and the keys or a notice, which may take several lines."""
        theme = self.model.theme
        bottom = footer(keys, notice, theme, self.body.size.width)
        if self._footer_lines != len(bottom):
            self.bottom.styles.height = self._footer_lines = len(bottom)
            self.draw_later()
            return
        self.top.show([top], theme.header)
        self.body.show(lines, theme.base)
        self.bottom.take_keys(keys, notice)
        self.bottom.show(bottom, theme.label)
        self.app.start_display()

    async def load_charts(self) -> None:
        """Load plotext without delaying keys, then draw the charts."""
        if not chart.is_loaded():
            await asyncio.to_thread(chart.load)
            self.app.outdated = True

    def on_screen_resume(self) -> None:
        """Draw when it is first shown or uncovered."""
        self.draw_later()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.draw_later()

    def draw_later(self) -> None:
        """Request and draw what has room, once its parts have their new sizes."""

        def laid_out() -> None:
            self.app.front.ask()
            self.app.redraw()

        self.call_after_refresh(laid_out)

    # The feed, to which its first page listens

    def on_mount(self) -> None:
        """Show the latest snapshot of the feed, and all later ones."""
        if self.is_root:
            self.model.time.catch_up()
            loop = asyncio.get_running_loop()
            self.feed.attach(loop, self.receive, self._feed_changed)

    def on_unmount(self) -> None:
        """Stop the collector."""
        if self.is_root:
            self.feed.stop()

    def receive(self, received: Sequence[Received[Any]], after_jump: bool) -> None:
        """Receive snapshots, except while a page over another feed is in front."""
        if self.app.root is self:
            self.model.time.receive(received, after_jump)
            self.app.front.ask()
            self.app.outdated = True

    def _feed_changed(self) -> None:
        """Leave a feed that ended; show changes at once for which no snapshot arrives."""
        if self.app.root is self:
            self.tick()
            self.app.outdated = True

    # What the app asks of the page in front

    @property
    def is_aging(self) -> bool:
        """Whether an age is on the screen that grows without snapshots."""
        return not self.model.time.is_live or self.feed.state is not FeedState.LIVE

    def tick(self) -> None:
        """Leave a feed that will never have a snapshot."""
        feed = self.feed
        if feed.latest is None and (feed.exit_status or 0) > 0:
            root = self if self.is_root else self.app.root
            self.app.leave_feed(root, feed.error, feed.exit_status or ExitStatus.FAILURE)

    @property
    def subject(self) -> str:
        """The subject in the name of a saved picture: the host or the like."""
        raise NotImplementedError

    @property
    def listed_keys(self) -> tuple[Key, ...]:
        """The keys from which the palette lists those in force."""
        return self.model.keys

    def release_gpus(self) -> None:
        """Release the GPUs of the host, or take them back; do nothing without a host."""

    def help(self, first: Sequence[Key]) -> Screen[Any]:
        """Return the dialog that lists all keys in force, some of them first."""
        raise NotImplementedError

    # The cursor

    def action_move(self, rows: int) -> None:
        """Move the cursor, or scroll."""
        self.move(rows)

    def action_page(self, pages: int) -> None:
        """Move by a page."""
        self.action_move(pages * self.page_rows)

    def action_move_to(self, index: int) -> None:
        """Move to the first row (0) or the last (-1)."""
        self.action_move(_ALL if index else -_ALL)

    def turned(self, lines: int) -> None:
        """Move by the wheel."""
        self.move(lines)
        self.app.outdated = True

    async def on_click(self, event: Click) -> None:
        """Put the cursor there, or open the item there."""
        region = self.body.region
        if self.is_active and region.contains(event.screen_x, event.screen_y):
            if self.clicked(event.screen_x - region.x, event.screen_y - region.y - self.above):
                await self.app.run_action("open", default_namespace=self)
            self.app.outdated = True

    # Actions

    def action_open(self) -> None:
        """Enter the item under the cursor."""

    def explain_refusal(self, action: str) -> None:
        """Explain why an action that `check_action` refused is not for this page, if that helps."""

    def action_pause(self) -> None:
        """Freeze the screen, or catch up with the feed; stop a recording, or play on from here."""
        self.model.time.toggle()

    def action_step(self, samples: int) -> None:
        """Show an earlier or a later sample."""
        self.model.time.step(samples)

    def action_seek(self) -> None:
        """Choose another time."""
        from gpudash.tui.dialogs.moment import moment_dialog

        time = self.model.time
        dialog = moment_dialog(time, self.model.snapshot.taken_at, self.model.theme)
        if dialog is None:
            self.show_message("there are no samples yet")
            return

        def chosen(value: str | None) -> None:
            if value is not None:
                time.go_to(datetime.fromisoformat(value))

        put_above(self.app, dialog, chosen)

    def choose(
        self,
        title: str,
        choices: Sequence[Choice],
        chosen: Callable[[str | None], object] = lambda _value: None,
        **options: Any,
    ) -> None:
        """Let one of several be chosen, with the options of `ChooseScreen`."""
        put_above(self.app, ChooseScreen(title, choices, self.model.theme, **options), chosen)

    def show_message(self, message: str, *, stays: bool = False) -> None:
        """Show the result of an action in the footer, for some seconds unless it `stays`."""
        self.model.status_message.show(message, stays=stays)
        self.app.outdated = True

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse everything while below another screen, and keys that a text being typed needs."""
        if not self.is_active or (isinstance(self.focused, Edit) and action not in WHILE_TYPING):
            return False
        return super().check_action(action, parameters)

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Run the action of the key that was clicked."""
        message.stop()
        await self.app.run_action(message.action, default_namespace=self)


class Filtering(Page):
    """The common part of pages with rows narrowed down by a filter, mixed into each."""

    prompt: FilterPrompt

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        self.prompt.open()

    def action_move(self, rows: int) -> None:
        """Move the cursor, to whose row a filter being typed then returns."""
        super().action_move(rows)
        self.prompt.follow_cursor()

    def on_filter_prompt_resized(self, _message: FilterPrompt.Resized) -> None:
        """Give the prompt its lines, or return them to the page."""
        self.bottom.set_class(self.prompt.is_open, "-covered")
        self.draw_later()


def page_class(path: str) -> Any:
    """Return the class of a page by its module and its name, importing it."""
    module, _, name = path.rpartition(".")
    return getattr(import_module(f"gpudash.tui.{module}"), name)
