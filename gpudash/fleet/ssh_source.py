"""Many hosts over ssh, as many at once as their servers, jump hosts and this machine allow.

Up to `Pacing.streams` hosts are streamed, each by its own ssh. More are swept: each in turn is
connected for two documents. A server with the default MaxStartups refuses the eleventh concurrent
handshake, and jump hosts see all of them.
"""

from __future__ import annotations

import heapq
import os
import select
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import count
from math import inf

from msgspec import Struct

from gpudash.config.settings import FleetSettings, Settings
from gpudash.feed.collector import reap
from gpudash.feed.supervisor import Output
from gpudash.fleet import ssh
from gpudash.fleet.names import expand
from gpudash.fleet.source import Clock, Reading, Source, boot_clock
from gpudash.fleet.ssh_host import SshHost, SshLimits, jump_of
from gpudash.model.fleet import FleetRequest, FleetSource, SourceState
from gpudash.model.text import clean

_INTERVAL = 2.0
_SWEPT_DOCUMENTS = 2
"""Rates need two samples."""
_BLOCKED_SECONDS = 0.1
_MAX_SHOWN = 100
_MAX_CONFIG_BYTES = 1 << 20


class Pacing(Struct, frozen=True, kw_only=True):
    """Limits on concurrent connections."""

    streams: int = 64
    """Hosts that stay connected, if there are no more than these."""
    swept: int = 16
    """Concurrent connections if there are more hosts."""
    sweep_seconds: float = 30.0
    """Between two connections to a swept host."""
    handshakes: int = ssh.HANDSHAKES
    per_jump: int = 4
    """How many of these may use the same jump host."""
    handshake_seconds: float = 1.0
    """After this, a silent connection does not hold up others."""
    lookup_seconds: float = 5.0
    """For `ssh -G`, which may look up names."""


def opened(options: Namespace, settings: Settings) -> Iterator[SshSource]:
    """Yield the source of the given hosts; raises UsageError for invalid names."""
    known = settings.fleet
    yield SshSource(
        hosts_of(options, known),
        interval=options.interval or _INTERVAL,
        config=options.ssh_config,
        gpudash=known.remote,
    )


def hosts_of(options: Namespace, known: FleetSettings) -> dict[str, str | None]:
    """Return the given hosts, each with its group; raises UsageError."""
    files = () if options.hosts_file is None else (options.hosts_file,)
    return expand(options.host or (), files=files, groups=known.groups)


