"""`gpudash --json`: one document per line, until its reader is gone."""

from __future__ import annotations

import argparse
import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, NoReturn

from gpudash.cli.options import DEFAULT_INTERVAL, acknowledged, gpu_selectors, may_acknowledge
from gpudash.cli.signals import NotedSignals, exit_on_signals
from gpudash.feed import collector
from gpudash.model.errors import UsageError, WireError
from gpudash.system import fork, terminal
from gpudash.system.imports import import_msgspec

if TYPE_CHECKING:
    from gpudash.analysis.health.acknowledged import InForce
    from gpudash.analysis.health.engine import Diagnosis
    from gpudash.collect.source import HostReader
    from gpudash.feed import attached
    from gpudash.model.snapshot import Snapshot

_SECOND_SAMPLE_SECONDS = 1.0
_WAIT_SECONDS = 1.0

STALL_SECONDS = 60.0
"""After this long without progress, the other end has given up a link."""

_OWN = ("fresh", "demo", "show_secrets", "pcie_throughput")
"""Options for which the driver is read here, even if a service reads it."""

_ATTACH_AGAIN_SECONDS = 10.0
"""After a service ended, or was too slow, until one is looked for again."""
_IS_PARTIAL = b'"holders_complete":false'
_HAS_FINDINGS = b'"findings":[{'

_COLLECTOR_NAME = "nvml-collector"
"""The process name of a screen's collector in `ps`: `pkill gpudash` should hit the screen."""


def run(options: argparse.Namespace) -> int:
    """Print a line per interval, as `gpudash --json` or as the collector of another gpudash."""
    interval = options.interval or DEFAULT_INTERVAL
    if options.host:
        with alerts(options) as observe:
            _relay(options, interval, observe)
    controller = os.getppid() if collector.is_controlled(os.environ) else None
    with alerts(options) as observe:
        return collect(options, interval, controller=controller, observe=observe)


def _relay(
    options: argparse.Namespace, interval: float, observe: Callable[[Snapshot], None] | None
) -> NoReturn:
    """Print the lines of another host, and errors on stderr; ends like `collect`."""
    from gpudash.cli.remote import lines
    from gpudash.feed.sampler import LineStream

    found, problem = lines(options), ""
    exit_on_signals()
    with closing(LineStream(found.argv, interval, found.decode, encode=found.encode)) as stream:
        while True:
            stream.wait(_WAIT_SECONDS)
            for sample in stream.take():
                terminal.write(sample.line + b"\n")
                if observe is not None:
                    observe(sample.snapshot)
            if stream.problem != problem:
                problem = stream.problem
                terminal.write_message(f"gpudash: {problem or 'samples again'}\n")


@contextmanager
def alerts(options: argparse.Namespace) -> Iterator[Callable[[Snapshot], None] | None]:
    """Yield the function that runs --on-finding's command per new snapshot; None without one.

    Raises UsageError for --level without it.
    """
    if options.on_finding is None:
        if options.level is not None:
            raise UsageError("--level goes with --on-finding CMD")
        yield None
        return
    from gpudash.actions.alerts import FindingCommand

    command = FindingCommand(options.on_finding, options.level or "warn")
    try:
        yield command.observe
    finally:
        command.close()


def collect(
    options: argparse.Namespace,
    interval: float,
    *,
    controller: int | None,
    brief_first: bool = False,
    observe: Callable[[Snapshot], None] | None = None,
) -> NoReturn:
    """Print a snapshot every `interval` seconds; ends by ReaderGoneError or a signal.

    `controller` is the PID of the gpudash that started this one, if any: lines on stdin then change
    the interval, and its end is the end of this process. With `brief_first`, a brief snapshot
    precedes the first. `observe` is called with each one. SIGUSR1 releases the GPUs until the next
    SIGUSR1, so that they can be reset. Raises DriverError if the driver cannot be opened or
    released.
    """
    terminal.keep_for_ourselves()
    fork.end_loudly()
    if controller is not None:
        fork.end_with_parent(controller)
        fork.set_process_name(_COLLECTOR_NAME)
        if collector.is_far_end(os.environ):
            terminal.give_up_after(STALL_SECONDS)
    noted = NotedSignals(ends=False)
    reader = collector.ControlReader(interval, None if controller is None else 0)
    service = _Service(options, is_allowed=observe is None, is_controlled=controller is not None)
    service.forward(reader, noted)
    # Slow imports come after this: if the parent ends meanwhile, this process ends too.
    samples = _Samples(options, observe)
    due = time.monotonic()
    if brief_first:
        samples.print(brief=True)
    samples.print()
    gc.freeze()
    gc.enable()
    # Rates need two samples: the second comes soon, however long the interval.
    longest = _SECOND_SAMPLE_SECONDS
    while True:
        due = _wait(due, reader, noted, longest)
        longest = inf
        if noted.is_released:
            samples.source.close()
            _wait_for_resume(noted)
        service.forward(reader, noted, samples.source.close)
        samples.print()


def _wait_for_resume(noted: NotedSignals) -> None:
    while noted.is_released:
        terminal.wait(None, noted.descriptor)
        noted.drain()


