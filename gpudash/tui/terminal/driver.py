"""The terminal without reports of every mouse motion, and without threads to read and write it.

A key that must pass from one thread to another and its answer to a third is late by the time
that threads of Python leave each other waiting.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Paste
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from gpudash.model.errors import ExitStatus
from gpudash.tui.terminal.flow import (
    QUESTION,
    FlowControl,
    NonBlockingWriter,
    count_replies,
    drain_replies,
)
from gpudash.tui.terminal.input import Pastes

HANGUP_STATUS = ExitStatus.HANGUP
_ENTER_SCREEN = "\x1b[?1049h"
_ESCAPE_SECONDS = 0.1
_LOOK_SECONDS = 0.1
_PARTING_SECONDS = 2.0
"""How long answers are waited for that the shell would get instead.

A terminal so far behind shows the shell no earlier.
"""
_STRANGER_SECONDS = 0.2
"""The same for a terminal that has not answered anything yet."""
_MUTE_SECONDS = 5.0
"""After which it never will."""
_STANDARD_OUTPUT = 1
"""Where the screen is, so that standard error can go to a file; Textual would write there."""


class QuietDriver(LinuxDriver):
    """A driver that sleeps until there is input and leaves at once when told to."""

    class Free(Message):
        """All that was on its way to the terminal has been taken."""

    class Resized(Message):
        """The terminal has had another size, and may have the same as before again."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if sys.__stdout__ is not None:
            self._file = sys.__stdout__
        self._screen_entered = not getattr(self._app, "pre_frame_shown", False)
        self._asks = True
        self._listening = self._hearing = False
        self._outlet: NonBlockingWriter | None = None
        self._lag = FlowControl()
        sent = getattr(self._app, "pre_frame_bytes", 0)
        if sent:
            self._asks = False
            self._lag.sent(sent)
        self._looks = False
        self._started = time.monotonic()
        self._asked, self._heard = int(sent > 0), 0
        self._begin_input()

    def listen(self) -> None:
        """Start to read keys; those typed before then wait in the terminal."""
        if not self._listening:
            self._listening = True
            self._hear()

    @property
    def taken_over_at(self) -> float:
        """When it last took the terminal, on the monotonic clock: at first, or back from a stop."""
        return self._started

    @property
    def busy(self) -> bool:
        """Whether an earlier frame is still on its way to the terminal."""
        if self._outlet is not None:
            return self._outlet.busy or self._lag.excessive
        return self._writer_thread is not None and self._writer_thread._queue.qsize() > 0

    @property
    def room(self) -> int:
        """How many bytes may be sent at once where nothing is on its way."""
        return self._lag.room

    def await_free(self) -> None:
        """Post `Free` when the terminal is no longer busy."""
        if not self._looks:
            self._looks = True
            self._loop.call_later(_LOOK_SECONDS, self._look)

    def write(self, data: str) -> None:
        """Send data; the alternate screen is not entered again after a pre-frame did."""
        if not self._screen_entered and data == _ENTER_SCREEN:
            self._screen_entered = True
        elif self._outlet is not None:
            self._asked += data == QUESTION
            if self._lag.sent(self._outlet.write(data)):
                self._ask()
        else:
            self._asked += data == QUESTION
            super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal over; it is given back as the first of us found it."""
        self._loop, self._started = asyncio.get_running_loop(), time.monotonic()
        # Where a terminal of another user cannot be opened anew, Textual's thread writes to it.
        with suppress(OSError):
            self._outlet = NonBlockingWriter(_STANDARD_OUTPUT, self._loop, self._tell_if_free)
        try:
            super().start_application_mode()  # type: ignore[no-untyped-call]
        except RuntimeError:
            # The system gave no thread: nobody could wait for the end of one that never began.
            if self._writer_thread is not None and not self._writer_thread.is_alive():
                self._writer_thread = None
            if self._outlet is not None or self._writer_thread is not None:
                self.stop_application_mode()
                self.close()
            raise
        if self._outlet is not None and self._writer_thread is not None:
            self._writer_thread.stop()
            self._writer_thread = None
        notice = signal.getsignal(signal.SIGWINCH)
        if callable(notice):
            self._loop.add_signal_handler(signal.SIGWINCH, self._resize, notice)
            # Whoever drew a pre-frame may have left this one waiting until now.
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGWINCH,))
        self.attrs_before = getattr(self._app, "found_attributes", None) or self.attrs_before
        if self._listening:
            self._hear()

    def close(self) -> None:
        """Send the last bytes."""
        if self._outlet is not None:
            self._outlet.close()
            self._outlet = None
        super().close()

    def disable_input(self) -> None:
        """Stop to read keys."""
        if self._hearing:
            self._hearing = False
            self._loop.remove_reader(self.fileno)
        self._hear_out()
        self._lag, self._asks = FlowControl(), True
        super().disable_input()

    def run_input_thread(self) -> None:
        """Do nothing: keys are read on the event loop."""

    def send_message(self, message: Message) -> None:
        """Hand a message over, already on the loop that it is for."""
        self._app.post_message(message)

    def process_message(self, message: Message) -> None:
        """Let an answer about the lag go no further."""
        if not isinstance(message, TerminalSupportsSynchronizedOutput):
            super().process_message(message)
            return
        if not self._lag.answers:
            super().process_message(message)
        if self._lag.answered():
            self._ask()
        self._tell_if_free()

    def _ask(self) -> None:
        if self._outlet is not None:
            self._asked += 1
            self._outlet.write(QUESTION)

    def _hear_out(self) -> None:
        """Wait for the answers that are due, and drop them."""
        now, due = time.monotonic(), self._asked > self._heard
        if self._asked == 1:
            # Textual has asked something else since, which is to be answered before this.
            self._ask()
        if not self._asked or (not self._heard and now - self._started > _MUTE_SECONDS):
            return
        end = now + (_PARTING_SECONDS if self._heard else _STRANGER_SECONDS)
        if self._outlet is not None and due:
            self._outlet.drain(end)
        drain_replies(self.fileno, self._asked - self._heard, end - time.monotonic())
        self._asked = self._heard = 0

    def _request_terminal_sync_mode_support(self) -> None:
        if self._asks:
            super()._request_terminal_sync_mode_support()

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1002h\x1b[?1006h")

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1006l\x1b[?1002l\x1b[?1000l")

    def _resize(self, notice: Callable[[int, None], object]) -> None:
        self._app.post_message(self.Resized())
        notice(signal.SIGWINCH, None)

    def _tell_if_free(self) -> None:
        if self._looks and not self.busy:
            self._app.post_message(self.Free())

    def _look(self) -> None:
        """Ask whether it is free, for neither a thread that writes nor a missing answer tells."""
        self._looks = False
        self._lag.look()
        if self.busy:
            self.await_free()
        else:
            self._app.post_message(self.Free())

    def _begin_input(self) -> None:
        self._parser, self._pastes = XTermParser(self._debug), Pastes()
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode

    def _hear(self) -> None:
        self._begin_input()
        self._hearing = True
        self._loop.add_reader(self.fileno, self._read)

    def _read(self) -> None:
        """Turn input into messages."""
        data = _read(self.fileno)
        if not data:
            # There is nothing to restore, and a loop without input would only spin.
            getattr(self._app, "hang_up", lambda: None)()
            os._exit(HANGUP_STATUS)
        self._heard += count_replies(data)
        for part in self._pastes.feed(self._decode(data)):
            if isinstance(part, Paste):
                self.process_message(part)
                continue
            for message in self._parser.feed(part):
                self.process_message(message)
        self._await_rest()

    def _await_rest(self) -> None:
        """Take an escape that nothing follows for the key of that name."""
        for message in self._parser.tick():
            self.process_message(message)
        if self._parser._timeout_time is not None:
            self._loop.call_later(_ESCAPE_SECONDS, self._await_rest)


def _read(descriptor: int) -> bytes:
    """Read a terminal that has input; nothing at its end."""
    try:
        termios.tcgetattr(descriptor)
        return os.read(descriptor, 4096)
    except (termios.error, OSError):
        return b""
