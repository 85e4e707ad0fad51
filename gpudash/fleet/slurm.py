"""Data from Slurm: which job of which user has which GPUs, and which nodes are drained.

`squeue` lists the users of jobs, `scontrol` the GPUs by index and the nodes. Users choose names of
jobs, so no field after a name is read; an unreadable line affects no other.
"""

from __future__ import annotations

import os
import re
import shutil
from argparse import Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.feed.supervisor import Output
from gpudash.fleet.command import CommandSource
from gpudash.fleet.names import expand, short
from gpudash.model.device import device_label
from gpudash.model.errors import UsageError, WireError
from gpudash.model.fleet import FleetDevice, FleetHost, FleetJob
from gpudash.model.text import NAME_BYTES, SafeText, clean, clean_bytes

_FIELDS = "%A|%i|%u|%a|%P|%T|%M|%l|%N|%j"
"""Job, job as shown, user, account, partition, state, time, its limit, nodes; the name is last."""
COMMANDS: Sequence[Sequence[str]] = (
    (
        *("squeue", "--noheader", "--all", "--states=RUNNING,SUSPENDED,COMPLETING"),
        f"--format={_FIELDS}",
    ),
    ("scontrol", "show", "job", "-d", "--oneliner"),
    ("scontrol", "show", "node", "--oneliner"),
)
"""The commands, run one after the other, each a single request to the controller."""

_MAX_NODE_LINE = 1 << 14
_MAX_INDEX = 1 << 10

_NODES = re.compile(r"[A-Za-z0-9_.,\[\]-]{1,65536}")
_ALLOCATION = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\S* GRES=(\S+)")
_INDICES = re.compile(r"(?:gpu|shard|mps)(?::[^:(),]+)?:[0-9]+\(IDX:([0-9,-]+)\)")
_GRES = re.compile(r"(?:^|,)gpu((?::[^:(),]+)*?):([0-9]{1,4})(?=[(,]|$)")
_MIG = re.compile(r"[0-9]+g\.[0-9]+gb", re.IGNORECASE)
_FIELD = r"(?:^| ){}=(\S+)"
_REASON = re.compile(r" Reason=(.+?)(?: \[([^\[\]@]*)@([^\[\]]*)\].*)?$")
_SPAN = re.compile(r"(?:([0-9]{1,5})-)?(?:([0-9]{1,4}):)?([0-9]{1,2}):([0-9]{2})")
_CLOSED = ("DRAIN", "DOWN", "FAIL", "MAINT", "NOT_RESPONDING")

_KNOWN = (
    re.compile(rb" *[0-9]+ *(?:\|[^|]*){8}\|"),
    re.compile(rb"JobId=[0-9]{1,18} |No jobs in the system"),
    re.compile(rb"NodeName=\S+ |No nodes in the system"),
)
"""How valid output lines begin."""
_SHOWN = 60


_ACCOUNTS = (
    *("sacct", "--noheader", "--parsable2", "--allusers", "--allocations"),
    "--format=JobIDRaw,JobID,User",
)
_RUNNING = (*COMMANDS[0][:-1], "--format=%A|%i|%u")
"""Both print a job, the job as shown and its user, but no names, which users choose."""
_OWNER_FIELDS, _OWNERS_SECONDS = 3, 20.0


class Allocation(NamedTuple):
    """A job's GPUs on a node."""

    job: str
    """Its number, the key of its data from `squeue`."""
    nodes: str
    gres: str


_CONFIGURATIONS = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/run/slurm/conf/slurm.conf",
    "/usr/local/etc/slurm.conf",
)


def opened(options: Namespace, _settings: object) -> Iterator[CommandSource]:
    """Yield the source if there is a Slurm, which never knows simulated hosts."""
    if options.demo is None and is_here():
        yield CommandSource("slurm", COMMANDS, read)


def owners(since: datetime) -> dict[str, SafeText]:
    """Wait for and return the owners of jobs that ran since then.

    Only accounting, if available, knows those of ended jobs.
    """
    if not is_here():
        return {}
    accounts = [*_ACCOUNTS, f"--starttime={since.astimezone():%Y-%m-%dT%H:%M:%S}"]
    found: dict[str, SafeText] = {}
    for argv in (accounts, _RUNNING):
        output = Output(argv, _OWNERS_SECONDS)
        output.run()
        for line in output.lines:
            fields = [clean_bytes(each.strip(), NAME_BYTES) for each in line.split(b"|")]
            if len(fields) == _OWNER_FIELDS and fields[-1]:
                found |= dict.fromkeys(fields[:-1], fields[-1])
    return found


