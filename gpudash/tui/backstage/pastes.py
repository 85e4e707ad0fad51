"""Pasted text taken out of what a terminal sends, before anything reads keys in it.

A terminal puts a mark before and behind what is pasted. Textual's parser looks for keys in
between as well, and gives a sequence that it does not know on as single keys: so text from
anywhere could press them.
"""

from __future__ import annotations

from collections.abc import Iterator

from textual.events import Paste

_BEGIN, _END = "\x1b[200~", "\x1b[201~"
_MOST = 1 << 20
"""Characters of a paste; what is beyond is dropped."""


class Pastes:
    """Parts input into keys and pastes, however it is cut."""

    def __init__(self) -> None:
        self._held = ""
        self._pasted: list[str] | None = None
        self._count = 0

    def feed(self, text: str) -> Iterator[str | Paste]:
        """Yield what is to be read as keys, and each paste that has ended."""
        text, self._held = self._held + text, ""
        while text:
            mark = _BEGIN if self._pasted is None else _END
            before, found, text = text.partition(mark)
            if not found:
                # Of the mark of a beginning one character alone may be the key Escape.
                before, self._held = _parted(before, mark, 2 if self._pasted is None else 1)
            if self._pasted is None:
                if before:
                    yield before
                if found:
                    self._pasted, self._count = [], 0
            else:
                self._pasted.append(before[: _MOST - self._count])
                self._count += len(self._pasted[-1])
                if found:
                    yield Paste(_harmless("".join(self._pasted)))
                    self._pasted = None


def _parted(text: str, mark: str, least: int) -> tuple[str, str]:
    """Return a text without the part of a mark that it ends in, and that part."""
    for length in range(len(mark) - 1, least - 1, -1):
        if text.endswith(mark[:length]):
            return text[:-length], text[-length:]
    return text, ""


def _harmless(text: str) -> str:
    """Return a text without control characters but the ends of lines, as most terminals paste."""
    return "".join(char for char in text if (char >= " " and char != "\x7f") or char in "\n\r\t")
