"""What Slurm knows: which job of whom has which GPUs of which node, and which nodes are drained.

`squeue` lists whose jobs run, `scontrol` the GPUs by index and the nodes. Names of jobs come from
their users, so no other field is read from behind one; a line that cannot be read costs no other.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.feed.collector import CollectorProcess, spawn
from gpudash.fleet.names import MAX_SLURM_BYTES, expand
from gpudash.fleet.source import Reading
from gpudash.model.device import device_label
from gpudash.model.errors import UsageError
from gpudash.model.fleet import (
    FleetDevice,
    FleetHost,
    FleetJob,
    FleetRequest,
    FleetSource,
    SourceState,
)
from gpudash.model.text import NAME_BYTES, SafeText, clean, clean_bytes

_FIELDS = "%A|%i|%u|%a|%P|%T|%M|%l|%N|%j"
"""Job, job as shown, user, account, partition, state, time, its limit, nodes; the name is last."""
COMMANDS: Mapping[str, Sequence[str]] = {
    "queue": (
        *("squeue", "--noheader", "--all", "--states=RUNNING,SUSPENDED,COMPLETING"),
        f"--format={_FIELDS}",
    ),
    "jobs": ("scontrol", "show", "job", "-d", "--oneliner"),
    "nodes": ("scontrol", "show", "node", "--oneliner"),
}
"""What is run, one after the other, each of it one request to the controller."""

_INTERVAL, _DEADLINE, _EXIT_SECONDS = 60.0, 20.0, 1.0
_KEPT_SECONDS = 3 * _INTERVAL
"""How long an answer stands while there is no other: jobs end and their GPUs are given on."""
_MAX_NODE_LINE = 1 << 14
_MAX_INDEX = 1 << 10

_NODES = re.compile(r"[A-Za-z0-9_.,\[\]-]{1,65536}")
_ALLOCATION = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S+)")
_INDICES = re.compile(r"gpu(?::[^:(),]+)?:[0-9]+\(IDX:([0-9,-]+)\)")
_GRES = re.compile(r"(?:^|,)gpu(?::([^:(),]+))?:([0-9]{1,4})(?=[(,]|$)")
_MIG = re.compile(r"[0-9]+g\.[0-9]+gb", re.IGNORECASE)
_FIELD = r"(?:^| ){}=(\S+)"
_REASON = re.compile(r" Reason=(.+?)(?: \[[^\[\]]*@[^\[\]]*\].*)?$")
_SPAN = re.compile(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,4}):)?([0-9]{1,2}):([0-9]{2})")
_CLOSED = ("DRAIN", "DOWN", "FAIL", "MAINT", "NOT_RESPONDING", "POWERED_DOWN")


_KNOWN = {
    "queue": re.compile(rb" *[0-9]+ *(?:\|[^|]*){8}\|"),
    "jobs": re.compile(rb"JobId=[0-9]{1,18} |No jobs in the system"),
    "nodes": re.compile(rb"NodeName=\S+ |No nodes in the system"),
}
"""How a line begins that a command prints."""
_SHOWN = 60


class Allocation(NamedTuple):
    """GPUs of a node that a job has."""

    job: str
    """Its number, by which `squeue` has the rest."""
    nodes: str
    gres: str


_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/usr/local/etc/slurm.conf",
)


def is_here() -> bool:
    """Whether this machine belongs to a Slurm: it has the commands, and they are configured."""
    if any(shutil.which(argv[0]) is None for argv in COMMANDS.values()):
        return False
    if not {"SLURM_CONF", "SLURM_CONF_SERVER"}.isdisjoint(os.environ):
        return True
    return any(os.path.exists(path) for path in _CONFIGURATIONS)


def parse(
    queue: Iterable[bytes], jobs: Iterable[bytes], nodes: Iterable[bytes]
) -> tuple[tuple[FleetHost, ...], tuple[FleetJob, ...]]:
    """Return nodes, with the GPUs that jobs have, and jobs with GPUs by what `COMMANDS` print."""
    known = {number: (job, where) for number, job, where in map(_job, queue) if job is not None}
    hosts: dict[str, FleetHost]
    hosts = {host.name: host for host in map(_node, nodes) if host is not None}
    divided = {name for name, host in hosts.items() if host.expected_devices is None}
    given: dict[str, dict[int, FleetDevice]] = {}
    found: dict[str, FleetJob] = {}
    for allocation in (each for line in jobs for each in _allocations(line)):
        job, own = known.get(allocation.job, (None, frozenset[str]()))
        if job is None:
            continue
        indices = _indices(allocation.gres)
        # A user can name a job like an allocation, but not have it run on other nodes.
        names = [name for name in _expand(allocation.nodes) if name in own]
        if not indices or not names:
            continue
        previous = found.get(allocation.job, job)
        found[allocation.job] = replace(
            previous,
            hosts=tuple(dict.fromkeys([*previous.hosts, *map(SafeText, names)])),
            devices=previous.devices + len(indices) * len(names),
        )
        users = () if job.user is None else (job.user,)
        for name in names:
            # Indices of MIG instances are not those of GPUs.
            if name not in divided:
                devices = given.setdefault(name, {})
                for index in indices:
                    devices[index] = FleetDevice(
                        index=index, label=device_label(index), job=job.id, users=users
                    )
    for name, devices in given.items():
        host = hosts.get(name) or FleetHost(name=SafeText(name))
        hosts[name] = replace(host, devices=tuple(devices[index] for index in sorted(devices)))
    return tuple(hosts.values()), tuple(found.values())


def _unreadable(name: str, lines: Iterable[bytes]) -> str | None:
    """Return what is wrong with all that a command of `COMMANDS` has printed, None for nothing.

    One line that is as expected will do: others may be those of a name with a line break.
    """
    printed = [line for line in lines if line.strip()]
    if any(_KNOWN[name].match(line) for line in printed):
        return None
    if printed:
        return f"not what Slurm prints: '{clean_bytes(printed[0], _SHOWN)}'"
    # It says so where there are none.
    return "printed nothing" if name == "nodes" else None


def _job(line: bytes) -> tuple[str, FleetJob | None, frozenset[str]]:
    """Return a running job of `squeue`, its number and its nodes."""
    parts = line.decode(errors="replace").split("|", 9)
    if len(parts) < 10 or not parts[0].strip().isdecimal():
        return "", None, frozenset()
    number, shown, user, account, partition, state, elapsed, limit, nodes, name = (
        part.strip() for part in parts
    )
    job = FleetJob(
        id=clean(shown, NAME_BYTES),
        name=clean(name, NAME_BYTES),
        user=_known(user),
        account=_known(account),
        partition=_known(partition),
        state=_known(state),
        elapsed_seconds=_seconds(elapsed),
        limit_seconds=_seconds(limit),
    )
    return number, job, frozenset(_expand(nodes))


def _allocations(line: bytes) -> Iterator[Allocation]:
    """Yield the GPUs of a job of `scontrol show job -d` by node."""
    text = line.decode(errors="replace")
    number = re.match(r"JobId=([0-9]{1,18}) ", text)
    if number is not None:
        for match in _ALLOCATION.finditer(text):
            yield Allocation(number[1], match[1], match[2])


def _node(line: bytes) -> FleetHost | None:
    """Return a node of `scontrol show node`; None for one without GPUs and for no node."""
    text = line[:_MAX_NODE_LINE].decode(errors="replace").rstrip()
    name = re.match(r"NodeName=(\S+) ", text)
    if name is None:
        return None
    gres = _field(text, "Gres")
    counts = _GRES.findall(gres or "")
    if not counts:
        return None
    states = re.split(r"[+*~#!%$@^-]", _field(text, "State") or "")
    closed = [word for word in states if word.startswith(_CLOSED)]
    reason = _REASON.search(text)
    why = (
        clean(reason[1].strip() if reason is not None else closed[0], NAME_BYTES)
        if closed
        else None
    )
    is_divided = any(_MIG.search(kind) for kind, _ in counts)
    partitions = _field(text, "Partitions")
    return FleetHost(
        name=clean(name[1], NAME_BYTES),
        group=None if partitions is None else clean(partitions.partition(",")[0], NAME_BYTES),
        expected_devices=None if is_divided else sum(int(count) for _, count in counts),
        drain_reason=why,
    )


def _field(text: str, name: str) -> str | None:
    match = re.search(_FIELD.format(re.escape(name)), text)
    return None if match is None or match[1] in ("(null)", "N/A") else match[1]


def _known(text: str) -> SafeText | None:
    return None if text in ("", "(null)", "N/A", "n/a") else clean(text, NAME_BYTES)


def _indices(gres: str) -> list[int]:
    """Return the GPUs of `gpu:h100:3(IDX:0-1,5)`."""
    found: set[int] = set()
    for text in _INDICES.findall(gres):
        for part in text.split(","):
            first, _, last = part.partition("-")
            if (
                first.isdecimal()
                and (last or first).isdecimal()
                and int(last or first) < _MAX_INDEX
            ):
                found.update(range(int(first), int(last or first) + 1))
    return sorted(found)


def _expand(nodes: str) -> list[str]:
    """Return the names of `gpu[01-02],lab7`, none for anything else."""
    if not _NODES.fullmatch(nodes):
        return []
    try:
        return list(expand([nodes]))
    except UsageError:
        return []


def _seconds(text: str) -> float | None:
    """Return the seconds of `1-02:03:04`, `02:03` or `3:02:03`; None for UNLIMITED."""
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


class SlurmSource:
    """A `Source` that knows about hosts of others; it asks Slurm every minute.

    While Slurm fails, its last answer is given for three minutes, and then nothing.
    """

    def __init__(
        self,
        commands: Mapping[str, Sequence[str]] = COMMANDS,
        *,
        deadline: float = _DEADLINE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._commands, self._deadline, self._clock = commands, deadline, clock
        self._due = clock()
        self._process: CollectorProcess | None = None
        self._started_at = 0.0
        self._ended_at: float | None = None
        self._left: list[str] = []
        self._size = 0
        self._lines: dict[str, list[bytes]] = {}
        self._read_at: float | None = None
        self._message: SafeText | None = None
        self._hosts: tuple[FleetHost, ...] = ()
        self._jobs: tuple[FleetJob, ...] = ()
        self._is_past = False

    def descriptors(self) -> Iterable[int]:
        """Return what can be read when there is something to do."""
        return (
            ()
            if self._process is None or self._ended_at is not None
            else (self._process.descriptor,)
        )

    def due_in(self) -> float:
        """Return after how many seconds `advance` has something to do."""
        if self._process is None:
            return max(0.0, self._due - self._clock())
        if self._ended_at is not None:
            return 0.02
        return max(0.0, self._started_at + self._deadline - self._clock())

    def ask(self, request: FleetRequest) -> None:
        """Note whether the present is shown: nothing is known of the past."""
        self._is_past = request.at is not None

    def advance(self) -> None:
        """Read what has arrived, start what is due."""
        if self._process is not None:
            self._watch(self._process)
        elif self._clock() >= self._due:
            self._left, self._lines, self._size = list(self._commands), {}, 0
            self._start()

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        age = None if self._read_at is None else self._clock() - self._read_at
        is_over = age is None or age > _KEPT_SECONDS
        is_failing = self._message is not None
        state: SourceState = "starting" if age is None else "ok"
        if is_failing:
            state = "failed" if is_over else "stale"
        report = FleetSource(
            kind="slurm",
            name=SafeText("scontrol"),
            state=state,
            message=self._message,
            age_seconds=age,
            answering_hosts=0 if is_over else len(self._hosts),
        )
        if self._is_past or age is None or is_over:
            return Reading(report=report)
        # Nobody knows whether they still run while Slurm does not say so.
        since = 0.0 if is_failing else age
        jobs = [
            replace(job, elapsed_seconds=job.elapsed_seconds + since)
            if job.elapsed_seconds is not None and job.state == "RUNNING"
            else job
            for job in self._jobs
        ]
        return Reading(report=report, hosts=self._hosts, jobs=tuple(jobs))

    def close(self, wait_seconds: float = 0.0) -> None:
        """End what runs, without waiting for its death."""
        process, self._process = self._process, None
        self._due = inf
        if process is not None:
            process.abandon()

    def _start(self) -> None:
        """Start the next command; a shell's locale changes nothing in what it prints."""
        name = self._left[0]
        self._started_at, self._ended_at = self._clock(), None
        try:
            self._process = spawn(self._commands[name], {"LC_ALL": "C"}, MAX_SLURM_BYTES)
        except OSError as error:
            self._fail(f"{self._commands[name][0]} cannot be started: {error.strerror}")

    def _watch(self, process: CollectorProcess) -> None:
        now = self._clock()
        if self._ended_at is None:
            lines, has_ended = process.read()
            self._lines.setdefault(self._left[0], []).extend(lines)
            self._size += sum(map(len, lines))
            if has_ended:
                self._ended_at = now
        if self._size > MAX_SLURM_BYTES or process.take_oversized():
            self._fail(f"{self._left[0]}: more than {MAX_SLURM_BYTES >> 20} MiB")
        elif now - self._started_at >= self._deadline:
            self._fail(f"{self._commands[self._left[0]][0]}: no answer for {self._deadline:.0f} s")
        elif self._ended_at is not None:
            status = process.status()
            if status == 0:
                self._finish(process)
            elif status is not None or now - self._ended_at >= _EXIT_SECONDS:
                process.read_errors()
                why = process.last_error or f"exit status {status}"
                self._fail(f"{self._commands[self._left[0]][0]}: {why}")

    def _finish(self, process: CollectorProcess) -> None:
        """Take what a command has printed, and start the next or read them all."""
        name = self._left[0]
        lines = self._lines[name]
        lines.append(process.rest)
        why = _unreadable(name, lines)
        if why is not None:
            self._fail(f"{self._commands[name][0]}: {why}")
            return
        process.abandon()
        self._process = None
        del self._left[0]
        if self._left:
            self._start()
            return
        self._hosts, self._jobs = parse(*(self._lines[each] for each in ("queue", "jobs", "nodes")))
        self._lines = {}
        self._read_at, self._message = self._clock(), None
        self._due = self._clock() + _INTERVAL

    def _fail(self, message: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.abandon()
        self._message = clean(message)
        self._lines = {}
        self._due = self._clock() + _INTERVAL
