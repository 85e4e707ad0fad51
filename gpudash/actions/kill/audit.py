"""The record of every signal that gpudash sends: a line of JSON each, in the state folder.

Only the user who ran gpudash can read it.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import NamedTuple

import msgspec

from gpudash.actions import sent
from gpudash.actions.kill.pin import Target, masked_command
from gpudash.actions.kill.signals import Signal
from gpudash.model.errors import ActionError
from gpudash.system.processes import login_id

_MAX_COMMAND = 2000


class Sending(NamedTuple):
    """A signal that was sent to a process, or why it was not."""

    target: Target
    signal: Signal
    refusal: str | None


class AuditTrail:
    """Records in its own threads: a home folder that hangs must not delay anything else."""

    def __init__(self, write: Callable[[Sequence[Sending]], None] | None = None) -> None:
        """`write` raises ActionError on failure; by default it is `record`."""
        self._write = write or record
        self._threads: list[threading.Thread] = []
        self._errors: list[str] = []

    def record(self, sendings: Sequence[Sending]) -> None:
        """Start recording these."""
        thread = threading.Thread(target=self._record, args=(sendings,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def errors(self, timeout_seconds: float | None = None) -> tuple[str, ...]:
        """Wait until all is recorded, without limit if None; return the errors, each once."""
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        for thread in self._threads:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))
        errors = dict.fromkeys(self._errors)
        if any(thread.is_alive() for thread in self._threads):
            return (*errors, f"{sent.NAME} is still being written")
        return tuple(errors)

    def _record(self, sendings: Sequence[Sending]) -> None:
        try:
            self._write(sendings)
        except ActionError as error:
            self._errors.append(str(error))


def record(sendings: Sequence[Sending]) -> None:
    """Append a line for each; raises ActionError with the reason for a failure."""
    if not sendings:
        return
    try:
        file = sent.path()
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        _append(file, b"".join(map(_line, sendings)))
    except (OSError, KeyError) as error:
        reason = getattr(error, "strerror", None) or "no home"
        raise ActionError(f"not recorded in {sent.NAME}: {reason}") from None


def _append(file: str, lines: bytes) -> None:
    """Write whole lines at once, only to a file of ours and never through a link."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
            raise PermissionError(0, "it is not a file of this user")
        _write_whole(descriptor, lines, found.st_size)
    finally:
        os.close(descriptor)


def _write_whole(descriptor: int, lines: bytes, end: int) -> None:
    """Write everything after `end`, or undo it; raises OSError."""
    rest = memoryview(lines)
    try:
        # A full disk accepts a part, and fails only for the rest.
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        # Unless another gpudash has appended to it since.
        with suppress(OSError):
            if os.fstat(descriptor).st_size == end + len(lines) - len(rest):
                os.ftruncate(descriptor, end)
        raise


def _line(sending: Sending) -> bytes:
    process = sending.target.process
    entry = {
        "time": datetime.now(timezone.utc),
        "uid": os.geteuid(),
        "login_uid": login_id(os.getpid()),
        "pid": process.pid,
        "start_ticks": process.start_ticks,
        "username": process.username,
        "command": masked_command(process)[:_MAX_COMMAND],
        "signal": sending.signal.name,
        "result": sending.refusal or "sent",
    }
    return msgspec.json.encode(entry) + b"\n"
