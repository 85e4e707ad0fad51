import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpudash.system import terminal


def run(code: str, **pipes: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize(
    ("term", "plain"),
    [("vt100", True), ("vt220", True), ("xterm-mono", True), ("ansi-m", True), ("vte", False)],
)
def test_some_terminals_have_neither_colours_nor_unicode(term: str, plain: bool) -> None:
    assert terminal.is_plain({"TERM": term}) is plain


def test_all_is_written_however_slow_the_reader() -> None:
    code = "from gpudash.system import terminal; terminal.write(b'x' * 1_000_000)"
    assert run(code, stdout=subprocess.PIPE).stdout == b"x" * 1_000_000


def test_a_full_disk_is_an_error() -> None:
    code = "from gpudash.system import terminal; terminal.write(b'x')"
    with open("/dev/full", "wb") as full:
        outcome = run(code, stdout=full)
    assert b"OutputError: the output could not be written: No space left" in outcome.stderr


def test_a_reader_that_left_is_reported_by_write_and_by_wait() -> None:
    code = (
        "from gpudash.system import terminal\n"
        "for act in (lambda: terminal.write(b'x'), lambda: terminal.wait(600)):\n"
        "    try: act()\n"
        "    except terminal.ReaderGoneError: continue\n"
        "    raise SystemExit(1)"
    )
    reading, writing = os.pipe()
    os.close(reading)
    outcome = run(code, stdout=writing)
    os.close(writing)
    assert outcome.returncode == 0, outcome.stderr


def test_a_file_is_no_terminal_and_has_the_default_width() -> None:
    code = "from gpudash.system import terminal\nprint(terminal.is_terminal(), terminal.width(77))"
    environ = {name: text for name, text in os.environ.items() if name != "COLUMNS"}
    assert run(code, stdout=subprocess.PIPE, env=environ).stdout == b"False 77\n"


def test_where_there_is_no_terminal_the_width_can_be_chosen(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, columns in (("200", 200), ("wide", 80), ("0", 80), ("99999", 80)):
        monkeypatch.setenv("COLUMNS", text)
        assert terminal.width() == columns


@contextmanager
def stderr(descriptor: int) -> Iterator[None]:
    saved = os.dup(2)
    os.dup2(descriptor, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def everything() -> None:
    terminal.write_message("so far\n")
    terminal.show_progress("a line")
    terminal.end_progress("done\n")


def gone_terminal() -> tuple[int, int | None]:
    parent, child = pty.openpty()
    os.close(parent)
    return child, None


def gone_reader() -> tuple[int, int | None]:
    reading, writing = os.pipe()
    os.close(reading)
    return writing, None


def full_pipe() -> tuple[int, int | None]:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            os.set_blocking(writing, True)
            return writing, reading


@pytest.mark.parametrize("make", [gone_terminal, gone_reader, full_pipe])
def test_one_that_takes_nothing_neither_ends_nor_stops_it(
    make: Callable[[], tuple[int, int | None]],
) -> None:
    writing, reading = make()
    try:
        with stderr(writing):
            thread = threading.Thread(target=everything, daemon=True)
            thread.start()
            thread.join(60)
            assert not thread.is_alive()
    finally:
        os.close(writing)
        if reading is not None:
            os.close(reading)


def test_a_line_is_cut_where_the_width_is_not_known() -> None:
    reading, writing = os.pipe()
    with stderr(writing):
        terminal.show_progress("x" * 200)
    os.close(writing)
    with os.fdopen(reading, newline="") as pipe:
        assert pipe.read() == "\r\x1b[K" + "x" * 78 + "…"
