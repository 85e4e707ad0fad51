"""The terminal: a Textual driver that sends only changed cells and never waits.

Textual's output passes through `Terminal.write`; panels with rows that change at every tick pass
these to `TerminalApp.write_rows` instead of its compositor. Both end in one model of cells. Only
public names of Textual are used, and nothing depends on its version: rows that cannot be written
directly are refreshed by Textual, unknown pictures are passed through unchanged, and without the
key parser, the one private module, Textual's own thread reads keys.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from rich.console import COLOR_SYSTEMS
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.errors import NoWidget
from textual.events import Event, InputEvent, Key, Paste, Resize
from textual.reactive import var

from gpudash.model.errors import is_exhausted
from gpudash.model.text import clean
from gpudash.tui import keyboard
from gpudash.tui.cells import ScreenBuffer, erases, moves
from gpudash.tui.draw.line import Line
from gpudash.tui.link import (
    PARTING_SECONDS,
    QUESTION,
    SEEN_PER_SECOND,
    Backlog,
    FrameLimiter,
    NonBlockingWriter,
    Reports,
)

if TYPE_CHECKING:
    from rich.style import Style
    from textual.await_complete import AwaitComplete
    from textual.message import Message
    from textual.widget import Widget

_STANDARD_OUTPUT = 1
"""The descriptor of the screen; Textual would use standard error, which may be redirected."""
_SYNC_START, _SYNC_END = "\x1b[?2026h", "\x1b[?2026l"
_MOUSE = {
    "\x1b[?1003h": "\x1b[?1002h",
    "\x1b[?1003l": "\x1b[?1002l",
    "\x1b[?1015h": "",
    "\x1b[?1015l": "",
}
"""Reports of all mouse motion only cost time, so they are not enabled."""
_HARMLESS = re.compile(
    r"(?:\x1b\[[?<>=][\d;]*\$?[a-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x07)*"
).fullmatch
"""Matches modes, questions and titles, which change no cell."""
_REPLY_SECONDS = 1.0
"""How long after a question its answer may come, which the shell would get otherwise."""
_MAX_WAITING = 256
"""Maximum number of pending keys; beyond it they are dropped, as a terminal does."""
_ORDER_SECONDS = 0.1
"""How long to wait for a closing screen, which may never report that it has handled a key."""


class Terminal(LinuxDriver):
    """A driver that sleeps until there is input, sends only differences and exits at once."""

    def __init__(self, app: TerminalApp, **options: Any) -> None:
        super().__init__(app, **options)
        app.terminal, self.owner = self, app
        self.buffer = app.adopted or ScreenBuffer(
            COLOR_SYSTEMS[app.console.color_system or "truecolor"],
            erases=erases(os.environ),
            moves=moves(os.environ),
        )
        self.limiter, self.backlog = FrameLimiter(), Backlog()
        self.taken_over_at = -math.inf
        """When the terminal was taken over, at first or after a stop, on the monotonic clock."""
        self.curtain = self._screen_entered = app.pre_frame_shown
        """Whether the picture from before the app stays until the app has its own."""
        self.output: NonBlockingWriter | None = None
        self._early: list[Message] = []
        self._sync = self._keyboard_pushed = self._is_again = False
        self._reports = Reports()
        self._when_sent: list[Callable[[], object]] = []
        self._frame_timer: asyncio.TimerHandle | None = None
        self._keys: keyboard.KeyReader | None = None
        self._events = asyncio.get_running_loop()

    # Output

    def write(self, data: str) -> None:
        """Send Textual's output; for a picture, only the cells that differ."""
        if data in (_SYNC_START, _SYNC_END):
            # Textual sends these if the terminal supports them.
            self._sync = True
        elif data.startswith("\x1b[") and data.endswith("H"):
            if self.is_drawing:
                self.send() if self.buffer.feed(data) else self._put(data)
        elif self._screen_entered and data == "\x1b[?1049h":
            self._screen_entered = False
        elif data.startswith("\x1b[>") and data.endswith("u"):
            # Undo all earlier pushes, as only one is popped at the end.
            self._put("\x1b[<u" * self._keyboard_pushed + data)
            self._keyboard_pushed = True
        elif data == "\x1b[<u":
            self._put(data * self._keyboard_pushed)
            self._keyboard_pushed = False
        else:
            self._reports.due += data.endswith("$p")
            if not _HARMLESS(data):
                self.buffer.forget()
            self._put(_MOUSE.get(data, data))

    def flush(self) -> None:
        """Do nothing: output is sent as soon as the terminal accepts it."""

    @property
    def is_drawing(self) -> bool:
        """Whether pictures reach the terminal."""
        return self.output is not None and not self.curtain

    def send(self) -> None:
        """Send the cells that differ, at once or as soon as a frame may be sent."""
        if self.is_drawing and not self.owner.is_holding and self.may_send():
            data = self.buffer.take(self.backlog.room)
            if data:
                self.limiter.spend()
                self._put(f"{_SYNC_START}{data}{_SYNC_END}" if self._sync else data)
                self.backlog.sent(self.buffer.size)
                if self.backlog.wants_question:
                    self._ask()
            if self.buffer.is_behind:
                if self.may_send():
                    self._events.call_soon(self.send)
            elif self.output is not None and not self.output.busy:
                waiting, self._when_sent = self._when_sent, []
                for callback in waiting:
                    callback()

    def call_when_sent(self, callback: Callable[[], object]) -> None:
        """Call back once everything drawn so far has been written to the terminal."""
        self._when_sent.append(callback)
        self.send()

    def may_send(self) -> bool:
        """Return whether a frame may be sent now; if not, have the app draw when it may."""
        if self.output is not None and self.output.busy:
            return False
        delay = max(self.limiter.delay(), self.backlog.delay())
        if delay and self._frame_timer is None:
            self._frame_timer = asyncio.get_running_loop().call_later(delay, self._send_late)
        return not delay

    def _send_late(self) -> None:
        if self._frame_timer is not None:
            self._frame_timer.cancel()
            self._frame_timer = None
        if self.owner.outdated:
            self.owner.redraw()
        self.send()

    def _put(self, data: str) -> None:
        if self.output is not None:
            self.output.write(data)

    # Start and end

    def start_application_mode(self) -> None:
        """Take over the terminal; it is restored later to the state in which we first found it."""
        self._events = loop = asyncio.get_running_loop()
        self.taken_over_at = time.monotonic()
        # After a SIGSTOP, nothing was restored.
        found = self.owner.found_attributes or (self.attrs_before if self.output else None)
        self._reports = Reports()
        self.backlog = Backlog(0 if self._is_again else self.buffer.size)
        if self._is_again:
            self.buffer.forget()
        self._is_again = True
        if self.output is None:
            self.output = NonBlockingWriter(_STANDARD_OUTPUT, loop, self._send_late)
        try:
            super().start_application_mode()  # type: ignore[no-untyped-call]
        except RuntimeError:
            # The system has no threads left.
            self.stop_application_mode()
            self.close()
            raise
        self.attrs_before = found or self.attrs_before
        self._ask()
        if signal.SIGWINCH in signal.sigpending():
            # Blocked since before the picture was drawn that the app found.
            self.buffer.forget()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGWINCH,))
        if self._keys is None and keyboard.has_parser():
            self._keys = keyboard.KeyReader(self)
            loop.add_reader(self.fileno, self._keys.read)

    def stop_application_mode(self) -> None:
        """Restore the terminal: later drawing is not sent to it."""
        super().stop_application_mode()
        if self.output is not None:
            self.output.close()
            self.output = None

    def show(self) -> None:
        """Show pictures, and deliver keys that were typed before there was a screen."""
        self.curtain = False
        early, self._early = self._early, []
        for message in early:
            super().process_message(message)

    def disable_input(self) -> None:
        """Stop reading keys; wait for expected answers, and drop them."""
        if self._keys is not None:
            asyncio.get_running_loop().remove_reader(self.fileno)
            self._keys.stop()
            self._keys = None
            self._drop_replies()
        super().disable_input()

    def close(self) -> None:
        """End the thread that Textual may have started."""
        # Textual waits for a thread even if it was never started.
        with suppress(RuntimeError):
            super().close()

    def _drop_replies(self) -> None:
        end = self.taken_over_at + _REPLY_SECONDS
        if self.backlog.is_asked and self.output is not None:
            end = time.monotonic() + PARTING_SECONDS
            self.output.drain(end)
        while self._reports.due > 0 and (left := end - time.monotonic()) > 0:
            if not select.select([self.fileno], [], [], left)[0]:
                return
            data = keyboard.read(self.fileno)
            if not data:
                return
            self._reports.count(data)

    def _ask(self) -> None:
        self._reports.due += 1
        self.backlog.asked()
        self._put(QUESTION)

    def take_replies(self, data: bytes) -> None:
        """Count the answers in input, and send what was waiting for them."""
        for _ in range(self._reports.count(data)):
            self.backlog.answered()
            self.limiter.per_second = SEEN_PER_SECOND
            if self.backlog.wants_question:
                self._ask()
            if self._frame_timer is not None:
                self._send_late()

    # Input

    def run_input_thread(self) -> None:
        """Read keys in a thread only if the parser for reading them on the loop is missing."""
        if not keyboard.has_parser():
            super().run_input_thread()

    def process_message(self, message: Message) -> None:
        """Pass on input as soon as there is a screen to receive it."""
        if threading.current_thread() is not threading.main_thread():
            self._events.call_soon_threadsafe(self.process_message, message)
        elif self.curtain and isinstance(message, (InputEvent, Paste)):
            self._early.append(message)
        else:
            super().process_message(message)

    def send_message(self, message: Message) -> None:
        """Deliver a message directly, as this already runs on its loop."""
        self.owner.post_message(message)


