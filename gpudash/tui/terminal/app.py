"""An app that sends only the cells that differ from what the terminal shows.

Textual sends a changed widget's lines again in full. Here an update of its compositor becomes a
difference, and `repaint` writes the rows of a widget without a pass of the compositor when
nothing covers it. Rows wait here and not on their way: what waits is sent as it is wanted when
its turn comes.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import COLOR_SYSTEMS
from textual._ansi_sequences import SYNC_END, SYNC_START
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual._styles_cache import StylesCache
from textual.app import App
from textual.events import Event, InputEvent
from textual.geometry import Size
from textual.strip import Strip

from gpudash.model.errors import is_exhausted
from gpudash.model.text import clean
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.terminal.diff import erases
from gpudash.tui.terminal.driver import QuietDriver
from gpudash.tui.terminal.input import OrderedKeys
from gpudash.tui.terminal.screen_buffer import ScreenBuffer

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.style import Style
    from textual.await_complete import AwaitComplete
    from textual.screen import Screen
    from textual.widget import Widget


_ANSWER_SECONDS = 1.0
"""What changes so soon after a key is taken for its answer."""
_PIECE_BYTES = 2048
"""What is shown at once at least, where a link has no room for all."""


class _SendingApp(App[int]):
    """An app that never sends more than the terminal shows in a moment, answers to keys first.

    It ends in order where the system refuses it files, threads or memory: Textual would open the
    sources of an error to show it, and hang.
    """

    refusal: Exception | None = None
    """What ended the app, if the system did."""

    _frame: ScreenBuffer | None = None
    _holding = False
    _cursor_owed = False
    _asked = 0
    _asked_at = -math.inf

    def _handle_exception(self, error: Exception) -> None:
        if is_exhausted(error):
            self.refusal = self.refusal or error
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)

    def held_back(self) -> bool:
        """Whether an earlier frame is on its way; `draw_owed` is called when it has arrived."""
        driver = self._driver
        if not isinstance(driver, QuietDriver) or not driver.busy:
            return False
        driver.await_free()
        return True

    def ring(self, notice: str) -> None:
        """Ring the bell and show a notice, where the terminal has notices (OSC 9)."""
        driver = self._driver
        if driver is not None:
            driver.write(f"\a\x1b]9;{clean(notice)}\x1b\\")
            driver.flush()

    @contextmanager
    def one_frame(self) -> Iterator[None]:
        """Send all rows repainted within as one write."""
        self._holding = True
        try:
            yield
        finally:
            self._holding = False
            self._flush_frame()

    async def on_event(self, event: Event) -> None:
        """Count what the user asks for: its answer is to be seen before other changes."""
        if isinstance(event, InputEvent):
            self._asked += 1
            self._asked_at = time.monotonic()
        await super().on_event(event)

    @property
    def _turn(self) -> int:
        """The number of what was asked for last; 0 for changes that are of themselves."""
        return self._asked if time.monotonic() - self._asked_at < _ANSWER_SECONDS else 0

    def on_quiet_driver_free(self) -> None:
        """Show the present state, which may have changed several times since the last frame."""
        self.draw_owed()
        self._flush_frame()

    def draw_owed(self) -> None:
        """Draw what was not drawn while the link was busy; for who draws."""

    def _flush_frame(self, *, cursor: bool = False) -> None:
        """Send what changed, as much of it as the link has room for; the rest when it has more."""
        self._cursor_owed |= cursor
        driver = self._driver
        while driver is not None and not self.held_back():
            room = driver.room if isinstance(driver, QuietDriver) else None
            data = "".join(self._pieces(room))
            if data:
                driver.write(data)
                driver.flush()
            if self._frame is None or not self._frame.pending:
                return

    def _pieces(self, room: int | None) -> Iterator[str]:
        """Yield what is to be sent, pieces that are soon shown until the room is taken."""
        frame = self._frame
        size = None if room is None else max(_PIECE_BYTES, room // 2)
        while True:
            data = frame.take(size) if frame is not None else ""
            pending = frame is not None and frame.pending
            if not pending:
                data += self._cursor_move()
            if data:
                yield SYNC_START + data + SYNC_END if self._sync_available else data
            if not pending or room is None:
                return
            room -= len(data.encode())
            if room < _PIECE_BYTES // 2:
                return

    def _cursor_move(self) -> str:
        """Return what brings the cursor to where it belongs, if that has changed."""
        position = self.screen.outer_size.clamp_offset(self.cursor_position)
        owed, self._cursor_owed = self._cursor_owed, False
        if not owed or position == self._previous_cursor_position:
            return ""
        self._previous_cursor_position = position
        return f"\x1b[{position.y + 1};{position.x + 1}H"


class TerminalApp(OrderedKeys, _SendingApp):
    """An app that knows what the terminal shows and sends only what differs."""

    _frame_size = Size(0, 0)
    _curtain = False
    found_attributes: list[Any] | None = None
    pre_frame_bytes = 0
    """What was sent behind the first question to the terminal, 0 if it was not asked."""

    @property
    def pre_frame_shown(self) -> bool:
        """Whether the alternate screen was entered before the app ran."""
        return self._curtain

    def adopt_terminal(
        self, frame: ScreenBuffer | None, size: tuple[int, int], attributes: list[Any], sent: int
    ) -> None:
        """Leave the picture that the terminal shows alone until `start_display`.

        `frame` is what that picture is known to be, None if it is not known; `attributes` are
        those of the terminal (termios) to be restored when the app lets go of it; `sent` is
        what it was sent behind the first question, 0 if it was asked none.
        """
        self.pre_frame_bytes = sent
        self._curtain = True
        self._frame, self._frame_size = frame, Size(*size)
        self.found_attributes = attributes

    def start_display(self) -> None:
        """Let the app's own picture through from now on, and take keys.

        Earlier keys would reach a screen that is not there yet.
        """
        if self._curtain:
            self._curtain = False
            self.refresh(layout=True)
        if isinstance(self._driver, QuietDriver):
            self._driver.listen()

    @property
    def taken_over_at(self) -> float:
        """When the terminal was last taken, on the monotonic clock: at first, or after a stop."""
        driver = self._driver
        return driver.taken_over_at if isinstance(driver, QuietDriver) else -math.inf

    def forget_frame(self) -> None:
        """Send everything again: another program has written to the terminal."""
        self._frame = None
        self.refresh(layout=True)

    def write_rows(self, widget: Widget, rows: Mapping[int, Line], blank: Style) -> bool:
        """Write rows of a widget straight to the terminal; False if Textual must do it."""
        frame = self._frame
        if frame is None or not self._may_write() or not self._uncovered(widget):
            return False
        place = widget.screen._compositor.visible_widgets.get(widget)
        if place is None or not place[1].contains_region(place[0]):
            return False
        region = place[0]
        frame.turn = self._turn
        for y, line in rows.items():
            shown = self._filtered(widget, line, blank) if self.no_color else line
            frame.draw(region.y + y, (region.x, region.right), shown, blank)
        widget._styles_cache.clear()
        if not self._holding:
            self._flush_frame()
        return True

    def _filtered(self, widget: Widget, line: Line, blank: Style) -> Line:
        """Return a line as Textual's filters leave it."""
        strip = Strip(fitted(line, widget.region.width, blank))
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, widget.background_colors[1])
        return strip._segments

    def pop_screen(self) -> AwaitComplete:
        """Leave a screen without keeping it.

        Textual remembers two colours for each widget that it ever drew, and with the colours the
        widget's lines: a third of a megabyte for a screen.
        """
        StylesCache.get_inner_outer.cache_clear()
        return super().pop_screen()

    def _may_write(self) -> bool:
        driver = self._driver
        return bool(
            driver is not None
            and not driver.is_headless
            and not driver.is_inline
            and self._running
            and not self._closed
            and not self._batch_count
            and not self._curtain
        )

    def _uncovered(self, widget: Widget) -> bool:
        screen = self.screen
        return (
            widget.is_attached
            and widget.screen is screen
            and not screen._layout_required
            and self._frame_size == screen._compositor.size
        )

    def _display(self, screen: Screen[Any], renderable: RenderableType | None) -> None:
        """Send a compositor's update as a difference to what the terminal shows."""
        if self._curtain:
            self.post_display_hook()
            return
        update = renderable
        if not self._may_write() or not isinstance(update, (LayoutUpdate, ChopsUpdate)):
            if update is not None:
                self._frame = None
            super()._display(screen, renderable)
            return
        size = self.screen._compositor.size
        whole = isinstance(update, LayoutUpdate)
        if self._frame is None or self._frame_size != size:
            if not whole:
                self._frame = None
                super()._display(screen, renderable)
                return
            colors = COLOR_SYSTEMS[self.console.color_system or "truecolor"]
            self._frame = ScreenBuffer(colors, erases=erases(os.environ))
            self._frame_size = size
        changed = (
            self._whole_rows(self._frame, update)
            if isinstance(update, LayoutUpdate)
            else self._partial_rows(self._frame, update)
        )
        self._frame.turn = self._turn
        for y, row in changed.items():
            self._frame.change(y, row)
        self._flush_frame(cursor=whole)
        self.post_display_hook()

    @staticmethod
    def _whole_rows(frame: ScreenBuffer, update: LayoutUpdate) -> dict[int, Any]:
        return {
            y: frame.cells(segment for strip in line for segment in strip._segments)
            for y, line in enumerate(update.strips, update.region.y)
        }

    @staticmethod
    def _partial_rows(frame: ScreenBuffer, update: ChopsUpdate) -> dict[int, Any]:
        rows: dict[int, Any] = {}
        for y, left, right in update.spans:
            row = rows.setdefault(y, frame.row(y))
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is None or x > right or end <= left:
                    continue
                cells = frame.cells(strip._segments)[: min(end, right) - x]
                row[x : x + len(cells)] = cells
        return rows

    def on_quiet_driver_resized(self) -> None:
        """Send everything again: it may have been smaller in between, and have lost the rest."""
        self.forget_frame()


def repaint(widget: Widget, rows: Mapping[int, Line], blank: Style) -> bool:
    """Write changed rows of a widget past the compositor; False if it must be refreshed.

    `blank` is the look of what no segment covers.
    """
    app = widget.app
    return isinstance(app, TerminalApp) and app.write_rows(widget, rows, blank)
