"""The collector process, and its protocol with the process that starts it.

A collector prints the lines of `gpudash --json`. One started by gpudash is controlled: it has
GPUDASH_CONTROLLED in its environment, so that it reads intervals from stdin and ends with its
parent; and GPUDASH_XID_HANDOVER, if there is something to hand over (see `xid_handover`). Both are
internal.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from typing import TYPE_CHECKING

from gpudash.model.text import SafeText, clean_bytes

if TYPE_CHECKING:
    from subprocess import Popen

    from gpudash.system.fork import ForkedProcess

_VARIABLE = "GPUDASH_CONTROLLED"
CONTROLLED: Mapping[str, str] = {_VARIABLE: "1"}
"""The environment of a collector controlled by its parent."""
OF_SERVICE: Mapping[str, str] = {_VARIABLE: "service"}
"""The environment of a collector controlled by `gpudash serve`."""

SOCKET = "/run/gpudash/gpudash.sock"
"""Where the service offers its lines, so that others need no collector."""
SOCKET_VARIABLE = "GPUDASH_SOCKET"
"""The variable for another socket; empty for none."""
RELEASED = b'{"released":true}'
"""A line from the service in place of a snapshot: it has released the GPUs."""
RELEASED_TEXT = "gpudash serve is detached from the driver until kill -USR1; --fresh reads it"

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of a line before it is dropped: 64 GPUs and 10,000 processes need less."""
FLEET_LINE_LIMIT = 64 * 1024 * 1024
"""The same for a document of many hosts: 110,000 GPUs need less."""
FLEET_START = b'{"fleet":'
"""The beginning of a document of many hosts, and of no other."""

_UNATTENDED: Mapping[str, str] = {"SSH_ASKPASS_REQUIRE": "never"}
_CONTROL_BYTES = 1 << 20
_CHUNK = 1 << 16
_WIDE_PIPE = 1 << 20
"""The largest that an unprivileged process may request by default."""
_READ_AT_ONCE = 1 << 22
_ERROR_LIMIT, _ERROR_READS = 8192, 16
_ERROR_LINE = 500
_REAP_INTERVAL = 0.001

_unreaped: list[Popen[bytes] | ForkedProcess] = []
"""Killed children that have not exited yet, perhaps for ever in uninterruptible sleep."""


def is_controlled(environ: Mapping[str, str]) -> bool:
    """Whether this process is a collector controlled by its parent."""
    return _VARIABLE in environ


def is_far_end(environ: Mapping[str, str]) -> bool:
    """Whether this collector was started from another host."""
    return environ.get(_VARIABLE) == "far"


def is_of_service(environ: Mapping[str, str]) -> bool:
    """Whether this collector was started by `gpudash serve`, which may have no viewer."""
    return environ.get(_VARIABLE) == OF_SERVICE[_VARIABLE]


def service_socket() -> str:
    """Return the service's socket, empty for none, which costs only an lstat."""
    path = os.environ.get(SOCKET_VARIABLE, SOCKET)
    return path if path and os.path.lexists(path) else ""


def interval_message(seconds: float) -> bytes:
    """Return the line that sets the interval of a controlled collector."""
    return b"%r\n" % seconds


