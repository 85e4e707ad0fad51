"""A terminal to run a program in: a real pty of a given size, and an emulated screen to read."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import termios
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

import psutil
import pyte

from tests.e2e.emulation import Emulator
from tests.e2e.forking import MARK, start
from tests.e2e.keys import sequence
from tests.waiting import LIMIT_SECONDS

_FRAME, _FRAME_SECONDS = 2026, 10.0
"""The mode within which a terminal shows nothing yet, and for how long it obeys."""

Condition = str | re.Pattern[str] | Callable[[str], object]


class Terminal:
    """A program in a pty; leaving the `with` block kills it and all that it started.

    A `mute` one answers no question that the program asks of it.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
        term: str = "xterm-256color",
        truecolor: bool = False,
        mute: bool = False,
    ) -> None:
        self._mute = mute
        self._mark = uuid.uuid4().hex
        self._emulator = Emulator(columns, rows)
        self._master, slave = pty.openpty()
        os.set_blocking(self._master, False)
        self._set_size(columns, rows)
        self.started = time.monotonic()
        self._process = start(
            argv,
            {
                "LANG": "C.UTF-8",
                **_neutral(env),
                **({"COLORTERM": "truecolor"} if truecolor else {}),
                "TERM": term,
                MARK: self._mark,
            },
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)
        self._open = True
        self.raw = bytearray()
        self.read_at = self.started
        """When the last of it was read, by `time.monotonic`."""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self.processes():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """What stands on the screen, lines without their trailing blanks."""
        return self._emulator.text

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @property
    def screen(self) -> pyte.Screen:
        """The emulated screen: colours and attributes by `screen.buffer[y][x]`."""
        return self._emulator.screen

    @property
    def modes(self) -> frozenset[int]:
        """The private modes that are set, such as 1049 (alternate screen) and 25 (cursor)."""
        return frozenset(self._emulator.modes)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_status(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        return self._process.poll()

    def processes(self) -> list[psutil.Process]:
        """All processes alive that the program started, itself and orphans included."""
        marked, found = f"{MARK}={self._mark}".encode(), []
        for pid in psutil.pids():
            # One may end at any time, and a zombie has no environment.
            with suppress(OSError, psutil.NoSuchProcess):
                if marked in Path(f"/proc/{pid}/environ").read_bytes():
                    found.append(psutil.Process(pid))
        return found

    def wait_for(self, condition: Condition, timeout: float = LIMIT_SECONDS) -> str:
        """Read until a text, pattern or predicate holds on the screen, and return the screen.

        Raises AssertionError with the screen when it does not within `timeout` seconds.
        """
        holds = _predicate(condition)
        deadline = time.monotonic() + timeout
        while not holds(self.text):
            alive = self.pump(deadline - time.monotonic())
            if not alive and not holds(self.text):
                raise AssertionError(
                    f"{_name(condition)}: not shown; "
                    f"exit status {self.exit_status}, screen:\n{self.text}"
                )
        return self.text

    def wait_until(self, condition: Callable[[], object], timeout: float = LIMIT_SECONDS) -> None:
        """Read until something beyond the screen holds, looking again every 50 ms."""
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{_name(condition)}: never held, screen:\n{self.text}")
            self.pump(0.05)

    def wait_exit(self, timeout: float = LIMIT_SECONDS) -> int:
        """Read until the program has ended and return its exit status."""
        self.wait_until(lambda: self.exit_status is not None, timeout)
        while self._open and self.wait_readable(0):
            self.pump(0)
        return self._process.wait()

    def quit(self) -> int:
        """Press the key that quits, and return the exit status."""
        self.send("q")
        return self.wait_exit()

    def settle(self, quiet: float = 0.15) -> str:
        """Read until nothing came for `quiet` seconds, and return the screen.

        On a busy machine nothing comes also because the program waits for a CPU: that is no quiet.
        """
        deadline = time.monotonic() + LIMIT_SECONDS
        while self._open and (self.wait_readable(quiet) or self.waits_for_a_cpu()):
            self.pump(0)
            assert time.monotonic() < deadline, f"never quiet for {quiet} s:\n{self.text}"
        return self.text

    def rest(self, seconds: float) -> None:
        """Read for so many seconds, as somebody does who reads a question before the answer."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.pump(left)

    def idle(self, seconds: float = 0.5) -> str:
        """Read until nothing came, and no process wanted a CPU, for so many seconds."""
        quiet, processes = 0, self.processes()
        before = _work(processes)
        deadline = time.monotonic() + LIMIT_SECONDS
        while quiet < seconds * 10:
            assert time.monotonic() < deadline, f"never idle:\n{self.text}"
            came = self.pump(0.1)
            while self.pump(0):
                came = True
            now = _work(processes)
            quiet = 0 if came or now != before or now is None else quiet + 1
            before = now
        return self.text

    def waits_for_a_cpu(self) -> bool:
        """Whether a thread of the program in the foreground runs or could run."""
        states = []
        # It may end at any time, and so may its threads.
        with suppress(OSError):
            for stat in Path(f"/proc/{os.tcgetpgrp(self._master)}/task").glob("*/stat"):
                states.append(stat.read_text().rpartition(") ")[2][:1])
        return bool({"R", "D"} & set(states))

    def pump(self, timeout: float) -> bool:
        """Read what comes within `timeout` seconds, once; False when there was nothing.

        A frame is read to its end, as a terminal shows it.
        """
        if not self._open:
            select.select([], [], [], min(max(timeout, 0), 0.05))
            return False
        if not self.wait_readable(timeout):
            return False
        self._read()
        end = time.monotonic() + _FRAME_SECONDS
        while self._open and _FRAME in self.modes and self.wait_readable(end - time.monotonic()):
            self._read()
        return self._open

    def _read(self) -> None:
        data = b""
        try:
            # A pty gives 4 KB at once.
            while self._open and (not data or self.wait_readable(0)):
                chunk = os.read(self._master, 1 << 16)
                self._open, self.read_at = bool(chunk), time.monotonic()
                data += chunk
        except BlockingIOError:
            pass
        except OSError:  # EIO: the last process closed its side
            self._open = False
        self._show(data)

    def wait_readable(self, timeout: float) -> bool:
        """Wait until the program has written something, which `pump` will read."""
        return bool(select.select([self._master], [], [], max(timeout, 0))[0])

    def send(self, *keys: str, then: Condition | None = None) -> None:
        """Press keys, names of `keys.KEYS` or anything else as it is, and wait for what follows."""
        for key in keys:
            self.write(sequence(key, cursor_keys=1 in self.modes))
        if then is not None:
            self.wait_for(then)

    def click(self, x: int, y: int, *, button: int = 0) -> None:
        """Click at a cell counted from 0; 0 left, 2 right button."""
        self.write(f"\x1b[<{button};{x + 1};{y + 1}M\x1b[<{button};{x + 1};{y + 1}m".encode())

    def click_on(self, text: str) -> None:
        """Click on the middle of the first place where a text stands, once it does."""
        self.wait_for(text)
        for y, line in enumerate(self.lines):
            if text in line:
                return self.click(line.index(text) + len(text) // 2, y)
        raise AssertionError(f"{text!r} is not on the screen:\n{self.text}")

    def wheel(self, x: int, y: int, steps: int = 1) -> None:
        """Turn the mouse wheel at a cell: down, or up for negative steps."""
        button = 65 if steps > 0 else 64
        self.write(f"\x1b[<{button};{x + 1};{y + 1}M".encode() * abs(steps))

    def resize(self, columns: int, rows: int) -> None:
        """Give the window another size, as a drag at its corner does."""
        self._emulator.resize(columns, rows)
        self._set_size(columns, rows)

    def hang_up(self) -> None:
        """Take the terminal away, as a dropped SSH connection does."""
        self._open = False
        os.close(self._master)
        self._master = os.open(os.devnull, os.O_RDWR)

    def _show(self, data: bytes) -> None:
        """Show what came, and answer what it asks."""
        self.raw += data
        answers = self._emulator.feed(data)
        if answers and not self._mute:
            self.answer(answers)

    def answer(self, data: bytes) -> None:
        """Give the program the answers to what it has asked."""
        self.write(data)

    def write(self, data: bytes) -> None:
        """Give the program what comes from a terminal, as it is."""
        while data and self._open:
            _, writable, _ = select.select([], [self._master], [], LIMIT_SECONDS)
            assert writable, "the program does not read its terminal"
            try:
                data = data[os.write(self._master, data) :]
            except OSError:
                return

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _work(processes: Sequence[psutil.Process]) -> list[tuple[int, float]] | None:
    """The CPU time of each process, None while one is at work."""
    spent = []
    for process in processes:
        with suppress(psutil.NoSuchProcess), process.oneshot():
            times = process.cpu_times()
            if process.status() not in (psutil.STATUS_SLEEPING, psutil.STATUS_ZOMBIE):
                return None
            spent.append((process.pid, times.user + times.system))
    return sorted(spent)


def _neutral(env: Mapping[str, str]) -> dict[str, str]:
    """Leave out what would tell the program of the terminal that the tests run in."""
    foreign = {"COLUMNS", "LINES", "NO_COLOR", "COLORTERM", "TERM_PROGRAM", "LC_ALL"}
    return {key: value for key, value in env.items() if key not in foreign}


def _predicate(condition: Condition) -> Callable[[str], object]:
    if isinstance(condition, str):
        return lambda text: condition in text
    if isinstance(condition, re.Pattern):
        return condition.search
    return condition


def _name(condition: object) -> str:
    return getattr(condition, "__name__", repr(condition))
