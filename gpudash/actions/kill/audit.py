"""The record of every signal that gpudash sends: a line of JSON each, in the state folder.

It is for the person who runs gpudash and for whoever asks later; nobody else can read it.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone

import msgspec

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.run import Sending
from gpudash.model.errors import ActionError
from gpudash.model.text import clean
from gpudash.system.processes import login_id

_NAME = "audit.jsonl"
_COMMAND_LIMIT = 2000


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the file: gpudash/audit.jsonl in $XDG_STATE_HOME, by default ~/.local/state.

    `sudo` may keep the home of another user, where root's record does not belong.
    """
    folder = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(folder):
        home = os.path.expanduser("~")
        if not _is_own(home):
            home = pwd.getpwuid(os.geteuid()).pw_dir
        folder = os.path.join(home, ".local", "state")
    return os.path.join(folder, "gpudash", _NAME)


def record(sendings: Sequence[Sending]) -> None:
    """Append a line for each; raises ActionError, with the reason, where that is not possible."""
    if not sendings:
        return
    try:
        file = path()
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        _append(file, b"".join(map(_line, sendings)))
    except (OSError, KeyError) as error:
        reason = getattr(error, "strerror", None) or "no home"
        raise ActionError(f"not recorded in {clean(_NAME)}: {reason}") from None


def _append(file: str, lines: bytes) -> None:
    """Write whole lines at once, to a file of ours alone and never through a link."""
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
    """Write all of it behind `end`, or take back what was; raises OSError."""
    rest = memoryview(lines)
    try:
        # A full disk takes a part, and says so only when the rest is to be written.
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        # Unless another gpudash has written behind it since.
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
        "command": masked_command(process)[:_COMMAND_LIMIT],
        "signal": sending.signal.name,
        "result": sending.refusal or "sent",
    }
    return msgspec.json.encode(entry) + b"\n"


def _is_own(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.geteuid()
    except OSError:
        return False
