"""One host over ssh: its connection, its last answer, and the next attempt."""

from __future__ import annotations

import random
from collections.abc import Sequence
from math import inf

from msgspec.structs import replace

from gpudash.feed.collector import RELEASED, RELEASED_TEXT, Child, spawn
from gpudash.feed.supervisor import End, Limits, LineSupervisor
from gpudash.fleet import ssh
from gpudash.fleet.from_snapshot import SnapshotReader
from gpudash.fleet.source import Clock
from gpudash.model.errors import WireError
from gpudash.model.fleet import FleetHost, HostState
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import NAME_BYTES, SafeText, bound, clean, clean_bytes

_LINE_LIMIT = 4 << 20
"""Bytes of one line: a compact document takes some 50 KB."""
_FOREIGN_LIMIT = 1 << 20
"""Bytes of foreign text before the output counts as garbled."""
_MAX_BAD = 16
"""Unreadable documents in a row."""
_MUCH = 1 << 16
_FINAL: frozenset[HostState] = frozenset({"auth", "host-key"})
"""States that another attempt makes worse: servers penalize it, and accounts are locked."""
_SLOW: frozenset[HostState] = frozenset({"no-access", "no-gpudash"})
"""States that last for a while."""
_GARBLED: HostState = "garbled"


class SshLimits(Limits, frozen=True, kw_only=True):
    """Timeouts of a host in seconds; a silent one is reconnected."""

    stale: float = 6.0
    retry: float = 5.0
    max_retry: float = 300.0
    jitter: float = 0.2
    """Share by which delays vary, so that hosts that failed together do not reconnect together."""
    pause: float = 0.25
    """How long a host that has just sent something is not read: this bounds its cost."""
    exit: float = 2.0


class SshHost(LineSupervisor):
    """The state of one host. `advance` reads what has arrived and detects silence and exits."""

    _limits: SshLimits

    def __init__(
        self,
        name: str,
        group: str | None,
        argv: Sequence[str],
        *,
        interval: float,
        limits: SshLimits,
        clock: Clock,
        is_own_session: bool,
    ) -> None:
        """Prepare to start an ssh that cannot use the terminal.

        A session of its own keeps it from the terminal, and its helpers end with it. A collector
        without a terminal keeps it in its own process group, which is killed as a whole.
        """
        super().__init__(interval, limits, clock)
        self.name = name
        self.jump: str | None = None
        """The jump host, None if directly connected."""
        self.state: HostState = "connecting"
        self.due = clock()
        self.has_answered = False
        """Whether the far end has sent anything over this connection."""
        self.documents = 0
        """Number received over this connection."""
        self._argv, self._is_own_session = argv, is_own_session
        safe = bound(clean(name), NAME_BYTES)
        self._reader = SnapshotReader(
            safe, None if group is None else bound(clean(group), NAME_BYTES)
        )
        self._known = self._reader.read_nothing()
        self._message: str | None = None
        self._foreign = self._bad = 0
        self._first_foreign = b""

    def connect(self) -> None:
        """Start an ssh."""
        self.has_answered, self.documents = False, 0
        self._foreign = self._bad = 0
        self._first_foreign = b""
        self._reader.forget()
        error = self._start(self._spawn)
        if error is not None:
            self._fail("down", f"ssh cannot be started: {error.strerror}")

    def retry(self) -> None:
        """Reconnect as soon as possible, whatever went wrong before."""
        if not self.is_running:
            self.due, self._attempts = self._clock(), 0

    def due_in(self) -> float:
        """Return the seconds until the next `advance`, which also reads stderr."""
        if self._ended_at is not None:
            return super().due_in()
        paused = self._paused_until - self._clock()
        return paused if 0 < paused < 1 else 1.0

    def advance(self, *, is_ready: bool) -> None:
        """Read what has arrived; `is_ready` is whether stdout is readable."""
        if lines := self._read(is_ready=is_ready):
            self._take(lines)
        if self._has_dropped():
            self._fail(_GARBLED, f"sent a line of more than {_LINE_LIMIT >> 20} MiB")
        elif (end := self._end()) is not None:
            self._bury(end)

    def disconnect(self, due: float) -> None:
        """End the connection cleanly, and reconnect at that time."""
        self._abandon()
        self.due = due

    def read(self) -> FleetHost:
        """Return the present state."""
        age = None if self.received_at is None else max(0.0, self._clock() - self.received_at)
        state = self.state
        if state == "ok" and not self._known.devices:
            state = "no-gpus"
        if self.is_running and self.documents and self.silence >= self.stale_after:
            state = "stale"
        if state == "down" and age is not None:
            state = "lost-contact"
        message = None if self._message is None else bound(clean(self._message), NAME_BYTES)
        return replace(self._known, state=state, age_seconds=age, message=message)

    def _spawn(self) -> Child:
        return spawn(
            self._argv,
            {},
            _LINE_LIMIT,
            is_controlled=False,
            is_own_session=self._is_own_session,
        )

    def _take(self, lines: Sequence[bytes]) -> None:
        """Store the last document that has arrived; much foreign text counts as garbled."""
        self.has_answered = True
        snapshot: Snapshot | None = None
        size = 0
        for line in reversed(lines):
            size += len(line) + 1
            if snapshot is not None:
                continue
            if line == RELEASED:
                self.state, self._message = "stale", RELEASED_TEXT
                self._released_at = self._clock()
                break
            try:
                snapshot = ssh.decode_line(line)
            except WireError as error:
                self._bad += 1
                self._message = f"unreadable document: {error}"
            if snapshot is None and line.strip() and not line.startswith(ssh.HELLO):
                self._foreign += len(line) + 1
                self._first_foreign = self._first_foreign or line[: ssh.MAX_SHOWN]
        if snapshot is not None or size >= _MUCH:
            self._paused_until = self._clock() + min(self._limits.pause, self.interval / 4)
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

    def _bury(self, end: End) -> None:
        """Store why an ssh that was silent, or closed its output, ended."""
        if end.silence is not None:
            what = "no answer" if self.documents or not self.has_answered else "no document"
            self._fail("down", f"{what} for {end.silence:.0f} s")
            return
        reason = ssh.ending(end.status, end.errors, had_answer=self.documents > 0)
        if reason.state == _GARBLED and self._first_foreign:
            self._fail(_GARBLED, self._garbled_message())
        else:
            self._fail(reason.state, reason.message)

    def _garbled_message(self) -> str:
        if self._bad and self._message is not None:
            return self._message
        return ssh.answer_text(self._first_foreign)

    def _fail(self, state: HostState, message: str) -> None:
        """End this attempt; the failure decides when the next one is due."""
        self.state, self._message = state, message
        self._abandon()
        limits, delay = self._limits, self._delay(self._limits.max_retry)
        if state in _SLOW:
            delay = limits.max_retry
        delay *= random.uniform(1 - limits.jitter, 1 + limits.jitter)
        self.due = inf if state in _FINAL else self._clock() + delay


def jump_of(config: Sequence[bytes]) -> SafeText | None:
    """Return a host's jump host from the answer of `ssh -G`, None if directly connected."""
    for line in config:
        name, _, value = line.partition(b" ")
        if name in (b"proxyjump", b"proxycommand") and value.strip() not in (b"", b"none"):
            return clean_bytes(value, NAME_BYTES)
    return None
