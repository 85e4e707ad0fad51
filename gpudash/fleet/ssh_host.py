"""One host over ssh: its connection, what it last answered, and when it is asked again."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from math import inf
from subprocess import DEVNULL, PIPE, Popen

from msgspec import Struct
from msgspec.structs import replace

from gpudash.feed.collector import CollectorProcess
from gpudash.fleet import ssh
from gpudash.fleet.from_snapshot import HostReader
from gpudash.model.errors import WireError
from gpudash.model.fleet import FleetHost, HostState
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import NAME_BYTES, SafeText, bound, clean, clean_bytes
from gpudash.system import fork

_LINE_LIMIT = 4 << 20
"""Bytes of one line: a compact document takes some 50 KB."""
_FOREIGN_LIMIT = 1 << 20
"""Bytes that are no document, before it counts as garbled."""
_MAX_BAD = 16
"""Documents in a row that cannot be read."""
_MUCH = 1 << 16
_FINAL: frozenset[HostState] = frozenset({"auth", "host-key"})
"""What another attempt only makes worse: servers punish it, and accounts are locked."""
_SLOW: frozenset[HostState] = frozenset({"no-access", "no-gpudash"})
"""What does not pass soon."""
_GARBLED: HostState = "garbled"

Clock = Callable[[], float]


def boot_clock() -> float:
    """Return seconds that go on while the machine sleeps, where there is such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Limits(Struct, frozen=True, kw_only=True):
    """Seconds that a host is given; tests inject shorter ones."""

    stale: float = 6.0
    """Without a document before it is stale; three intervals if that is longer."""
    hung: float = 30.0
    """Of silence before it is connected again; six intervals if that is longer."""
    retry: float = 5.0
    """Before the next attempt; twice as long each time, up to `max_retry`."""
    max_retry: float = 300.0
    jitter: float = 0.2
    """Share by which that varies: hosts that failed together do not come back together."""
    pause: float = 0.25
    """For which a host that has just sent something is not read: the most that it can cost."""
    exit: float = 2.0
    """For an ssh that has closed its output to end."""


def start(argv: Sequence[str], *, is_own_session: bool) -> CollectorProcess:
    """Start a command that dies with us and cannot ask the terminal; raises OSError.

    In a session of its own it has no terminal, and its helpers end with it. A collector that has
    no terminal itself keeps it in its own group, which is killed as a whole.
    """
    environ = {**os.environ, "SSH_ASKPASS_REQUIRE": "never"}
    return CollectorProcess(
        Popen(
            argv,
            env=environ,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=is_own_session,
            preexec_fn=_dying_with_us(),  # noqa: PLW1509  # two system calls, which take no lock
        ),
        _LINE_LIMIT,
    )


def _dying_with_us() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    import ctypes  # noqa: F401  # not first in the child

    parent = os.getpid()
    return lambda: fork.end_with_parent(parent)


