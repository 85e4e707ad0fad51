"""Keys, pastes and the mouse, read from the terminal on the event loop."""

from __future__ import annotations

import asyncio
import os
import re
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual import constants
from textual.events import Key, Paste
from textual.widgets import Input

from gpudash.model.errors import ExitStatus

try:
    from textual._xterm_parser import XTermParser
except ImportError:
    XTermParser = None  # type: ignore[assignment, misc]

if TYPE_CHECKING:
    from textual.message import Message

    from gpudash.tui.terminal import Terminal

_ESCAPE = "\x1b"
_ANSWER = re.compile("\x1b\\[[0-9]+;[0-9]+R")
"""Matches the answer to a query for the cursor: not a key, nor the end of one."""
_LONE_ESCAPE = re.compile(r"(\x1b)(?![\[\]OP^_]|\x1b[\[O])")
"""Matches a key before another one, typed faster than they are read, but no sequence.

Textual takes both for Alt with the other key, which gpudash only uses in text.
"""


def has_parser() -> bool:
    """Return whether keys can be read here; otherwise Textual's own thread reads them."""
    return XTermParser is not None


class KeyReader:
    """Reads a terminal on the event loop and turns it into messages."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._parser, self._pastes, self._held = XTermParser(), Pastes(), ""
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode
        self._timer: asyncio.TimerHandle | None = None

    def read(self) -> None:
        """Pass on the terminal's input."""
        data = read(self._terminal.fileno)
        if not data:
            # There is nothing to restore, and a loop without input would only spin.
            self._terminal.owner.hang_up()
            os._exit(ExitStatus.HANGUP)
        self._terminal.take_replies(data)
        text = self._held + _ANSWER.sub("", self._decode(data))
        self._held = _ESCAPE * text.endswith(_ESCAPE)
        for message in self._messages(text.removesuffix(_ESCAPE)):
            self._terminal.process_message(message)
        if self._timer is not None or b"\x1b" in data:
            # An escape that nothing follows is the Escape key.
            self.stop()
            patience = constants.ESCAPE_DELAY + 0.01
            self._timer = asyncio.get_running_loop().call_later(patience, self._end_escape)

    def stop(self) -> None:
        """Stop waiting for input."""
        if self._timer is not None:
            self._timer.cancel()

    def _end_escape(self) -> None:
        held, self._held, self._timer = self._held, "", None
        for message in (*self._parser.tick(), *self._messages(held)):
            self._terminal.process_message(message)

    def _messages(self, text: str) -> Iterator[Message]:
        """Yield the messages for text; it ends in an Escape only if that is the key."""
        for part in self._pastes.feed(text):
            if isinstance(part, Paste):
                yield part
                continue
            # In text being typed, Alt with a letter is an editing key.
            typing = isinstance(self._terminal.owner.focused, Input)
            for keys in [part] if typing else _LONE_ESCAPE.split(part):
                if keys == _ESCAPE:
                    yield Key("escape", _ESCAPE)
                elif keys:
                    yield from self._parser.feed(keys)


def read(descriptor: int) -> bytes:
    """Read a terminal that has input; empty at its end."""
    try:
        termios.tcgetattr(descriptor)
        return os.read(descriptor, 4096)
    except (termios.error, OSError):
        return b""


_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_MAX_PASTE = 1 << 20
"""Characters of a paste; the rest is dropped."""


class Pastes:
    """Splits input into keys and pastes, however it is divided into reads.

    Textual's parser takes control sequences within a paste for keys.
    """

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None
        self._count = 0

    def feed(self, text: str) -> Iterator[str | Paste]:
        """Yield text to be read as keys, and each completed paste."""
        text, self._held = self._held + text, ""
        while text:
            mark = _BEGIN if self._pasted is None else _END
            before, found, text = text.partition(mark)
            if not found:
                # The first character of an opening mark may also be the Escape key.
                before, self._held = _parted(before, mark, 2 if self._pasted is None else 1)
            if self._pasted is None:
                if before:
                    yield before
                if found:
                    self._pasted, self._count = [], 0
            else:
                self._pasted.append(before[: _MAX_PASTE - self._count])
                self._count += len(self._pasted[-1])
                if found:
                    yield Paste(_without_controls("".join(self._pasted)))
                    self._pasted = None


def _parted(text: str, mark: str, least: int) -> tuple[str, str]:
    """Return a text without the incomplete mark at its end, and that part."""
    for length in range(len(mark) - 1, least - 1, -1):
        if text.endswith(mark[:length]):
            return text[:-length], text[-length:]
    return text, ""


def _without_controls(text: str) -> str:
    """Return a text without control characters except line ends, as most terminals paste."""
    return "".join(char for char in text if (char >= " " and char != "\x7f") or char in "\n\r\t")