class _Service:
    """The lines of `gpudash serve`, as long as there is one on this machine that may be used."""

    def __init__(
        self, options: argparse.Namespace, *, is_allowed: bool, is_controlled: bool
    ) -> None:
        self._is_controlled = is_controlled
        self._is_allowed = is_allowed and not any(getattr(options, name) for name in _OWN)
        self._due = 0.0
        self._gpus = options.gpu and gpu_selectors(options)
        self._is_compact = options.compact
        self._options = options

    @cached_property
    def _acknowledged(self) -> Callable[[], InForce]:
        return acknowledged(self._options)

    def forward(
        self,
        reader: collector.ControlReader,
        noted: NotedSignals,
        before: Callable[[], None] | None = None,
    ) -> None:
        """Print its lines until they end; `before` is called first if there are any.

        If there was no service a moment ago, none is looked for.
        """
        if not self._is_allowed or time.monotonic() < self._due:
            return
        while path := collector.service_socket():
            # Without a socket, this import is saved.
            from gpudash.feed.attached import attach

            if (found := attach(path, reader.seconds)) is None:
                break
            service, lines = found
            if before is not None:
                before()
            with closing(service):
                self._print(service, lines, reader, noted)
            if not noted.is_released:
                break
            _wait_for_resume(noted)
        self._due = time.monotonic() + _ATTACH_AGAIN_SECONDS

    def _print(
        self,
        service: attached.Service,
        lines: list[bytes],
        reader: collector.ControlReader,
        noted: NotedSignals,
    ) -> None:
        gc.freeze()
        gc.enable()
        was_released = False
        while not noted.is_released:
            for line in lines:
                if line == collector.RELEASED and not self._is_controlled:
                    if not was_released:
                        terminal.write_message(f"gpudash: {collector.RELEASED_TEXT}\n")
                    was_released = True
                    continue
                was_released = False
                try:
                    adapted = self._adapted(line)
                except WireError:
                    return
                terminal.write(adapted + b"\n")
            if service.has_ended:
                return
            terminal.wait(service.due_in(), noted.descriptor, reader.descriptor, service.descriptor)
            noted.drain()
            if reader.read():
                service.ask(reader.seconds)
            lines = service.take()

    def _adapted(self, line: bytes) -> bytes:
        """Return the line, decoded only if something in it must change."""
        if line == collector.RELEASED:
            return line
        is_marked = _HAS_FINDINGS in line and may_acknowledge(self._options)
        is_partial = _IS_PARTIAL in line
        if not (is_marked or is_partial or self._gpus or self._is_compact):
            return line
        import_msgspec()
        from gpudash.analysis.health.engine import marked
        from gpudash.analysis.selection import select
        from gpudash.model import wire

        snapshot = wire.decode(line)
        if is_partial:
            snapshot = self._completed(snapshot)
        if is_marked:
            snapshot = marked(snapshot, self._acknowledged(), snapshot.host.hostname)
        snapshot = select(snapshot, self._gpus or ())
        return (wire.encode_compact if self._is_compact else wire.encode)(snapshot)

    def _completed(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot with holders of memory that we can see and the service cannot.

        A process's open files are visible to its owner; findings about them are recomputed.
        """
        from msgspec.structs import replace

        from gpudash.collect.local import abandoned, explain_memory

        processes = snapshot.processes
        listed = [process.pid for process in processes]
        devices, holders = explain_memory(
            snapshot.devices, listed, snapshot.host, self._reader, abandoned=abandoned(processes)
        )
        if {each.pid for each in holders} <= {each.pid for each in snapshot.holders}:
            return snapshot
        return self._diagnosis.examine(replace(snapshot, devices=devices, holders=holders))

    @cached_property
    def _reader(self) -> HostReader:
        from gpudash.collect.host import LinuxReader

        return LinuxReader()

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        from gpudash.analysis.health.engine import Diagnosis

        return Diagnosis()


class _Samples:
    """The samples of the host with their findings, a line each."""

    def __init__(
        self, options: argparse.Namespace, observe: Callable[[Snapshot], None] | None
    ) -> None:
        import_msgspec()
        from gpudash.collect.local import open_source

        self._gpus = gpu_selectors(options)
        self._observe = observe
        self._acknowledged = acknowledged(options)
        self._is_compact = options.compact
        self.source = open_source(
            options.demo,
            show_secrets=options.show_secrets,
            pcie_throughput=options.pcie_throughput,
            rests_on_mains=collector.is_of_service(os.environ),
        )

    def print(self, *, brief: bool = False) -> None:
        """Print the host's present state; raises like `collect`."""
        from gpudash.analysis.selection import select
        from gpudash.model import wire

        sample = self.source.sample(brief=brief)
        snapshot = select(sample if brief else self._diagnosis.examine(sample), self._gpus)
        encode = wire.encode_compact if self._is_compact else wire.encode
        terminal.write(encode(snapshot) + b"\n")
        if self._observe is not None:
            self._observe(snapshot)

    @cached_property
    def _diagnosis(self) -> Diagnosis:
        # A brief sample is printed before the rules are imported.
        from gpudash.analysis.health.engine import Diagnosis

        return Diagnosis(self._acknowledged)


def _wait(
    last: float, interval: collector.ControlReader, noted: NotedSignals, longest: float
) -> float:
    """Wait until a sample is due, or the GPUs must be released; return when it is due.

    Missed ticks are skipped, so that a stall is not followed by a burst.
    """
    due = max(last + min(interval.seconds, longest), time.monotonic())
    while (left := due - time.monotonic()) > 0 and not noted.is_released:
        terminal.wait(left, noted.descriptor, interval.descriptor)
        noted.drain()
        if interval.read():
            due = max(last + min(interval.seconds, longest), time.monotonic())
    return due
