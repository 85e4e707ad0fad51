"""The input of the rules of many hosts: one pass over all devices, and wording of findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence, Set
from functools import cached_property
from math import inf

from gpudash.analysis.health.rule import Registry, Rule, Symptom, bounded, number
from gpudash.analysis.health.rules.reliability import FLAPPING
from gpudash.analysis.labels import index_ranges
from gpudash.fleet.jobs import known_key
from gpudash.fleet.lasting import RESTS, Bound, Key, Lasted
from gpudash.fleet.names import check_host, short
from gpudash.fleet.sources import ANNOTATING
from gpudash.fleet.summary import (
    PROBLEMS,
    GpuRow,
    gpu_index,
    missing_gpus,
    reused_indices,
    statuses_of,
)
from gpudash.model.errors import UsageError
from gpudash.model.fleet import FleetHost, FleetJob, FleetSnapshot, JobKey, JobKind
from gpudash.model.snapshot import Evidence, FindingLevel
from gpudash.model.state import BUSY, FREE, HELD, HOT, SLOW
from gpudash.model.text import SafeText, clean
from gpudash.model.units import counted, grouped

_BUSY, _FREE, _HELD = BUSY.id, FREE.id, HELD.id
_SHOWN, MAX_EVIDENCE = 3, 16
_MAX_SENTENCE = 400
_MAX_NODES = 16
_NEWER_SECONDS = 60.0
"""How much newer the newest must be to be mentioned: `since` shows minutes."""
_SLURM_JOB = re.compile(r"[0-9]{1,18}([_+][0-9]{1,18})?")
_POD = re.compile(r"[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9.-]*")


class Survey:
    """The devices of one snapshot, as rules need them; of hosts that answer, except for jobs.

    Findings are about hosts and GPUs that it `covers`; the others serve for comparison.
    """

    def __init__(
        self,
        snapshot: FleetSnapshot,
        price: Callable[[str | None], float | None],
        covers: Callable[[FleetHost, int | None, str | None], bool] | None = None,
        lasted: Lasted | None = None,
    ) -> None:
        """`covers` takes the index and UUID of a GPU, or None for the host as such.

        `lasted` is how long earlier findings have lasted.
        """
        self.snapshot = snapshot
        self._covers = covers
        self.price = price
        """Returns the hourly price of a GPU by its name, None if none is configured."""
        self.lasting: dict[Key, tuple[Bound, ...]] = {}
        """Findings of GPUs whose hosts do not report since when."""
        self._lasted = lasted or {}
        self.jobs: dict[JobKey, FleetJob] = {job.key: job for job in snapshot.jobs}
        self.hosts = [host for host in snapshot.hosts if host.state == "ok"]
        self.problems: dict[str, list[GpuRow]] = {}
        """Devices that are broken or too hot, by their status."""
        self.xids: dict[int, list[GpuRow]] = {}
        self.flapping: list[GpuRow] = []
        """GPUs lost so often that they will be again."""
        self.held: list[GpuRow] = []
        self.by_job: dict[JobKey, list[GpuRow]] = {}
        """Includes the last GPUs of a job on hosts that do not answer."""
        self.computing: dict[str | None, list[GpuRow]] = {}
        """Busy GPUs by their name."""
        self.free: list[tuple[FleetHost, int, bool]] = []
        """Hosts with free GPUs, how many, and whether these are all that the host should have."""
        self.sizes: Counter[int] = Counter()
        """How many hosts there are by number of GPUs."""
        for host in snapshot.hosts:
            if host.state == "ok":
                self._add(host)
            else:
                for each in host.devices:
                    if each.job is not None:
                        key = known_key(host, each.job, self.jobs)
                        self.by_job.setdefault(key, []).append(GpuRow(host, each))

    def _add(self, host: FleetHost) -> None:
        """Sort the devices of a host; called for each host at each refresh."""
        by_job, computing = self.by_job, self.computing
        for device in host.devices:
            status, job = device.status, device.job
            is_gpu = device.parent_uuid is None
            if status == _FREE and job is None and device.xid is None and device.losses is None:
                continue
            row = GpuRow(host, device)
            if status == _BUSY:
                if is_gpu:
                    computing.setdefault(device.name, []).append(row)
            elif not self.covers_gpu(row):
                pass
            elif status == _HELD:
                self.held.append(row)
            elif status in PROBLEMS and is_gpu:
                self.problems.setdefault(status, []).append(row)
            if device.xid is not None and is_gpu and self.covers_gpu(row):
                self.xids.setdefault(device.xid, []).append(row)
            if (device.losses or 0) >= FLAPPING and is_gpu and self.covers_gpu(row):
                self.flapping.append(row)
            if job is not None:
                by_job.setdefault(known_key(host, job, self.jobs), []).append(row)
        does = statuses_of(host.devices)
        free, gpus = does.count(_FREE), len(does)
        self.sizes[gpus] += 1
        if free:
            is_whole = free == gpus == len(host.devices) and not missing_gpus(host)
            self.free.append((host, free, is_whole))

    def covers(self, host: FleetHost) -> bool:
        """Whether findings may be about a host as such."""
        return self._covers is None or self._covers(host, None, None)

    def covers_gpu(self, row: GpuRow) -> bool:
        """Whether findings may be about a GPU or MIG instance."""
        if self._covers is None:
            return True
        index = gpu_index(*row)
        # The index means the lost GPU while that is missing.
        is_other = row.device.state != "lost" and index in reused_indices(row.host)
        uuid = row.device.parent_uuid or row.device.uuid
        return self._covers(row.host, None if is_other else index, uuid)

    def age(self, rule: Rule, row: GpuRow, bounds: tuple[Bound, ...]) -> float | None:
        """Return for how many seconds a rule's finding has held for a GPU, None if unknown.

        It holds for as long as the GPU's values are within bounds.
        """
        known = row.host.slow_seconds.get(row.device.uuid or "")
        if row.device.uuid is None or (known is not None and rule.status in (SLOW, HOT)):
            return known
        key = rule.id, row.device.uuid
        self.lasting[key] = bounds
        return self._lasted.get(key)

    def rest(self, row: GpuRow) -> float | None:
        """Return for how many seconds a GPU has rested, None if longer than is known."""
        is_longer = self._lasted.get((RESTS, row.device.uuid or SafeText(""))) == inf
        return None if is_longer else row.device.idle_seconds

    def missing(self, host: FleetHost) -> int:
        """Return how many of the covered GPUs are missing."""
        count = missing_gpus(host)
        if self._covers is None or not count:
            return count
        there = {each.index for each in host.devices if each.parent_uuid is None}
        absent = set(range(host.expected_devices or 0)) - there
        return min(count, sum(self._covers(host, index, None) for index in absent))

    def job_name(self, host: FleetHost, job: str) -> str:
        """Return what to call a job: with its cluster if others have the same number."""
        is_alone = self._clusters[job] < 2 or host.cluster is None
        return job if is_alone else f"{job} in {host.cluster}"

    @cached_property
    def _clusters(self) -> Counter[str]:
        """How many clusters have a job of an id."""
        return Counter([job for _, job in self.by_job])

    @cached_property
    def schedulers(self) -> Set[str]:
        """The schedulers in use: slurm, kubernetes."""
        sources = {source.kind for source in self.snapshot.sources if source.kind in ANNOTATING}
        jobs = {job.kind for job in self.snapshot.jobs}
        return sources | jobs | {job_kind(job) for _, job in self.by_job}

    def drain(self, hosts: Iterable[FleetHost], reason: str) -> str:
        """Return how to keep new jobs off hosts: a command for each of their schedulers."""
        nodes = list({each.key: each for each in hosts}.values())[:_MAX_NODES]
        by_cluster = grouped((at(host), host) for host in nodes)
        return "; ".join(
            cluster + self._drain(some, reason) for cluster, some in by_cluster.items()
        )

    def _drain(self, hosts: Sequence[FleetHost], reason: str) -> str:
        names = [plain(host) for host in hosts]
        if "slurm" in self.schedulers:
            nodes = ",".join(map(node, hosts))
            return f'scontrol update NodeName={nodes} State=DRAIN Reason="{reason}"'
        if "kubernetes" in self.schedulers:
            return f"kubectl cordon {' '.join(names)}"
        return f"Keep new jobs off {', '.join(names)}"


FLEET: Registry[Survey] = Registry()
"""The rules of many hosts."""
rule, check = FLEET.rule, FLEET.check


def symptom(
    rule: Rule,
    level: FindingLevel,
    sentence: str,
    advice: str,
    rows: Sequence[GpuRow] = (),
    *,
    subject: Hashable = None,
    hosts: Iterable[FleetHost] = (),
    fields: Sequence[str] = (),
    evidence: Sequence[Evidence] = (),
    held_seconds: float | None = None,
    ages: Iterable[float | None] = (),
) -> Symptom:
    """Return a symptom of some GPUs or hosts; `fields` of the GPUs are added as evidence.

    `subject` distinguishes findings of a rule on one host. The longest known of `ages`, else
    `held_seconds`, is how long it has lasted.
    """
    known = [each for each in ages if each is not None]
    held_seconds = max(known, default=held_seconds)
    newest = min(known, default=held_seconds)
    names = dict.fromkeys([*(row.host.name for row in rows), *(host.name for host in hosts)])
    proofs = [_proof(row, fields) for row in rows if fields]
    return Symptom(
        rule,
        (next(iter(names), None), subject),
        level,
        clean(advice, _MAX_SENTENCE),
        sentence=clean(sentence, _MAX_SENTENCE),
        devices=tuple([row.device for row in rows]),
        evidence=(*evidence, *bounded(proofs, len(proofs), MAX_EVIDENCE)),
        hosts=tuple(names),
        held_seconds=held_seconds,
        newest_seconds=newest if (held_seconds or 0) - (newest or 0) >= _NEWER_SECONDS else None,
    )


def _proof(row: GpuRow, fields: Sequence[str]) -> list[Evidence]:
    of = f"{row.host.name} GPU {row.label}"
    values = ((name, getattr(row.device, name)) for name in fields)
    return [number(name, value, of) for name, value in values if value is not None]


def where(rows: Iterable[GpuRow]) -> str:
    """Return GPUs by host: `gpu01 GPU 0-3, gpu02 GPU 7,6:1 and 3 more hosts`."""
    by_host: dict[str, tuple[set[int], list[str]]] = {}
    for row in rows:
        gpus, instances = by_host.setdefault(row.host.name, (set(), []))
        if row.device.parent_uuid is None:
            gpus.add(row.device.index)
        elif len(instances) < _SHOWN:
            instances.append(row.label)
    named = {
        name: [index_ranges(gpus), *instances] if gpus else instances
        for name, (gpus, instances) in by_host.items()
    }
    return listed([f"{name} GPU {','.join(found)}" for name, found in named.items()], "host")


def listed(names: Sequence[str], noun: str) -> str:
    """Return some names: `alice, bob and 3 more users`."""
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    if more <= 0:
        return shown
    return f"{shown} and {counted(more, f'more {noun}')}"


def enter(host: FleetHost, command: str = "gpudash") -> str:
    """Return a command to copy that runs something on a host."""
    return f"{at(host)}ssh {plain(host)} {command}"


def at(host: FleetHost) -> str:
    """Return where to run a command about a host, `in east: `; empty without a cluster."""
    return "" if host.cluster is None else f"in {_plain(host.cluster, 'its cluster')}: "


def plain(host: FleetHost) -> str:
    """Return the name of a host for a command to copy, `HOST` for an unsafe one."""
    return _plain(host.name.removeprefix(f"{host.cluster}/"), "HOST")


def node(host: FleetHost) -> str:
    """Return Slurm's name for a host: without its domain, unless Slurm uses another."""
    return short(plain(host)) if host.node_name is None else _plain(host.node_name, "NODE")


def _plain(name: str, other: str) -> str:
    """Return an external name, or `other` if a shell could misread it."""
    try:
        return check_host(name)
    except UsageError:
        return other


def job_kind(job: str) -> JobKind:
    """Return what runs a job: names of pods include the namespace."""
    return "kubernetes" if "/" in job else "slurm"


def end_job(host: FleetHost, job: str | None) -> str | None:
    """Return the command to copy that ends a job, None if its id is unsafe."""
    if job is None:
        return None
    if _SLURM_JOB.fullmatch(job):
        return f"{at(host)}scancel {job}"
    if _POD.fullmatch(job):
        namespace, _, pod = job.partition("/")
        return f"{at(host)}kubectl -n {namespace} delete pod {pod}"
    return None
