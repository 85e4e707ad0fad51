"""The operating system's half of a snapshot: the machine and its processes.

Nothing sleeps: a share of CPU time covers the time since the last sample; in the first one, the
time since the process started or the machine was booted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gpudash.collect.jobs import LIMIT as CGROUP_LIMIT
from gpudash.collect.jobs import job_of
from gpudash.collect.leases import LeaseTable
from gpudash.collect.processes import ProcessReader
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import Lease, Process
from gpudash.model.secrets import mask_arguments, mask_text
from gpudash.model.snapshot import Host
from gpudash.model.text import SafeText, bound_all, clean
from gpudash.system import processes
from gpudash.system.files import read_start
from gpudash.system.processes import Facts, ProcStat

if TYPE_CHECKING:
    from gpudash.collect.holders import HolderSearch


class LinuxReader:
    """Reads this machine, and keeps the last sample for the next CPU shares.

    `clock` (seconds) times reads that are not made for every sample.
    """

    def __init__(
        self, *, show_secrets: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_facts = _bounded(_facts if show_secrets else _masked_facts)
        self._table = ProcessReader(self._read_facts)
        self._search: HolderSearch | None = None
        self._leases = LeaseTable(clock)
        # Counted from boot, so that the first share is the one since then.
        self._cpu_seconds = 0.0, 0.0
        self._cpu_percent: float | None = None

    def host(self) -> Host:
        """Return the machine; the driver's versions are left None for NVML to fill in."""
        machine = processes.machine()
        total, available = machine.memory_total_bytes, machine.memory_available_bytes
        used = None if total is None or available is None else max(0, total - available)
        return Host(
            hostname=clean(os.uname().nodename),
            cpu_count=machine.cpu_count,
            cpu_percent=self._share_of_cpu(machine.cpu_seconds),
            memory_total_bytes=total,
            memory_used_bytes=used,
            memory_available_bytes=available,
            swap_total_bytes=machine.swap_total_bytes,
            swap_used_bytes=machine.swap_used_bytes,
            load_average=machine.load_average,
            uptime_seconds=time.clock_gettime(time.CLOCK_BOOTTIME),
        )

    def processes(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        """Return one entry for every PID, with `devices` left empty.

        A process that started after its PID was `listed_at`, in seconds since boot, is another one.
        All PIDs of a sample belong in one call: the data of others are dropped.
        """
        return self._table.sample(pids, listed_at)

    def holders(self, minors: Collection[int], listed: Collection[int]) -> Mapping[int, Holders]:
        """Return who has the nodes of these GPUs open but is not `listed`, by minor number."""
        if self._search is None:
            if not minors:
                return {}
            from gpudash.collect.holders import HolderSearch

            self._search = HolderSearch(self._read_facts)
        return self._search.holders(minors, listed)

    def begin(self) -> None:
        """Start reads that take the kernel long."""
        self._leases.begin()

    def leases(
        self, devices: Sequence[Device], processes: Sequence[Process], unlisted: Set[str]
    ) -> tuple[Lease, ...]:
        """Return who has reserved which of the GPUs."""
        return self._leases.sample(devices, processes, unlisted)

    def faults(self) -> tuple[Fault, ...]:
        """Return what keeps the reader from seeing everything: no /proc, or a PID namespace."""
        if not os.path.exists("/proc/self/stat"):
            message = "/proc is not mounted: owners and command lines are unknown"
        elif not processes.in_first_pid_namespace():
            message = (
                "processes outside this PID namespace are hidden; a container shows them when it"
                " is run with --pid=host"
            )
        else:
            return ()
        return (Fault(source="processes", message=clean(message)),)

    def _share_of_cpu(self, seconds: tuple[float, float] | None) -> float | None:
        if seconds is None:
            return None
        busy, total = seconds[0] - self._cpu_seconds[0], seconds[1] - self._cpu_seconds[1]
        if total > 0:
            self._cpu_percent = round(min(max(100 * busy / total, 0.0), 100.0), 1)
            self._cpu_seconds = seconds
        return self._cpu_percent


_COMMAND_LINE_BYTES = 4096
"""Limit of a command line in a document."""
_ReadFacts = Callable[[int, ProcStat], "Facts | None"]


def _bounded(read: _ReadFacts) -> _ReadFacts:
    """Return a reader of facts whose command lines fit a document."""

    def read_bounded(pid: int, stat: ProcStat) -> Facts | None:
        facts = read(pid, stat)
        if facts is None or facts.command_line is None:
            return facts
        line = bound_all(facts.command_line, _COMMAND_LINE_BYTES)
        return facts if line is facts.command_line else replace(facts, command_line=line)

    return read_bounded


def _facts(pid: int, stat: ProcStat) -> Facts | None:
    facts = processes.facts(pid, stat)
    text = read_start(f"/proc/{pid}/cgroup", CGROUP_LIMIT)
    if facts is None or text is None:
        return facts
    return replace(facts, job=job_of(text.decode("utf-8", "surrogateescape")))


def _masked_facts(pid: int, stat: ProcStat) -> Facts | None:
    """Return the facts without secrets on the command line."""
    facts = _facts(pid, stat)
    if facts is None or facts.command_line is None:
        return facts
    # A process may set its own title, which then is its name and its only argument.
    name = None if facts.name is None else SafeText(mask_text(facts.name))
    masked = tuple(map(SafeText, mask_arguments(facts.command_line)))
    return replace(facts, name=name, command_line=masked)
