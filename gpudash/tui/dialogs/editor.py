"""A line of text with a cursor, and the keys that edit it as a shell does."""

from __future__ import annotations

from gpudash.model.text import clean, width


class Editor:
    """What is being typed."""

    def __init__(self, text: str = "", *, limit: int = 1000) -> None:
        self._limit = limit
        self.text = ""
        self.cursor = 0
        """Number of the character that the cursor stands on, behind the last one at the end."""
        self.insert(text)

    def insert(self, text: str) -> None:
        """Put text at the cursor: the first line of it, cleaned, as far as there is room."""
        line = str(clean(text.partition("\n")[0].partition("\r")[0], self._limit))
        line = line[: max(0, self._limit - len(self.text))]
        self.text = self.text[: self.cursor] + line + self.text[self.cursor :]
        self.cursor += len(line)

    def press(self, key: str) -> bool:
        """Do what a key does, by Textual's name for it; False if it edits nothing."""
        start, end = self.cursor, self.cursor
        if key in ("left", "ctrl+b"):
            self.cursor = max(0, start - 1)
        elif key in ("right", "ctrl+f"):
            self.cursor = min(len(self.text), end + 1)
        elif key in ("home", "ctrl+a"):
            self.cursor = 0
        elif key in ("end", "ctrl+e"):
            self.cursor = len(self.text)
        elif key == "ctrl+left":
            self.cursor = self._word_before()
        elif key == "ctrl+right":
            self.cursor = self._word_behind()
        elif key in ("backspace", "ctrl+h"):
            self._remove(max(0, start - 1), end)
        elif key in ("delete", "ctrl+d"):
            self._remove(start, end + 1)
        elif key in ("ctrl+w", "alt+backspace"):
            self._remove(self._word_before(), end)
        elif key == "ctrl+u":
            self._remove(0, end)
        elif key == "ctrl+k":
            self._remove(start, len(self.text))
        else:
            return False
        return True

    def view(self, cells: int) -> tuple[int, int, int]:
        """Return the first and last character that so many cells show, and the cursor's cell.

        The cursor is always within, one cell behind the end of the text included.
        """
        start = 0
        while width(self.text[start : self.cursor]) >= max(1, cells):
            start += 1
        end = start
        while end < len(self.text) and width(self.text[start : end + 1]) <= cells:
            end += 1
        return start, end, width(self.text[start : self.cursor])

    def _remove(self, start: int, end: int) -> None:
        self.text = self.text[:start] + self.text[end:]
        self.cursor = start

    def _word_before(self) -> int:
        """Return where the word before the cursor begins."""
        head = self.text[: self.cursor].rstrip()
        return len(head) - len(head.rpartition(" ")[2])

    def _word_behind(self) -> int:
        """Return where the word at or behind the cursor ends."""
        place = self.cursor
        while place < len(self.text) and self.text[place] == " ":
            place += 1
        while place < len(self.text) and self.text[place] != " ":
            place += 1
        return place
