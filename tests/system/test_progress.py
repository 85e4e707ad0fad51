import os
import pty
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from gpudash.system import terminal


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
            thread.join(10)
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
