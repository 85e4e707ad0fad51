"""The operating system's half of a snapshot, from /proc: the machine and its processes.

psutil reads the same, and is what the tests compare with; importing it takes a one-shot as long as
reading eight GPUs. Nothing sleeps: a share of CPU time is that since the last sample, and in the
first one that since the process started or the machine was booted.
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
from gpudash.collect.processes import Facts, ProcessTable
from gpudash.collect.source import Holders
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import Job, Lease, Process
from gpudash.model.secrets import mask_arguments, mask_text
from gpudash.model.snapshot import Host
from gpudash.model.text import SafeText, clean
from gpudash.system import processes
from gpudash.system.files import read_start

if TYPE_CHECKING:
    from gpudash.collect.holders import HolderSearch

_MAX_BYTES = 1 << 16
_MEMORY_FACTS = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
_FACT_CHARS = 40


class LinuxReader:
    """Reads this machine, and remembers the last sample for the CPU shares of the next.

    `clock` (seconds) times what is not read for every sample.
    """

    def __init__(
        self, *, show_secrets: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_facts = _facts if show_secrets else _masked_facts
        self._table = ProcessTable(self._read_facts)
        self._search: HolderSearch | None = None
        self._leases = LeaseTable(clock)
        # Counted from boot, so that the first share is the one since then.
        self._busy_ticks = 0
        self._total_ticks = 0
        self._cpu_percent: float | None = None

    def host(self) -> Host:
        """Return the machine; the driver's versions are left None for NVML to fill in."""
        memory = _memory_info()
        total, available = memory.get("MemTotal"), memory.get("MemAvailable")
        swap, swap_free = memory.get("SwapTotal"), memory.get("SwapFree")
        return Host(
            hostname=clean(os.uname().nodename),
            cpu_count=os.cpu_count(),
            cpu_percent=self._share_of_cpu(),
            memory_total_bytes=total,
            memory_used_bytes=_difference(total, available),
            memory_available_bytes=available,
            swap_total_bytes=swap,
            swap_used_bytes=_difference(swap, swap_free),
            load_average=_load_average(),
            uptime_seconds=time.clock_gettime(time.CLOCK_BOOTTIME),
        )

    def processes(
        self, pids: Collection[int], listed_at: Mapping[int, float] | None = None
    ) -> dict[int, Process]:
        """Return one entry for every PID, with `devices` left empty.

        One that started after its PID was `listed_at`, in seconds since boot, is another process.
        All PIDs of a sample belong in one call: what is known of others is forgotten.
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
        """Begin to read what takes the kernel long."""
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

    def _share_of_cpu(self) -> float | None:
        ticks = _cpu_ticks()
        if ticks is None:
            return None
        # user, nice, system, idle, iowait, irq, softirq, steal; the time of guests, which
        # follows, is already in user and nice.
        total = sum(ticks[:8])
        busy = total - sum(ticks[3:5])
        elapsed = total - self._total_ticks
        if elapsed > 0:
            percent = 100 * (busy - self._busy_ticks) / elapsed
            self._cpu_percent = round(min(max(percent, 0.0), 100.0), 1)
            self._busy_ticks, self._total_ticks = busy, total
        return self._cpu_percent


def _memory_info() -> dict[str, int]:
    """Return /proc/meminfo in bytes."""
    text = (read_start("/proc/meminfo", _MAX_BYTES) or b"").decode("ascii", "replace")
    found: dict[str, int] = {}
    for name in _MEMORY_FACTS:
        # Every name begins a line; none is the end of another.
        words = text.partition(f"{name}:")[2][:_FACT_CHARS].split()
        if words and words[0].isdecimal():
            found[name] = int(words[0]) * 1024
    return found


def _cpu_ticks() -> list[int] | None:
    """Return the first line of /proc/stat: what all CPUs did since boot, in ticks."""
    line = (read_start("/proc/stat", _MAX_BYTES) or b"").partition(b"\n")[0].split()
    return [int(ticks) for ticks in line[1:]] if line[:1] == [b"cpu"] else None


def _difference(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else max(0, whole - part)


def _load_average() -> tuple[float, float, float] | None:
    try:
        return os.getloadavg()
    except OSError:
        return None


def _facts(pid: int) -> Facts | None:
    status = processes.read_status(pid)
    if status is None:
        return None
    uid = processes.owner_id(status)
    arguments = processes.command_line(pid)
    return Facts(
        username=None if uid is None else processes.username(uid),
        name=processes.name(status, arguments),
        command_line=arguments,
        job=_job(pid),
    )


def _masked_facts(pid: int) -> Facts | None:
    """Return the facts without the secrets that people pass on command lines."""
    facts = _facts(pid)
    if facts is None or facts.command_line is None:
        return facts
    # A process may give itself a title, which is then its name and its only argument.
    name = None if facts.name is None else SafeText(mask_text(facts.name))
    masked = tuple(map(SafeText, mask_arguments(facts.command_line)))
    return replace(facts, name=name, command_line=masked)


def _job(pid: int) -> Job | None:
    text = read_start(f"/proc/{pid}/cgroup", CGROUP_LIMIT)
    return None if text is None else job_of(text.decode("utf-8", "surrogateescape"))
