"""What the views beside the overview share: header, a body that scrolls, keys."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.app import App, ComposeResult
from textual.await_complete import AwaitComplete
from textual.message import Message
from textual.screen import Screen, ScreenResultType

from gpudash.model.text import width
from gpudash.tui.bindings import bindings
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw import chart
from gpudash.tui.draw.header import footer, has_room_beside
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.keymap import VIEW_KEYS, Key
from gpudash.tui.panels import header_line
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.widgets.lines import Footer, Lines, Wheel


class Closing(Screen[ScreenResultType]):
    """Closes while it is in front only: Textual would close whatever is, with its answer."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Go away with a result; once it has gone, or lies below another, do nothing."""
        if not self.is_active:
            return AwaitComplete()
        return super().dismiss(result)


def put_above(
    app: App[Any],
    screen: Screen[ScreenResultType],
    answered: Callable[[ScreenResultType | None], Any] = lambda _result: None,
) -> bool:
    """Put a screen in front; return False, and leave it, if there is one of its kind already.

    What its answer changes is drawn when it has gone.
    """
    if any(type(each) is type(screen) for each in app.screen_stack):
        return False

    def closed(result: ScreenResultType | None) -> Any:
        awaited = answered(result)
        if isinstance(app, TerminalApp):
            app.outdated = True
        return awaited

    app.push_screen(screen, closed)
    return True


class View(Wheel, Closing[None]):
    """A whole screen about one thing: subclasses return its lines, the app has them drawn.

    A subclass with keys of its own sets `KEYS` (declared in `keymap`, `VIEW_KEYS` first) and
    `BINDINGS` to `bindings(KEYS)`.
    """

    class Open(Message):
        """Another view is to be opened above this one."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view = view

    class Filter(Message):
        """The overview is to be shown with this filter, in the words of a user."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    DEFAULT_CSS = """
    View { layout: vertical; overflow: hidden; }
    View > #body { height: 1fr; }
    """
    KEYS: ClassVar[tuple[Key, ...]] = VIEW_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(VIEW_KEYS)
    AUTO_FOCUS = None

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__()
        self.dashboard = dashboard
        self.keys = dashboard.in_force(self.KEYS)
        """The keys that work."""
        self.first = 0
        """Index of the first line in view."""
        self._total = self._room = 0
        self._footer_lines = 1
        """Lines of the footer, more than one for a long message."""
        self._top, self.body = Lines(id="header"), Lines(id="body")
        self._bottom = Footer(id="footer")

    def compose(self) -> ComposeResult:
        """Stack the panels."""
        yield self._top
        yield self.body
        yield self._bottom

    def lines(self, cells: int, height: int) -> Sequence[Line]:
        """Return all lines of the body for a width; those beyond `height` are scrolled to."""
        raise NotImplementedError

    def pinned(self, cells: int, height: int) -> Sequence[Line]:
        """Return the lines that stay at the top of the body while the others scroll below."""
        return ()

    @property
    def keys_in_force(self) -> tuple[Key, ...]:
        """The keys that work on what is shown now, as the footer names them."""
        return self.keys

    async def load_charts(self) -> None:
        """Load what draws charts without keeping a key waiting, then draw them."""
        if not chart.is_loaded():
            await asyncio.to_thread(chart.load)
            self.draw()

    def draw(self) -> None:
        """Draw the present state; what is the same as before costs nothing to send."""
        cells, height = self.body.size
        if not cells or not self.is_current:
            return
        top = self.pinned(cells, height)
        lines = self.lines(cells, height)
        self._room = room = max(0, height - len(top))
        self._total = len(lines)
        self.first = max(0, min(self.first, self._total - room))
        keys, theme = self.keys_in_force, self.dashboard.theme
        message = self.dashboard.status_text
        seen = [*top, *lines[self.first : self.first + room]]
        if not message and has_room_beside(keys, self._position, cells):
            message = self._position
        elif self._position:
            seen = _noted(seen, Segment(f" {self._position} ", theme.dim), cells, theme.base)
        bottom = footer(keys, message, theme, cells)
        if self._footer_lines != len(bottom):
            self._bottom.styles.height = self._footer_lines = len(bottom)
            self.call_after_refresh(self.draw)
            return
        self._top.show([header_line(self.dashboard)], theme.header)
        self.body.show(seen, theme.base)
        self._bottom.take_keys(keys, message)
        self._bottom.show(bottom, theme.label)

    @property
    def _position(self) -> str:
        """Which lines are in view, empty where all are: `1-22 of 155`."""
        if not 0 < self._room < self._total:
            return ""
        return f"{self.first + 1}-{self.first + self._room} of {self._total}"

    def on_screen_resume(self) -> None:
        """Draw when it is first shown or uncovered."""
        self.call_after_refresh(self.draw)

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.call_after_refresh(self.draw)

    @property
    def may_signal(self) -> bool:
        """Whether it shows the process that is selected in the overview, which a signal hits."""
        return False

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse all below another screen."""
        return self.is_active and super().check_action(action, parameters)

    def action_back(self) -> None:
        """Go back to where this was opened."""
        self.dismiss(None)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by lines, as far as there are any: frames may be held back, keys are not."""
        self.first = max(0, min(self.first + lines, self._total - self._room))

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        self.action_scroll_lines(pages * max(1, self._room - 1))

    def action_scroll_ends(self, end: int) -> None:
        """Scroll to the top (0) or the bottom (1)."""
        self.action_scroll_lines(self._total if end else -self._total)

    async def on_footer_pressed(self, message: Footer.Pressed) -> None:
        """Do what the key that was clicked does here."""
        message.stop()
        await self.app.run_action(message.action, default_namespace=self)

    def turned(self, lines: int) -> None:
        """Scroll by the wheel."""
        self.action_scroll_lines(lines)
        self.draw()


def _noted(lines: Sequence[Line], note: Segment, cells: int, blank: Style) -> list[Line]:
    """Return the lines with a note at the end of the lowest that is blank there, if one is."""
    noted = list(lines)
    for y in reversed(range(len(noted))):
        text = "".join(segment.text for segment in noted[y]).rstrip()
        if width(text) + width(note.text) < cells:
            noted[y] = spread(noted[y], [note], cells, blank)
            break
    return noted