class ControlReader:
    """The interval in seconds, changed by lines from a descriptor, if there is one.

    Lines of JSON are kept as requests.
    """

    def __init__(self, seconds: float, descriptor: int | None = None) -> None:
        self.seconds = seconds
        self.descriptor = descriptor
        """None once its writer is gone."""
        self.requests: list[bytes] = []
        """Requests that have arrived, for the caller to take."""
        self._rest = b""
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Read all lines that have arrived; return whether the interval has changed.

        Of several intervals, the last one counts.
        """
        before = self.seconds
        if self.descriptor is not None:
            with suppress(BlockingIOError):
                self._take(os.read(self.descriptor, _CONTROL_BYTES))
        return self.seconds != before

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self.descriptor = None
        *lines, self._rest = (self._rest + chunk)[-_CONTROL_BYTES:].split(b"\n")
        for line in lines:
            if line.startswith(b"{"):
                self.requests.append(line)
                continue
            with suppress(ValueError):
                seconds = float(line)
                if 0 < seconds < inf:
                    self.seconds = seconds


def spawn(
    argv: Sequence[str],
    environ: Mapping[str, str],
    line_limit: int | None = None,
    *,
    is_controlled: bool = True,
    is_own_session: bool = True,
) -> Child:
    """Start a command with our environment plus `environ`; raises OSError.

    A controlled collector ends with its stdin; any other command has no stdin, and dies with us.
    """
    from subprocess import DEVNULL, PIPE, Popen

    control = CONTROLLED if is_controlled else _UNATTENDED
    return Child(
        Popen(
            argv,
            env={**os.environ, **control, **environ},
            stdin=PIPE if is_controlled else DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=is_own_session,
            preexec_fn=None if is_controlled else _dying_with_us(),  # noqa: PLW1509  # two system calls, which take no lock
        ),
        line_limit,
    )


def _dying_with_us() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: F401  # not first in the child

    from gpudash.system import fork

    parent = os.getpid()
    return lambda: fork.end_with_parent(parent)


class Child:
    """A child that is read without blocking, and abandoned without waiting for its exit.

    By default, a line is limited to `LINE_LIMIT` or `FLEET_LINE_LIMIT` bytes.
    """

    def __init__(
        self, process: Popen[bytes] | ForkedProcess, line_limit: int | None = None
    ) -> None:
        reap()
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
        self.pid = process.pid
        self._in, self._out, self._err = process.stdin, process.stdout, process.stderr
        self.descriptor = self._out.fileno()
        for pipe in filter(None, (self._in, self._out, self._err)):
            os.set_blocking(pipe.fileno(), False)
        self._line_limit = line_limit
        self._pending: list[bytes] = []
        self._pending_size = 0
        self._skipping = self._is_wide = False
        self._oversized = 0
        self._errors = b""

    @property
    def errors(self) -> list[SafeText]:
        """The last nonempty lines of its stderr."""
        lines = [line.strip() for line in self._errors.splitlines() if line.strip()]
        return [clean_bytes(line, _ERROR_LINE) for line in lines]

    def send(self, line: bytes) -> None:
        """Write to its stdin, unless it has ended."""
        if self._in is not None:
            with suppress(OSError):
                os.write(self._in.fileno(), line)

    def read(self) -> tuple[list[bytes], bool]:
        """Return the whole lines that have arrived, and whether stdout has ended."""
        self.read_errors()
        lines: list[bytes] = []
        for _ in range(_READ_AT_ONCE // _CHUNK):
            chunk = _take(self.descriptor)
            if chunk is None:
                break
            if not chunk:
                self.read_errors()
                return lines, True
            self._split(chunk, lines)
        return lines, False

    @property
    def rest(self) -> bytes:
        """The incomplete line at the end."""
        return b"".join(self._pending)

    def read_errors(self) -> None:
        """Keep the end of its stderr, so that a full pipe does not block it."""
        for _ in range(_ERROR_READS):
            chunk = _take(self._err.fileno())
            if not chunk:
                break
            self._errors = (self._errors + chunk)[-_ERROR_LIMIT:]

    def take_oversized(self) -> int:
        """Return how many lines have been dropped for their length since the last call."""
        count, self._oversized = self._oversized, 0
        return count

    def status(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs."""
        return self._process.poll()

    def abandon(self) -> None:
        """Kill it and its session, close the pipes, and do not wait for its exit."""
        if self._process.poll() is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                # One that was just forked leads no session yet; one that changed its user ends when
                # its pipes are closed.
                with suppress(PermissionError):
                    self._process.kill()
        for pipe in filter(None, (self._in, self._out, self._err)):
            pipe.close()
        if self._process.poll() is None:
            _unreaped.append(self._process)

    def _split(self, chunk: bytes, lines: list[bytes]) -> None:
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            if not self._skipping:
                lines.append(b"".join([*self._pending, piece]))
            self._pending, self._pending_size, self._skipping = [], 0, False
        self._pending.append(rest)
        self._pending_size += len(rest)
        if self._pending_size >= _CHUNK and not self._is_wide:
            self._widen()
        if self._pending_size > self._limit():
            self._oversized += not self._skipping
            self._pending, self._pending_size, self._skipping = [], 0, True

    def _limit(self) -> int:
        """Return the byte limit of the line that is arriving."""
        if self._line_limit is not None:
            return self._line_limit
        # Its first pieces may be single bytes.
        count = len(FLEET_START)
        start = b"".join([piece[:count] for piece in self._pending[: count + 1]])
        return FLEET_LINE_LIMIT if start.startswith(FLEET_START) else LINE_LIMIT

    def _widen(self) -> None:
        """Let a line longer than the pipe through in one piece rather than a dozen.

        With short lines, a wide pipe would only hold back many of them from a slow reader.
        """
        self._is_wide = True
        # A user may have too many of them.
        with suppress(OSError):
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)


def _take(descriptor: int) -> bytes | None:
    """Read what has arrived: None for nothing yet, empty for the end."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def lingering() -> int:
    """Return how many abandoned children have not exited yet."""
    reap()
    return len(_unreaped)


def reap(wait_seconds: float = 0.0) -> None:
    """Reap abandoned children that have exited, waiting at most `wait_seconds` for the others.

    If nothing inherits them, as in many containers, they would stay zombies for ever.
    """
    deadline = time.monotonic() + wait_seconds
    while True:
        _unreaped[:] = [process for process in _unreaped if process.poll() is None]
        if not _unreaped or time.monotonic() >= deadline:
            return
        time.sleep(_REAP_INTERVAL)
