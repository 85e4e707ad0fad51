"""The terminal's side of the conversation: an emulated screen that answers queries."""

import re

import pyte

_SEQUENCE = re.compile(
    rb"\x1b(?:"
    rb"\[(?P<private>[<-?]*)(?P<parameters>[0-9:;]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    rb"|\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)"
    rb"|[P^_X][^\x1b]*\x1b\\"
    rb")"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]P^_X][^\x07\x1b]*\x1b?)?$")

_REPORTED_MODES = {b"2026": 2}
"""Private modes that the terminal says it knows (2: reset), here synchronized output."""


class Emulator:
    """A screen of some size: fed with a program's output, it gives back the answers due."""

    def __init__(self, columns: int, rows: int) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.modes: set[int] = {7, 25}
        self._stream = pyte.ByteStream(self.screen)
        self._rest = b""

    @property
    def text(self) -> str:
        """What stands on the screen, lines without their trailing blanks."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)

    def feed(self, data: bytes) -> bytes:
        """Show what a program wrote and return what a terminal answers to it."""
        data = self._rest + data
        unfinished = _UNFINISHED.search(data)
        end = unfinished.start() if unfinished else len(data)
        self._rest = data[end:]
        answers = b""
        position = 0
        for match in _SEQUENCE.finditer(data, 0, end):
            self._stream.feed(data[position : match.start()])
            position = match.end()
            if _harmless(match):
                self._stream.feed(match[0])
            answers += self._obey(match)
        self._stream.feed(data[position:end])
        return answers

    def _obey(self, match: re.Match[bytes]) -> bytes:
        """Follow the private modes and answer the queries, as xterm does."""
        private, parameters, final = match["private"], match["parameters"], match["final"]
        if match["osc"] is not None:
            return _colour(match["osc"])
        if match["between"] == b"$" and final == b"p":
            return b"\x1b[?%s;%d$y" % (parameters, _REPORTED_MODES.get(parameters, 0))
        if private == b"?" and final in b"hl" and final:
            self._switch({int(mode) for mode in parameters.split(b";") if mode}, final == b"h")
        elif final == b"c" and parameters in (b"", b"0") and not private:
            return b"\x1b[?62;22c"
        elif final == b"n" and parameters == b"6" and not private:
            cursor = self.screen.cursor
            return b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1)
        elif final == b"q" and private == b">":
            return b"\x1bP>|XTerm(390)\x1b\\"
        elif final == b"b" and not private:
            self._repeat(int(parameters or 1))
        return b""

    def _repeat(self, times: int) -> None:
        """Print the last character again (REP), which pyte does not know."""
        cursor = self.screen.cursor
        self.screen.draw(self.screen.buffer[cursor.y][cursor.x - 1].data * times)

    def _switch(self, modes: set[int], on: bool) -> None:
        self.modes = self.modes | modes if on else self.modes - modes
        if 1049 in modes:  # which pyte does not know
            self.screen.erase_in_display(2)
            self.screen.cursor_position()


def cells(screen: pyte.Screen, first: int = 0) -> list[list[tuple[object, ...]]]:
    """All cells of a screen from a line on; of a blank its background."""
    return [
        [
            (c.data, c.bg, c.fg, c.bold, c.underscore, c.reverse)
            if c.data.strip() or c.underscore or c.reverse
            else (" ", c.bg)
            for c in (screen.buffer[y][x] for x in range(screen.columns))
        ]
        for y in range(first, screen.lines)
    ]


def _harmless(match: re.Match[bytes]) -> bool:
    """Whether pyte 0.8 understands a sequence; of others it prints the tail."""
    return bool(match["final"]) and not match["between"] and match["private"] in (b"", b"?")


def _colour(query: bytes) -> bytes:
    """Answer OSC 10 and 11, foreground and background: white on black."""
    colours = {b"10;?": b"ffff/ffff/ffff", b"11;?": b"0000/0000/0000"}
    return b"\x1b]%s;rgb:%s\x1b\\" % (query[:2], colours[query]) if query in colours else b""