class SshHost:
    """What is known of one host. `advance` reads what has arrived and notices silence and death."""

    def __init__(
        self,
        name: str,
        group: str | None,
        argv: Sequence[str],
        *,
        interval: float,
        limits: Limits,
        clock: Clock,
    ) -> None:
        self.name = name
        self.jump: str | None = None
        """What it is reached through, None if directly."""
        self.state: HostState = "connecting"
        self.due = clock()
        """When it is to be connected; infinity for never by itself."""
        self.started_at = -inf
        self.has_answered = False
        """Whether the far end of this connection has sent anything."""
        self.received_at: float | None = None
        """When its last document arrived."""
        self.documents = 0
        """That this connection has brought."""
        self._argv, self._interval, self._limits, self._clock = argv, interval, limits, clock
        safe = bound(clean(name), NAME_BYTES)
        self._reader = HostReader(safe, None if group is None else bound(clean(group), NAME_BYTES))
        self._known = self._reader.read_nothing()
        self._message: str | None = None
        self._process: CollectorProcess | None = None
        self._ended_at: float | None = None
        self._paused_until = -inf
        self._attempts = self._foreign = self._bad = 0
        self._first_foreign = b""

    @property
    def is_running(self) -> bool:
        """Whether there is an ssh."""
        return self._process is not None

    @property
    def descriptor(self) -> int | None:
        """What can be read when there is something to do, None while there is nothing to read."""
        if self._process is None or self._ended_at is not None:
            return None
        return None if self._clock() < self._paused_until else self._process.descriptor

    @property
    def stale_after(self) -> float:
        """Seconds without a document after which it is stale."""
        return max(self._limits.stale, 3 * self._interval)

    def connect(self, *, is_own_session: bool) -> None:
        """Start an ssh."""
        self.started_at = self._clock()
        self.has_answered, self.documents = False, 0
        self._foreign = self._bad = 0
        self._first_foreign = b""
        self._ended_at, self._paused_until = None, -inf
        self._reader.forget()
        try:
            self._process = start(self._argv, is_own_session=is_own_session)
        except OSError as error:
            self._fail("down", f"ssh cannot be started: {error.strerror}")

    def retry(self) -> None:
        """Connect as soon as possible, whatever went wrong before."""
        if self._process is None:
            self.due, self._attempts = self._clock(), 0

    def due_in(self) -> float:
        """Return after how many seconds `advance` has something to do."""
        if self._ended_at is not None:
            return 0.02
        return max(0.0, min(self._paused_until - self._clock(), 1.0)) or 1.0

    def advance(self, *, is_ready: bool) -> None:
        """Read what has arrived; `is_ready` is whether stdout can be read."""
        process = self._process
        if process is None:
            return
        if self._ended_at is None and is_ready:
            lines, has_ended = process.read()
            self._take(lines)
            if self._process is None:
                return
            if process.take_oversized():
                self._fail(_GARBLED, f"sent a line of more than {_LINE_LIMIT >> 20} MiB")
                return
            if has_ended:
                self._ended_at = self._clock()
        elif self._ended_at is None:
            process.read_errors()
        if self._ended_at is not None:
            self._bury(process, self._ended_at)
        else:
            self._notice_silence()

    def disconnect(self, due: float) -> None:
        """End the connection in good order, to be connected again at that time."""
        self._abandon()
        self.due = due

    def read(self) -> FleetHost:
        """Return what is known now."""
        age = None if self.received_at is None else max(0.0, self._clock() - self.received_at)
        state = self.state
        if state == "ok" and not self._known.devices:
            state = "no-gpus"
        if state == "down" and age is not None:
            state = "lost-contact"
        message = None if self._message is None else bound(clean(self._message), NAME_BYTES)
        return replace(self._known, state=state, age_seconds=age, message=message)

    def close(self) -> None:
        """Kill the ssh, without waiting for its death."""
        self._abandon()
        self.due = inf

    def _take(self, lines: Sequence[bytes]) -> None:
        """Take the last document of what has arrived; more than a little else is garbled."""
        self.has_answered |= bool(lines)
        snapshot: Snapshot | None = None
        size = 0
        for line in reversed(lines):
            size += len(line) + 1
            if snapshot is not None:
                continue
            try:
                snapshot = ssh.decode_line(line)
            except WireError as error:
                self._bad += 1
                self._message = f"unreadable document: {error}"
            if snapshot is None and line.strip() and not line.startswith(ssh.HELLO):
                self._foreign += len(line) + 1
                self._first_foreign = self._first_foreign or line[: ssh.MAX_SHOWN]
        if snapshot is not None or size >= _MUCH:
            self._paused_until = self._clock() + min(self._limits.pause, self._interval / 4)
        if snapshot is not None:
            self._receive(snapshot)
        elif self._foreign > _FOREIGN_LIMIT or self._bad > _MAX_BAD:
            self._fail(_GARBLED, self._garbled_message())

    def _receive(self, snapshot: Snapshot) -> None:
        now = self._clock()
        self._known = self._reader.read(snapshot)
        self.received_at, self.state, self._message = now, "ok", None
        self.documents += 1
        self._attempts = self._foreign = self._bad = 0
        if not snapshot.devices:
            faults = [fault.message for fault in snapshot.errors if fault.source == "nvml"]
            self._message = faults[0] if faults else "the driver lists no GPU"

    def _notice_silence(self) -> None:
        now = self._clock()
        silence = now - max(self.received_at or -inf, self.started_at)
        if silence >= max(self._limits.hung, 6 * self._interval):
            what = "no answer" if self.documents or not self.has_answered else "no document"
            self._fail("down", f"{what} for {silence:.0f} s")
        elif self.documents and silence >= self.stale_after:
            self.state = "stale"

    def _bury(self, process: CollectorProcess, ended_at: float) -> None:
        """Take the reason of an ssh that has closed its output."""
        status = process.status()
        if status is None and self._clock() - ended_at < self._limits.exit:
            return
        process.read_errors()
        end = ssh.ending(status, process.errors, had_answer=self.documents > 0)
        if end.state == _GARBLED and self._first_foreign:
            self._fail(_GARBLED, self._garbled_message())
        else:
            self._fail(end.state, end.message)

    def _garbled_message(self) -> str:
        if self._bad and self._message is not None:
            return self._message
        return ssh.answer_text(self._first_foreign)

    def _fail(self, state: HostState, message: str) -> None:
        """End this attempt; the next one is due by what went wrong."""
        self.state, self._message = state, message
        self._abandon()
        limits = self._limits
        delay = limits.retry * 2 ** min(self._attempts, 16)
        self._attempts += 1
        delay = limits.max_retry if state in _SLOW else min(delay, limits.max_retry)
        delay *= random.uniform(1 - limits.jitter, 1 + limits.jitter)
        self.due = inf if state in _FINAL else self._clock() + delay

    def _abandon(self) -> None:
        process, self._process = self._process, None
        self._ended_at = None
        if process is not None:
            process.abandon()


def jump_of(config: Sequence[bytes]) -> SafeText | None:
    """Return what a host is reached through by the answer of `ssh -G`, None if directly."""
    for line in config:
        name, _, value = line.partition(b" ")
        if name in (b"proxyjump", b"proxycommand") and value.strip() not in (b"", b"none"):
            return clean_bytes(value, NAME_BYTES)
    return None