class TerminalApp(App[int]):
    """An app that writes rows of its widgets directly and processes keys one after another.

    A screen may have `obeys_from`, an instant of `time.monotonic`: earlier input was not meant for
    it and is discarded, whichever way it comes. Such keys are passed to its `ignore_key`.
    """

    outdated = var(False, init=False)
    """Whether the screen has changed since it was drawn; set by anything that changes it."""
    terminal: Terminal | None = None
    refusal: Exception | None = None
    """The error that ended the app if the system has no files, threads or memory left."""
    adopted: ScreenBuffer | None = None
    pre_frame_shown = False
    """Whether the alternate screen was entered before the app ran."""
    found_attributes: list[Any] | None = None
    is_holding = False
    """Whether rows are being collected to be sent together."""
    _deliverer: asyncio.Task[None] | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._waiting_input: deque[Key | Paste] = deque()

    # Output

    def adopt_terminal(self, frame: ScreenBuffer | None, attributes: list[Any]) -> None:
        """Keep the terminal's picture until `start_display`.

        `frame` is that picture, None if unknown; `attributes` are those of the terminal (termios)
        to restore when the app ends or stops.
        """
        self.pre_frame_shown, self.adopted, self.found_attributes = True, frame, attributes

    def start_display(self) -> None:
        """Show the app's own picture from now on, and accept keys."""
        if self.terminal is not None and self.terminal.curtain:
            self.terminal.show()
            self.refresh(layout=True)

    @property
    def taken_over_at(self) -> float:
        """When the terminal was taken over, at first or after a stop, on the monotonic clock."""
        return self.terminal.taken_over_at if self.terminal is not None else -math.inf

    def forget_frame(self) -> None:
        """Send everything again: the terminal may show something else."""
        if self.terminal is not None:
            self.terminal.buffer.forget()
        self.refresh(layout=True)

    def held_back(self) -> bool:
        """Whether no frame may be sent now; changes are drawn when one may."""
        return self.terminal is not None and not self.terminal.may_send()

    def call_when_sent(self, callback: Callable[[], object]) -> None:
        """Call back once everything drawn so far has been written to the terminal, if any."""
        if self.terminal is None:
            callback()
        else:
            self.terminal.call_when_sent(callback)

    def ring(self, notice: str) -> None:
        """Ring the bell and show a notice, if the terminal supports notices (OSC 9)."""
        if self.terminal is not None:
            self.terminal.write(f"\a\x1b]9;{clean(notice)}\x1b\\")

    def redraw(self) -> None:
        """Draw, and mark the screen as up to date; for subclasses."""

    def watch_outdated(self, outdated: bool) -> None:
        """Draw at once, unless frames are delayed: then draw when one may be sent."""
        if outdated:
            self.redraw()

    @contextmanager
    def one_frame(self) -> Iterator[None]:
        """Send all rows written in this context as one frame."""
        self.is_holding = True
        try:
            yield
        finally:
            self.is_holding = False
            if self.terminal is not None:
                self.terminal.send()

    def write_rows(self, widget: Widget, rows: Mapping[int, Line], blank: Style) -> bool:
        """Write rows of a widget directly to the terminal; return False if Textual must do it.

        `blank` is the style of cells without a segment.
        """
        terminal = self.terminal
        if terminal is None or not terminal.is_drawing or not self.is_running:
            return False
        if not widget.is_attached or widget.screen is not self.screen:
            return False
        try:
            found = self.screen.find_widget(widget)
        except NoWidget:
            return False
        region = found.region
        if not region or found.visible_region != region:
            return False
        for y, line in rows.items():
            terminal.buffer.draw(region.y + y, region.x, region.width, line, blank)
        terminal.send()
        return True

    def pop_screen(self) -> AwaitComplete:
        """Leave a screen without its lines, which Textual's caches would keep."""
        left = self.screen
        done = super().pop_screen()
        for widget in left.walk_children(with_self=True):
            widget.refresh()
        return done

    def _handle_exception(self, error: Exception) -> None:
        # Textual would open the sources of an error to show it, and hang.
        if is_exhausted(error):
            self.refusal = self.refusal or error
            self.exit(return_code=1)
        else:
            super()._handle_exception(error)

    def hang_up(self) -> None:
        """Save changes: the terminal is gone, and the program is about to exit."""

    # Input

    async def on_event(self, event: Event) -> None:
        """Queue keys and pastes; pass on all other events."""
        if isinstance(event, (Key, Paste)) and not event.is_forwarded:
            if len(self._waiting_input) < _MAX_WAITING:
                self._waiting_input.append(event)
            if self._deliverer is None or self._deliverer.done():
                self._deliverer = asyncio.get_running_loop().create_task(self._deliver())
            return
        if isinstance(event, Resize) and self.terminal is not None:
            self.terminal.buffer.width, self.terminal.buffer.height = event.size
            if not self.terminal.curtain:
                # It may have been smaller in between, and have lost the rest.
                self.forget_frame()
        await self._pass_on(event)

    async def _pass_on(self, event: Event) -> None:
        """Pass an event to Textual, except for input from before the front screen obeys.

        A key may have been for another screen: one that waited in the queue, or one that a widget
        did not want and Textual looks up among the bindings of the screen then in front.
        """
        if isinstance(event, (InputEvent, Paste)):
            # At its end, an app has no screen left.
            front = next(reversed(self.screen_stack), None)
            if front is None:
                return
            if event.time < getattr(front, "obeys_from", -math.inf):
                if isinstance(event, Key):
                    front.ignore_key(event.key, event.time)
                return
        await super().on_event(event)

    async def _deliver(self) -> None:
        """Deliver pending input, each to the screen that the input before it leads to.

        Textual decides on arrival whom a key is for, before earlier ones are carried out: text
        typed right after a `/` would be taken for keys of the overview.
        """
        while self._waiting_input and self.is_running:
            owner, event = self.focused or self.screen, self._waiting_input.popleft()
            await self._pass_on(event)
            await _reached(owner.call_later)
            # A key that the owner did not want returned to the app, which may have it queued.
            await _reached(self.call_later)


async def _reached(call_later: Callable[[Callable[[], object]], bool]) -> None:
    """Wait until the present messages of a widget are processed."""
    done = asyncio.Event()
    if call_later(done.set):
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(done.wait(), _ORDER_SECONDS)
