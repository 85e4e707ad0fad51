"""An app that sends what changed of its picture, as the terminal takes it.

Rows wait here and not on their way: what waits is sent as it is wanted when its turn comes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from textual._ansi_sequences import SYNC_END, SYNC_START
from textual.events import Event, InputEvent

from gpudash.tui.backstage.driver import QuietDriver
from gpudash.tui.backstage.ending import EndingApp
from gpudash.tui.frame import Frame

_ANSWER_SECONDS = 1.0
"""What changes so soon after a key is taken for its answer."""
_PIECE_BYTES = 2048
"""What is shown at once at least, where a link has no room for all."""


class SendingApp(EndingApp):
    """An app that never sends more than the terminal shows in a moment, answers to keys first."""

    _frame: Frame | None = None
    _holding = False
    _cursor_owed = False
    _asked = 0
    _asked_at = -math.inf

    def held_back(self) -> bool:
        """Whether an earlier frame is on its way; `draw_owed` is called when it has arrived."""
        driver = self._driver
        if not isinstance(driver, QuietDriver) or not driver.busy:
            return False
        driver.await_free()
        return True

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
