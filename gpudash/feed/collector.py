"""A child process whose lines are read without ever blocking, and whose death is not waited for."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import inf

from gpudash.model.errors import GpudashError, ResourceError, is_exhausted
from gpudash.model.text import SafeText, clean_bytes
from gpudash.system.fork import ForkedProcess

_VARIABLE = "GPUDASH_LED"
LED: Mapping[str, str] = {_VARIABLE: "1"}
"""The environment of a collector whose stdin tells intervals, and which ends with its starter."""

_PACE_CHUNK = 1 << 12


class Pace:
    """Seconds between two samples; lines of a descriptor, if there is one, tell others."""

    def __init__(self, seconds: float, descriptor: int | None = None) -> None:
        self.seconds = seconds
        self.descriptor = descriptor
        self._rest = b""
        if descriptor is not None:
            os.set_blocking(descriptor, False)

    def read(self) -> bool:
        """Take note of what was told, of which the last counts; whether it is another interval."""
        before = self.seconds
        if self.descriptor is not None:
            with suppress(BlockingIOError):
                self._take(os.read(self.descriptor, _PACE_CHUNK))
        return self.seconds != before

    def _take(self, chunk: bytes) -> None:
        if not chunk:
            self.descriptor = None
        *lines, self._rest = (self._rest + chunk)[-_PACE_CHUNK:].split(b"\n")
        for line in lines:
            with suppress(ValueError):
                seconds = float(line)
                if 0 < seconds < inf:
                    self.seconds = seconds


def told(seconds: float) -> bytes:
    """Return the line that tells an interval."""
    return b"%r\n" % seconds


def is_led(environ: Mapping[str, str]) -> bool:
    """Whether stdin tells intervals."""
    return _VARIABLE in environ


LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of one line before it is dropped: 64 GPUs and 10,000 processes stay below it."""

_CHUNK = 1 << 16
_WIDE_PIPE = 1 << 20
"""As much as anybody may ask for by default."""
_READ_AT_ONCE = 1 << 22
_ERROR_LIMIT, _ERROR_READS = 8192, 16
_PAUSE_SECONDS = 0.005

_unreaped: list[subprocess.Popen[bytes] | ForkedProcess] = []
"""Killed children that have not died yet, in uninterruptible sleep perhaps for ever."""


def spawn(argv: Sequence[str], *, given: Mapping[str, str] | None = None) -> Child:
    """Start a collector by its command, in a session of its own, which ends with us.

    Its stdin tells it intervals, its environment is ours and what is `given` besides. Raises
    OSError when it cannot be started.
    """
    return Child(
        subprocess.Popen(
            argv,
            env={**os.environ, **LED, **(given or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    )


class Child:
    """A process in a session of its own with its pipes at hand."""

    def __init__(
        self, process: subprocess.Popen[bytes] | ForkedProcess, line_limit: int = LINE_LIMIT
    ) -> None:
        reap()
        assert process.stdout is not None
        assert process.stderr is not None
        self._process = process
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
    def last_error(self) -> SafeText | None:
        """The last line that it wrote to stderr, None if it was silent."""
        lines = self._errors.splitlines()
        spoken = [line for line in lines if line.strip()]
        return clean_bytes(spoken[-1].strip(), 500) if spoken else None

    def tell(self, line: bytes) -> None:
        """Tell one that is led something; nothing if it does not listen."""
        if self._in is not None:
            with suppress(OSError):
                os.write(self._in.fileno(), line)

    def wait(self, timeout_seconds: float) -> None:
        """Wait until there is something to read, so long at most."""
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        poll.poll(timeout_seconds * 1000)

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

    def read_errors(self) -> None:
        """Keep the end of what it wrote to stderr, so that a full pipe does not stop it."""
        for _ in range(_ERROR_READS):
            chunk = _take(self._err.fileno())
            if not chunk:
                break
            self._errors = (self._errors + chunk)[-_ERROR_LIMIT:]

    def take_oversized(self) -> int:
        """Return how many lines were dropped for their length since the last call."""
        count, self._oversized = self._oversized, 0
        return count

    def status(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs."""
        return self._process.poll()

    def await_status(self, timeout_seconds: float) -> int | None:
        """Return the exit status of one that has closed its pipes, None if it lingers."""
        deadline = time.monotonic() + timeout_seconds
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        return status

    def abandon(self) -> None:
        """Kill it and its session, close the pipes, and do not wait for its death."""
        if self._process.poll() is None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                # One that was just forked leads no session yet; one that changed its user ends
                # when its pipes are closed.
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
        if self._pending_size > self._line_limit:
            self._oversized += not self._skipping
            self._pending, self._pending_size, self._skipping = [], 0, True

    def _widen(self) -> None:
        """Let a line that is longer than the pipe through at once, not in a dozen pieces.

        While lines are short a wide pipe would only hold many of them back from a slow reader.
        """
        self._is_wide = True
        # Only Linux has it, and a user may have too many of them.
        with suppress(OSError, AttributeError):
            fcntl.fcntl(self.descriptor, fcntl.F_SETPIPE_SZ, _WIDE_PIPE)


def _take(descriptor: int) -> bytes | None:
    """Read what is there: None for nothing yet, empty for the end."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def not_started(error: OSError) -> GpudashError:
    """Return what it means that the command of a collector could not be started."""
    if is_exhausted(error):
        return ResourceError(error)
    return GpudashError(f"the collector cannot be started: {error}")


def lingering() -> int:
    """Return how many abandoned children have not died yet."""
    reap()
    return len(_unreaped)


def reap(patience_seconds: float = 0.0) -> None:
    """Let go of abandoned children that have died, waiting so long at most for those that have not.

    Where nobody inherits them, as in many containers, their entries would stay for ever.
    """
    deadline = time.monotonic() + patience_seconds
    while True:
        _unreaped[:] = [process for process in _unreaped if process.poll() is None]
        if not _unreaped or time.monotonic() >= deadline:
            return
        time.sleep(_PAUSE_SECONDS)
