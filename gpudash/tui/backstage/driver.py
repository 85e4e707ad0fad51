"""The terminal without reports of every mouse motion and without a thread that polls."""

from __future__ import annotations

import os
import select
import termios
from codecs import getincrementaldecoder
from typing import Any

from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

HANGUP_STATUS = 129
_ENTER_SCREEN = "\x1b[?1049h"


class QuietDriver(LinuxDriver):
    """A driver that sleeps until there is input and leaves at once when told to."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._screen_entered = not getattr(self._app, "pre_frame_shown", False)
        self._listening = False

    def listen(self) -> None:
        """Start to read keys; those typed before then wait in the terminal."""
        if not self._listening:
            self._listening = True
            os.write(self._wake_write, b"x")

    def write(self, data: str) -> None:
        """Send data; the alternate screen is not entered again after a pre-frame did."""
        if not self._screen_entered and data == _ENTER_SCREEN:
            self._screen_entered = True
            return
        super().write(data)

    def start_application_mode(self) -> None:
        """Take the terminal over; it is given back as the first of us found it."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self.attrs_before = getattr(self._app, "found_attributes", None) or self.attrs_before

    def _enable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1000h\x1b[?1002h\x1b[?1006h")
            self.flush()

    def _disable_mouse_support(self) -> None:
        if self._mouse:
            self.write("\x1b[?1006l\x1b[?1002l\x1b[?1000l")
            self.flush()

    def disable_input(self) -> None:
        """Stop the input thread at once instead of at its next look at the clock."""
        self.exit_event.set()
        os.write(self._wake_write, b"x")
        if self._key_thread is not None:
            self._key_thread.join()
        self.exit_event.clear()
        super().disable_input()

    def run_input_thread(self) -> None:
        """Turn input into messages; end the process when the terminal has gone away."""
        parser = XTermParser(self._debug)
        decode = getincrementaldecoder("utf-8")(errors="replace").decode
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        while not self.exit_event.is_set():
            poll.register(self.fileno, select.POLLIN if self._listening else 0)
            escape_pending = parser._timeout_time is not None
            for descriptor, event in poll.poll(100 if escape_pending else None):
                if descriptor == self._wake_read:
                    os.read(descriptor, 64)
                elif event & select.POLLIN or self._listening:
                    for message in parser.feed(decode(_read_or_leave(descriptor))):
                        self.process_message(message)
                else:
                    os._exit(HANGUP_STATUS)
            for message in parser.tick():
                self.process_message(message)


def _read_or_leave(descriptor: int) -> bytes:
    """Read a terminal that has input; at its end leave at once, there is nothing to restore."""
    try:
        termios.tcgetattr(descriptor)
        data = os.read(descriptor, 4096)
    except (termios.error, OSError):
        data = b""
    if not data:
        os._exit(HANGUP_STATUS)
    return data