def is_here() -> bool:
    """Whether this machine belongs to a Slurm: the commands exist and are configured."""
    if any(shutil.which(argv[0]) is None for argv in COMMANDS):
        return False
    if not {"SLURM_CONF", "SLURM_CONF_SERVER"}.isdisjoint(os.environ):
        return True
    return any(os.path.exists(path) for path in _CONFIGURATIONS)


def read(
    queue: Sequence[bytes], jobs: Sequence[bytes], nodes: Sequence[bytes]
) -> tuple[tuple[FleetHost, ...], tuple[FleetJob, ...]]:
    """Return the result of `parse`; raises WireError for a command with unknown output.

    One valid line suffices: others may come from a name with a line break.
    """
    outputs = (queue, jobs, nodes)
    for argv, known, output in zip(COMMANDS, _KNOWN, outputs, strict=True):
        printed = [line for line in output if line.strip()]
        if printed and not any(known.match(line) for line in printed):
            shown = clean_bytes(printed[0], _SHOWN)
            raise WireError(f"{argv[0]}: not what Slurm prints: '{shown}'")
    if not any(line.strip() for line in nodes):
        # With no nodes, it says so.
        raise WireError(f"{COMMANDS[-1][0]}: printed nothing")
    return parse(*outputs)


def parse(
    queue: Iterable[bytes], jobs: Iterable[bytes], nodes: Iterable[bytes]
) -> tuple[tuple[FleetHost, ...], tuple[FleetJob, ...]]:
    """Return nodes with the GPUs of jobs, and jobs with GPUs, from the output of `COMMANDS`."""
    known = {number: (job, where) for number, job, where in map(_job, queue) if job is not None}
    hosts: dict[str, FleetHost]
    hosts = {host.node_name or host.name: host for host in _unique(map(_node, nodes))}
    divided = {name for name, host in hosts.items() if host.expected_devices is None}
    given: dict[str, dict[int, FleetDevice]] = {}
    found: dict[str, FleetJob] = {}
    for allocation in (each for line in jobs for each in _allocations(line)):
        job, own = known.get(allocation.job, (None, frozenset[str]()))
        if job is None:
            continue
        indices = _indices(allocation.gres)
        # A user can name a job like an allocation, but not make it run on other nodes.
        names = [name for name in _expand(allocation.nodes) if name in own]
        if not indices or not names:
            continue
        previous = found.get(allocation.job, job)
        found[allocation.job] = replace(
            previous,
            hosts=tuple(dict.fromkeys([*previous.hosts, *(_host(hosts, each) for each in names)])),
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
        number=None if number == shown else clean(number, NAME_BYTES),
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
    """Return a node of `scontrol show node`; None if it has no GPUs or is not a node."""
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
    # Or in transition: powering up for a job, or down.
    is_off = any(word.startswith("POWER") for word in states)
    is_divided = any(_MIG.search(kind) for kind, _ in counts)
    partitions = _field(text, "Partitions")
    host = _field(text, "NodeHostName") or name[1]
    is_same = short(host) == short(name[1])
    return FleetHost(
        name=clean(name[1] if is_same else host, NAME_BYTES),
        node_name=None if is_same else clean(name[1], NAME_BYTES),
        group=None if partitions is None else clean(partitions.partition(",")[0], NAME_BYTES),
        expected_devices=None if is_divided else sum(int(count) for _, count in counts),
        state="ok" if closed or not is_off else "powered-down",
        drain_reason=clean(_reason(text) or closed[0], NAME_BYTES) if closed else None,
    )


def _unique(nodes: Iterable[FleetHost | None]) -> list[FleetHost]:
    """Return nodes; those that share a host's name have their own names."""
    known = [node for node in nodes if node is not None]
    counts = Counter(node.name for node in known)
    return [
        node
        if node.node_name is None or counts[node.name] == 1
        else replace(node, name=node.node_name, node_name=None)
        for node in known
    ]


def _host(hosts: Mapping[str, FleetHost], node: str) -> SafeText:
    """Return the host name of a node."""
    return hosts[node].name if node in hosts else SafeText(node)


def _reason(node: str) -> str | None:
    """Return why a node is closed, by whom and since when; None if not given."""
    found = _REASON.search(node)
    if found is None:
        return None
    why, user, since = found[1].strip(), found[2], found[3]
    return why if user is None else f"{why} ({user}, since {since[:16].replace('T', ' ')})"


def _field(text: str, name: str) -> str | None:
    match = re.search(_FIELD.format(re.escape(name)), text)
    return None if match is None or match[1] in ("(null)", "N/A") else match[1]


def _known(text: str) -> SafeText | None:
    return None if text in ("", "(null)", "N/A", "n/a") else clean(text, NAME_BYTES)


def _indices(gres: str) -> list[int]:
    """Return the GPUs in `gpu:h100:3(IDX:0-1,5)`, or those that a job shares."""
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
    """Return the names in `gpu[01-02],lab7`, none for anything else."""
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
