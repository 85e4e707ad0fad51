"""One other host by ssh, read there for a local screen or command."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudash.cli.options import (
    DEFAULT_INTERVAL,
    DEFAULT_TIMEOUT,
    acknowledged,
    collector_command,
    gpu_selectors,
    refuse,
    settings,
)
from gpudash.model import wire
from gpudash.model.errors import UsageError, WireError

if TYPE_CHECKING:
    from gpudash.feed.live import LiveFeed
    from gpudash.model.snapshot import Snapshot

_OF_A_COLLECTOR_HERE = ("demo", "show_secrets", "pcie_throughput", "fresh", "compact")


class LineSource(NamedTuple):
    """A command that prints snapshots, and how its lines are decoded and kept."""

    argv: list[str]
    decode: Callable[[bytes], Snapshot | None]
    encode: Callable[[Snapshot], bytes] | None = None


def is_name(name: str) -> bool:
    """Whether ssh may be given this name."""
    from gpudash.fleet.names import check_host

    try:
        check_host(name)
    except UsageError:
        return False
    return True


def lines(options: argparse.Namespace) -> LineSource:
    """Return the source of this host's snapshots, or of that of --host."""
    if options.host:
        return of(options, options.host[0])
    return LineSource(collector_command(options), wire.decode)


def of(options: argparse.Namespace, host: str) -> LineSource:
    """Return the source of a host's snapshots; raises UsageError if ssh cannot be used."""
    from gpudash.analysis.health.engine import Diagnosis, marked
    from gpudash.analysis.selection import select
    from gpudash.fleet.ssh import decode_line, stream_command

    refuse(options, _OF_A_COLLECTOR_HERE, "--host: it is about what is read on this host")
    gpus, path = gpu_selectors(options), settings(options).fleet.remote

    known = acknowledged(options)
    diagnosis = Diagnosis(known)

    def decode(line: bytes) -> Snapshot | None:
        snapshot = decode_line(line)
        if snapshot is not None and snapshot.findings is None:
            # A host without gpudash has no findings of its own.
            snapshot = diagnosis.examine(snapshot)
        elif snapshot is not None and snapshot.findings:
            snapshot = marked(snapshot, known(), host)
        if snapshot is None or not gpus:
            return snapshot
        try:
            return select(snapshot, gpus)
        except UsageError as error:
            raise WireError(str(error)) from None

    argv = stream_command(host, config=options.ssh_config, gpudash=path)
    return LineSource(argv, decode, wire.encode)


def open_feed(options: argparse.Namespace, host: str, interval: float) -> LiveFeed[Snapshot]:
    """Return the feed of a host for its screen; raises UsageError like `of`."""
    from gpudash.feed.live import LiveFeed
    from gpudash.feed.protocol import RemoteHost
    from gpudash.fleet.source import boot_clock
    from gpudash.fleet.ssh import gpudash_command

    found, path = of(options, host), settings(options).fleet.remote

    def run(words: Sequence[str]) -> list[str]:
        return gpudash_command(host, *words, config=options.ssh_config, gpudash=path)

    # The only clock that runs on while a laptop sleeps, and the host does not.
    feed = LiveFeed(found.argv, interval, found.decode, encode=found.encode, clock=boot_clock)
    feed.remote = RemoteHost(host, run)
    return feed


class RemoteSource:
    """A source whose sample is a host's next one."""

    def __init__(self, options: argparse.Namespace, host: str) -> None:
        from gpudash.feed.sampler import Sampler

        found = of(options, host)
        self._host, self._decode = host, found.decode
        self._seconds: float = options.timeout or DEFAULT_TIMEOUT
        self._foreign = b""
        """The first foreign line."""
        self._sampler = Sampler(
            found.argv,
            interval=DEFAULT_INTERVAL,
            keep=1,
            decode=self._decoded,
            allow_empty=True,
            answer_seconds=self._seconds,
        )

    def sample(self) -> Snapshot:
        """Return the host's state; raises GpudashError with ssh's message if it fails."""
        from gpudash.feed.sampler import SilenceError

        try:
            self._sampler.next_sample()
            return self._sampler.samples[-1]
        except SilenceError:
            raise SilenceError(self._silence) from None
        finally:
            self._sampler.close()

    @property
    def _silence(self) -> str:
        """Why there is no sample, worded as for one of many hosts."""
        from gpudash.fleet.ssh import answer_text
        from gpudash.model.host_words import HOST_STATES

        if self._foreign:
            return f"{self._host} {HOST_STATES['garbled'].sentence}: {answer_text(self._foreign)}"
        words = HOST_STATES["connecting"].sentence
        return f"{self._host} {words} after {self._seconds:g} s"

    def _decoded(self, line: bytes) -> Snapshot | None:
        from gpudash.fleet.ssh import HELLO

        snapshot = self._decode(line)
        if snapshot is None and line.strip() and not line.startswith(HELLO):
            self._foreign = self._foreign or line
        return snapshot

    def close(self) -> None:
        """Do nothing: ssh ended with the sample."""
