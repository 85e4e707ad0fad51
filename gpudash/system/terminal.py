"""The terminal and stdout: output written whole or with an error, size, colours, progress."""

from __future__ import annotations

import errno
import os
import re
import select
import stat
import termios
from collections.abc import Iterable, Mapping
from contextlib import suppress

from gpudash.model.errors import OutputError
from gpudash.model.text import cut

_PROGRESS_FD = 2
_ERASE = "\r\x1b[K"
_DEFAULT_COLUMNS = 80
_PLAIN = r"vt\d.*|.+-m(ono)?"
"""TERM of the VT100 and its successors, and terminfo's monochrome ones: `xterm-mono`."""

_FD = 1
_captured: list[bytes] | None = None
_has_written = False
_patience_ms: int | None = None
"""How long a reader may read nothing, None for ever."""
_file_is_untouched = False
_before: int | None = None
"""The former stdout, before it became a file."""


class ReaderGoneError(Exception):
    """The reader of the output has closed it."""


def capture() -> list[bytes]:
    """Redirect `write` to the returned list from now on."""
    global _captured
    _captured = []
    return _captured


def write(data: bytes) -> None:
    """Write all of `data`.

    Raises ReaderGoneError for a closed pipe, OutputError if it could not be written.
    """
    if _captured is not None:
        _captured.append(data)
        return
    global _has_written
    if data:
        _has_written = True
        empty_file()
    rest = memoryview(data)
    try:
        while rest:
            try:
                rest = rest[os.write(_FD, rest) :]
            except BlockingIOError:
                _wait_until_writable()
    except BrokenPipeError:
        raise ReaderGoneError from None
    except OSError as error:
        raise OutputError(f"the output could not be written: {error.strerror}") from None


def write_text(text: str) -> None:
    """Write a text, with characters unsupported by UTF-8 as numbers."""
    write(text.encode("utf-8", "backslashreplace"))


def write_lines(lines: Iterable[str]) -> None:
    """Write lines, each with its end."""
    write_text("".join([f"{line}\n" for line in lines]))


def redirect(path: str) -> None:
    """Redirect stdout to a file, which keeps its content until a write; raises OutputError."""
    global _file_is_untouched, _before
    try:
        descriptor = _open_output(path)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    _before = os.dup(_FD)
    os.dup2(descriptor, _FD)
    os.close(descriptor)
    _file_is_untouched = True


def redirect_back() -> None:
    """Undo `redirect`, if any: a message is not for the file."""
    global _file_is_untouched
    if _before is not None:
        _file_is_untouched = False
        os.dup2(_before, _FD)


def _open_output(path: str) -> int:
    """Open a file for writing; nothing is created through a link, nor written through another's."""
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    link, folder = os.lstat(path), os.stat(os.path.dirname(path) or ".")
    if folder.st_mode & stat.S_IWOTH or link.st_uid not in (0, os.geteuid()):
        raise OutputError(f"{path}: a symbolic link that others may have made: name its target")
    if not os.path.exists(path):
        raise OutputError(f"{path}: a symbolic link to nothing: name its target")
    return os.open(path, os.O_WRONLY)


def empty_file() -> None:
    """Remove the former content of the file of `redirect`, if there is one."""
    global _file_is_untouched
    if _file_is_untouched:
        _file_is_untouched = False
        # A device or a pipe has no content.
        with suppress(OSError):
            os.ftruncate(_FD, 0)


def keep_for_ourselves() -> None:
    """Let only this module write to stdout: output of C code goes to stderr."""
    global _FD
    if _FD == 1:
        _FD = os.dup(1)
        os.dup2(2, 1, inheritable=True)


def has_written() -> bool:
    """Whether anything was written."""
    return _has_written


def give_up_after(seconds: float) -> None:
    """Treat a reader of stdout that reads nothing for this long as gone."""
    global _patience_ms
    _patience_ms = int(seconds * 1000)
    os.set_blocking(_FD, False)


def _wait_until_writable() -> None:
    """Wait for the reader of a pipe that was made non-blocking; raises ReaderGoneError."""
    poll = select.poll()
    poll.register(_FD, select.POLLOUT)
    if not poll.poll(_patience_ms):
        raise ReaderGoneError


def wait(seconds: float | None, *descriptors: int | None) -> None:
    """Sleep, for ever if None, or until one of the existing `descriptors` is readable.

    Raises ReaderGoneError as soon as the reader of a pipe is gone.
    """
    poll = select.poll()
    poll.register(_FD, select.POLLERR)
    for descriptor in descriptors:
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
    for descriptor, event in poll.poll(None if seconds is None else max(0.0, seconds) * 1000):
        if descriptor == _FD and event & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            raise ReaderGoneError


def is_terminal() -> bool:
    """Whether stdout is a terminal."""
    return os.isatty(_FD)


def width(default: int = _DEFAULT_COLUMNS) -> int:
    """Return the columns of the terminal; if there is none, those of COLUMNS, or `default`."""
    try:
        return os.get_terminal_size(_FD).columns or default
    except OSError:
        asked = os.environ.get("COLUMNS", "")
        return int(asked) if re.fullmatch("[1-9][0-9]{1,3}", asked) else default


def is_plain(environ: Mapping[str, str]) -> bool:
    """Whether the terminal has neither colours nor Unicode."""
    return re.fullmatch(_PLAIN, environ.get("TERM", "")) is not None


def allows_color(environ: Mapping[str, str]) -> bool:
    """Whether colours may be sent to a terminal."""
    return "NO_COLOR" not in environ and not is_plain(environ)


def color_bits(environ: Mapping[str, str]) -> int:
    """Return the bits of a colour, 24, 8 or 4, as Textual determines them."""
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return 24
    colors = environ.get("TERM", "").strip().lower().rpartition("-")[2]
    return 8 if colors in {"256color", "kitty"} else 4


def ask(question: str) -> bytes:
    """Return the answer typed to a question on stderr; type-ahead is discarded."""
    if os.isatty(0):
        termios.tcflush(0, termios.TCIFLUSH)
    os.write(_PROGRESS_FD, question.encode())
    answer = os.read(0, 64)
    if not answer.endswith(b"\n"):
        os.write(_PROGRESS_FD, b"\n")
    return answer.strip()


def progress_is_shown() -> bool:
    """Whether stderr is a terminal, on which a line of progress can be replaced."""
    return os.isatty(_PROGRESS_FD)


def write_message(text: str) -> None:
    """Write to stderr if that does not block: a stopped terminal must not stop us."""
    with suppress(OSError):
        poll = select.poll()
        poll.register(_PROGRESS_FD, select.POLLOUT)
        if any(event & select.POLLOUT for _, event in poll.poll(0)):
            os.write(_PROGRESS_FD, text.encode(errors="backslashreplace"))


def show_progress(text: str) -> None:
    """Replace the line of progress, cut to the width of the terminal."""
    write_message(_ERASE + cut(text, max(_columns() - 1, 1)))


def end_progress(text: str = "") -> None:
    """Replace the line of progress by a final text, if any, which includes its newline."""
    write_message(_ERASE + text)


def _columns() -> int:
    try:
        return os.get_terminal_size(_PROGRESS_FD).columns or _DEFAULT_COLUMNS
    except OSError:
        return _DEFAULT_COLUMNS
