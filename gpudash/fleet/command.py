"""Hosts from commands that are run at intervals, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf

from msgspec.structs import replace

from gpudash.feed.supervisor import Output
from gpudash.fleet.source import Clock, Reading, Source, boot_clock
from gpudash.model.errors import WireError
from gpudash.model.fleet import (
    FleetHost,
    FleetJob,
    FleetRequest,
    FleetSource,
    SourceState,
)
from gpudash.model.text import SafeText, clean

_INTERVAL, _DEADLINE = 60.0, 20.0
_KEPT_INTERVALS = 3
"""How long an answer is kept without a newer one: jobs end, and their GPUs go to others."""


class CommandSource(Source):
    """A source whose commands print all that it knows.

    While they fail, the last answer is kept for three intervals, and then dropped.
    """

    def __init__(
        self,
        kind: str,
        commands: Sequence[Sequence[str]],
        parse: Callable[..., tuple[Iterable[FleetHost], Iterable[FleetJob]]],
        *,
        interval: float = _INTERVAL,
        deadline: float = _DEADLINE,
        clock: Clock = boot_clock,
    ) -> None:
        """Run the commands every `interval` seconds, each for at most `deadline` seconds.

        `parse` takes the output lines of each command, and raises WireError for unknown output.
        """
        self._kind, self._commands, self._parse = kind, commands, parse
        self._interval, self._deadline, self._clock = interval, deadline, clock
        self._due = clock()
        self._run: Output | None = None
        self._printed: list[list[bytes]] = []
        self._read_at: float | None = None
        self._message: SafeText | None = None
        self._hosts: tuple[FleetHost, ...] = ()
        self._jobs: tuple[FleetJob, ...] = ()
        self._is_past = False

    def descriptors(self) -> Iterable[int]:
        """Return descriptors that become readable when there is something to do."""
        descriptor = None if self._run is None else self._run.descriptor
        return () if descriptor is None else (descriptor,)

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do."""
        return max(0.0, self._due - self._clock()) if self._run is None else self._run.due_in()

    def ask(self, request: FleetRequest) -> None:
        """Note whether the present is shown: the past is unknown."""
        self._is_past = request.at is not None

    def advance(self) -> None:
        """Read what has arrived, and start what is due."""
        run = self._run
        if run is None:
            if self._clock() >= self._due:
                self._printed = []
                self._start()
            return
        run.advance()
        if run.failure is not None:
            self._finish(f"{self._command[0]}: {run.failure}")
        elif not run.is_running:
            self._printed.append(run.lines)
            if len(self._printed) < len(self._commands):
                self._start()
            else:
                self._take()

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        age = None if self._read_at is None else self._clock() - self._read_at
        is_over = age is None or age > _KEPT_INTERVALS * self._interval
        is_failing = self._message is not None
        state: SourceState = "starting" if age is None else "ok"
        if is_failing:
            state = "failed" if is_over else "stale"
        report = FleetSource(
            kind=self._kind,
            name=SafeText(self._commands[-1][0]),
            state=state,
            message=self._message,
            age_seconds=age,
            answering_hosts=0 if is_over or self._is_past else len(self._hosts),
        )
        if self._is_past or age is None or is_over:
            return Reading(report=report)
        # While the command fails, it is unknown whether they still run.
        since = 0.0 if is_failing else age
        jobs = [
            replace(job, elapsed_seconds=job.elapsed_seconds + since)
            if job.elapsed_seconds is not None and job.state == "RUNNING"
            else job
            for job in self._jobs
        ]
        hosts = [replace(host, age_seconds=age) for host in self._hosts]
        return Reading(report=report, hosts=tuple(hosts), jobs=tuple(jobs))

    def close(self, wait_seconds: float = 0.0) -> None:
        """Kill running commands; wait for at most `wait_seconds`."""
        run, self._run = self._run, None
        self._due = inf
        if run is not None:
            run.close(wait_seconds)

    @property
    def _command(self) -> Sequence[str]:
        return self._commands[len(self._printed)]

    def _start(self) -> None:
        self._run = Output(self._command, self._deadline, clock=self._clock)
        self._run.start()

    def _take(self) -> None:
        """Read the whole output of the commands."""
        try:
            hosts, jobs = self._parse(*self._printed)
        except WireError as error:
            self._finish(str(error))
            return
        self._hosts, self._jobs, self._read_at = tuple(hosts), tuple(jobs), self._clock()
        self._finish(None)

    def _finish(self, problem: str | None) -> None:
        self._message = None if problem is None else clean(problem)
        self._run, self._printed = None, []
        self._due = self._clock() + self._interval