class SshSource(Source):
    """A source of hosts over ssh; raises UsageError if there are none."""

    def __init__(
        self,
        hosts: Mapping[str, str | None],
        *,
        interval: float = _INTERVAL,
        config: str | None = None,
        gpudash: str | None = None,
        limits: SshLimits | None = None,
        pacing: Pacing | None = None,
        clock: Clock = boot_clock,
    ) -> None:
        """Read these hosts, each with its group; `config` is ssh's -F.

        `gpudash` is its path at the far ends if it is not on the PATH.
        """
        self._pacing, self._clock, self._config = pacing or Pacing(), clock, config
        self._is_swept = len(hosts) > self._pacing.streams
        self._capacity = self._pacing.swept if self._is_swept else self._pacing.streams
        script = ssh.collect_script(gpudash, "--json", "--compact", "--interval", f"{interval:g}")
        is_own_session = _has_terminal()
        self._hosts = [
            SshHost(
                name,
                group,
                ssh.ssh_command(name, script, config=config),
                interval=interval,
                limits=limits or SshLimits(),
                clock=clock,
                is_own_session=is_own_session,
            )
            for name, group in hosts.items()
        ]
        self._running: list[SshHost] = []
        self._order = count()
        self._waiting = [(host.due, next(self._order), host) for host in self._hosts]
        self._is_blocked = False
        self._retries = 0
        self._lookups: dict[SshHost, Output] = {}
        # This few handshakes are not too many for one jump host.
        few = len(self._hosts) <= self._pacing.per_jump
        self._looked_up: set[SshHost] = set(self._hosts) if few else set()
        names = ", ".join(list(hosts)[:3]) + (", ..." if len(hosts) > 3 else "")
        self._name = clean(names, _MAX_SHOWN)

    def descriptors(self) -> Iterable[int]:
        """Return descriptors that become readable when there is something to do."""
        for each in (*self._lookups.values(), *self._running):
            if (descriptor := each.descriptor) is not None:
                yield descriptor

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do, infinity for never."""
        times = [host.due_in() for host in self._running]
        if self._is_blocked or self._lookups:
            times.append(_BLOCKED_SECONDS)
        elif self._waiting and self._has_room():
            times.append(max(0.0, self._waiting[0][0] - self._clock()))
        return min(times, default=inf)

    def ask(self, request: FleetRequest) -> None:
        """Connect unconnected hosts, even those that refused the login; ssh knows no past."""
        if request.retries == self._retries:
            return
        self._retries = request.retries
        for host in self._hosts:
            host.retry()
        idle = [host for host in self._hosts if not (host.is_running or host in self._lookups)]
        self._waiting = [(host.due, next(self._order), host) for host in idle]
        heapq.heapify(self._waiting)

    def advance(self) -> None:
        """Read what has arrived, and start what is due."""
        ready = _readable(self.descriptors())
        self._advance_lookups()
        running = []
        for host in self._running:
            host.advance(is_ready=host.descriptor in ready)
            if self._is_swept and host.documents >= _SWEPT_DOCUMENTS:
                host.disconnect(host.started_at + self._pacing.sweep_seconds)
            if host.is_running:
                running.append(host)
            else:
                self._wait_for(host)
        self._running = running
        self._start_due()

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        hosts = tuple([host.read() for host in self._hosts])
        answering = sum(
            host.state == "ok" and found.state != "stale"
            for host, found in zip(self._hosts, hosts, strict=True)
        )
        ages = [host.age_seconds for host in hosts if host.age_seconds is not None]
        state: SourceState = "ok"
        if not answering:
            is_starting = any(host.state == "connecting" for host in hosts)
            state = "stale" if ages else "starting" if is_starting else "failed"
        report = FleetSource(
            kind="ssh",
            name=self._name,
            state=state,
            message=clean("no host answers") if state == "failed" else None,
            age_seconds=min(ages, default=None),
            answering_hosts=answering,
            expected_hosts=len(hosts),
        )
        return Reading(report=report, hosts=hosts)

    def close(self, wait_seconds: float = 0.0) -> None:
        """Kill every ssh; wait for their exits for at most `wait_seconds`."""
        for each in (*self._running, *self._lookups.values()):
            each.close()
        self._running, self._waiting = [], []
        self._lookups.clear()
        reap(wait_seconds)

    def _has_room(self) -> bool:
        return len(self._running) + len(self._lookups) < self._capacity

    def _wait_for(self, host: SshHost) -> None:
        if host.due < inf:
            heapq.heappush(self._waiting, (host.due, next(self._order), host))

    def _start_due(self) -> None:
        """Connect hosts that are due, within the limits."""
        now = self._clock()
        fresh = [
            host
            for host in self._running
            if not host.has_answered and now - host.started_at < self._pacing.handshake_seconds
        ]
        free = self._pacing.handshakes - len(fresh) - len(self._lookups)
        behind = Counter(host.jump for host in self._running if not host.has_answered)
        held_up = []
        while self._waiting and self._waiting[0][0] <= now and free > 0 and self._has_room():
            entry = heapq.heappop(self._waiting)
            host = entry[2]
            if host not in self._looked_up:
                self._look_up(host)
            elif host.jump is not None and behind[host.jump] >= self._pacing.per_jump:
                held_up.append(entry)
                continue
            else:
                behind[host.jump] += 1
                self._connect(host)
            free -= 1
        for entry in held_up:
            heapq.heappush(self._waiting, entry)
        self._is_blocked = bool(self._waiting) and self._waiting[0][0] <= now and self._has_room()

    def _connect(self, host: SshHost) -> None:
        host.connect()
        if host.is_running:
            self._running.append(host)
        else:
            self._wait_for(host)

    def _look_up(self, host: SshHost) -> None:
        """Ask ssh for a host's jump host."""
        self._looked_up.add(host)
        argv = ssh.config_command(host.name, config=self._config)
        lookup = Output(argv, self._pacing.lookup_seconds, _MAX_CONFIG_BYTES, self._clock)
        lookup.start()
        self._lookups[host] = lookup

    def _advance_lookups(self) -> None:
        for host, lookup in list(self._lookups.items()):
            lookup.advance()
            if not lookup.is_running:
                host.jump = jump_of(lookup.lines)
                del self._lookups[host]
                self._wait_for(host)


def _readable(descriptors: Iterable[int]) -> set[int | None]:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(0)}


def _has_terminal() -> bool:
    """Whether this process has a terminal where a child could ask for a password."""
    with suppress(OSError):
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY))
        return True
    return False
