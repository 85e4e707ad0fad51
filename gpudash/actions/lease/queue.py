"""Waiting for GPUs: the deadline, the line that reports progress, and the queue."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager

from gpudash.actions.lease.acquire import NO_LEASES
from gpudash.model.errors import GpudashError
from gpudash.model.units import duration
from gpudash.system import locks, processes, terminal

_REPORT_SECONDS = 60.0
_REFRESH_SECONDS = 5.0


class Waiting:
    """A wait of at most `seconds`, without limit if None, and the line that reports it."""

    def __init__(self, seconds: float | None, *, since: float) -> None:
        self._since = since
        self._deadline = None if seconds is None else since + seconds
        self._on_terminal = terminal.progress_is_shown()
        self._report_at = since
        self._line_is_shown = False

    def within_deadline(self, shortage: str) -> bool:
        """Report what is missing, and return whether there is time left to wait for it."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self.end()
            terminal.write_message(f"gpudash: {shortage}\n")
            return False
        self.report(shortage)
        return True

    def report(self, shortage: str) -> None:
        """Replace the line on a terminal, else print one every minute."""
        now = time.monotonic()
        text = f"gpudash: waiting {duration(now - self._since)}: {shortage}"
        if self._on_terminal:
            terminal.show_progress(text)
            self._line_is_shown = True
        elif now >= self._report_at:
            terminal.write_message(f"{text}\n")
            self._report_at = now + _REPORT_SECONDS

    def end(self) -> None:
        """Remove the line."""
        if self._line_is_shown:
            terminal.end_progress()
            self._line_is_shown = False

    @property
    def seconds_left(self) -> float | None:
        """Time left, None without limit."""
        if self._deadline is None:
            return None
        return max(self._deadline - time.monotonic(), 0.0)


@contextmanager
def wait_in_queue(waiting: Waiting) -> Iterator[bool]:
    """Wait to be first in the queue; yield False if the time is up before."""
    path = locks.queue_lock_path()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise GpudashError(NO_LEASES.format(f"{path}: {error.strerror}")) from None
    try:
        yield _lock(descriptor, path, waiting)
    finally:
        os.close(descriptor)


def _lock(descriptor: int, path: str, waiting: Waiting) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        waiting.report(f"others are waiting, {_first_in_queue(path)} first")

    def refresh(_number: int, _frame: object) -> None:
        if waiting.seconds_left == 0:
            raise TimeoutError
        waiting.report(f"others are waiting, {_first_in_queue(path)} first")

    left = waiting.seconds_left
    pause = _REFRESH_SECONDS if left is None else min(_REFRESH_SECONDS, max(left, 0.1))
    before = signal.signal(signal.SIGALRM, refresh)
    try:
        # Repeated, as an alarm just before the kernel waits would be lost.
        signal.setitimer(signal.ITIMER_REAL, pause, pause)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except TimeoutError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return True


def _first_in_queue(path: str) -> str:
    key = locks.key(path)
    pid = locks.holders().get(key, 0) if key else 0
    status = processes.read_status(pid) if pid else None
    uid = None if status is None else processes.owner_id(status)
    return "another process" if uid is None else f"{processes.username(uid)} (PID {pid})"
