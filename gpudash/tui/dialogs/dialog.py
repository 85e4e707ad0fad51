"""The base of all dialogs: a panel with an edge above the picture."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from rich.segment import Segment
from textual.app import App
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.events import Click, Resize
from textual.geometry import Size
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.widgets import Static

from gpudash.tui.keymap import Key
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import content


class Closing(Screen[ScreenResultType]):
    """Closes only while it is in front: Textual would close the front screen with its answer."""

    def dismiss(self, result: ScreenResultType | None = None) -> AwaitComplete:
        """Close with a result; do nothing if it is gone or below another screen."""
        if not self.is_active:
            return AwaitComplete()
        return super().dismiss(result)


def put_above(
    app: App[Any],
    screen: Screen[ScreenResultType],
    answered: Callable[[ScreenResultType | None], Any] = lambda _result: None,
) -> bool:
    """Put a screen in front; return False, and do nothing, if there is one of its kind.

    The effect of its answer is drawn when it has closed.
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


class Dialog(Closing[ScreenResultType], ModalScreen[ScreenResultType]):
    """A panel above the picture; a click beside it closes it without a result.

    A subclass composes one container, sizes it in `fit`, and appends its own rules to `CSS`.
    """

    CSS = """
    Dialog { align: center middle; background: transparent; }
    Dialog > * {
        width: auto; height: auto; max-width: 100%; max-height: 100%;
        background: $surface; color: $foreground;
        border: round $primary;
        border-title-color: $primary; border-title-style: bold;
        border-subtitle-color: $dim; border-subtitle-style: $dim-style;
        scrollbar-size: 0 0;
    }
    Dialog.-ascii > * { border: ascii $primary; }
    Dialog.-cramped > * { border: none; }
    Dialog > #notice { dock: bottom; width: 100%; border: none; padding: 0 1; }
    """
    SCOPED_CSS = False
    """The rules apply to the screen itself too."""
    KEYS: ClassVar[tuple[Key, ...]] = ()
    """Its keys, listed first in the help opened from it."""
    BINDINGS: ClassVar[list[Any]] = [
        # With these ids, they follow the user's keys for the overview.
        Binding("ctrl+z", "app.suspend_process", show=False, id="screen.suspend"),
        Binding("h,question_mark,f1", "app.help", show=False, id="screen.help"),
        Binding("S", "app.save_screen", show=False, id="screen.picture"),
    ]

    EDGE_FROM: ClassVar[tuple[int, int]] = 24, 8
    """Minimum cells and lines of a terminal for the edge."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.palette = theme
        """The styles of what it shows."""
        self.edges = 2
        """Lines, and cells, that its edge takes."""
        self.set_class(theme.is_ascii, "-ascii")

    def fit(self, cells: int, lines: int) -> None:
        """Fit the dialog into this space, without its edge; called at every resize."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Fit the dialog before it is first drawn, or it would fill the terminal at first."""
        self._fit(self.app.size)

    def on_resize(self, event: Resize) -> None:
        """Fit the dialog to the terminal."""
        self._fit(event.size)
        # Textual lays out the screens below too, and thereby stops the timer for their pending
        # work: without a message, that would wait for one.
        for below in self.app.screen_stack[:-1]:
            self.call_next(below.check_idle)

    def _fit(self, size: Size) -> None:
        cells, lines = size
        cramped = cells < self.EDGE_FROM[0] or lines < self.EDGE_FROM[1]
        self.set_class(cramped, "-cramped")
        self.edges = 0 if cramped else 2
        self.fit(max(1, cells - self.edges), max(1, lines - self.edges))

    def show_message(self, message: str) -> None:
        """Show a message at the bottom, where it may cover the footer."""
        self.query("#notice").remove()
        self.mount(Static(content([[Segment(message, self.palette.notice)]]), id="notice"))

    def on_click(self, event: Click) -> None:
        """Close by a click beside the dialog."""
        # The terminal may have shrunk since, so that no widget is there any more.
        if not any(each.region.contains_point(event.screen_offset) for each in self.children):
            self.dismiss(None)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False, immediate=True)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by pages."""
        self.action_scroll_lines(pages * max(1, self.query_one(VerticalScroll).size.height - 1))

    def action_cancel(self) -> None:
        """Close without a result."""
        self.dismiss(None)
