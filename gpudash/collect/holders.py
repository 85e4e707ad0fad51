"""Processes that have a GPU open but are not in the driver's list: orphaned workers.

A scan of 1,600 processes takes 27 ms, so it is made in slices that do not delay ticks. Any user may
open the nodes in any number of processes: those shown are chosen from each user in turn, so that no
user can hide the others'.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain, islice, zip_longest
from time import monotonic

from msgspec import Struct

from gpudash.collect.source import Holders
from gpudash.model.process import Holder
from gpudash.model.text import NAME_BYTES, bound_all
from gpudash.system import processes
from gpudash.system.files import read_link
from gpudash.system.processes import Facts, ProcStat

_RESCAN_SECONDS = 10.0
_UNCOVERED_RESCAN_SECONDS = 2.0
"""The pause before a scan for a GPU that the last one did not cover."""
_SLICE_SECONDS = 0.02
_FIRST_SLICE_SECONDS = 0.1
"""The first scan may be the only one."""
_MAX_DESCRIPTORS = 4096
_MAX_HOLDERS = 64

_NODE = "/dev/nvidia"
_UVM = "/dev/nvidia-uvm"
"""Open in every program that uses CUDA, but not in monitors, which hold no memory."""

Opened = Mapping[int, int]
"""How often a process has each GPU open, by minor number."""


class _Found(Struct, frozen=True):
    opened: Opened
    holder: Holder

    def rank(self, minor: int) -> tuple[int, int]:
        """Return a sort key: CUDA contexts first, which open the node many times, then by age."""
        return -self.opened[minor], self.holder.start_ticks or 0


class _Scan:
    """A scan of all processes, for the GPUs requested when it began."""

    def __init__(self, minors: Collection[int]) -> None:
        self.covers = set(minors)
        self.found: list[_Found] = []
        self.missed = not processes.in_first_pid_namespace() or _hides_processes()
        self.left = iter(processes.pids())


class HolderSearch:
    """Scans all processes, a slice at a time, and keeps the results of the last whole scan.

    A GPU is covered only by a scan that began after it was first requested: a process that holds
    its memory had it open by then. `read_facts` returns owner and command line of a PID, given its
    stat line, None if it is gone.
    """

    def __init__(
        self,
        read_facts: Callable[[int, ProcStat], Facts | None],
        node_prefix: str = _NODE,
        uvm_node: str = _UVM,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._read_facts = read_facts
        self._clock = clock
        self._node_prefix = node_prefix
        self._uvm_node = uvm_node
        self._wanted: set[int] = set()
        self._scan: _Scan | None = None
        self._last: _Scan | None = None
        self._ended = 0.0

    def holders(self, minors: Collection[int], listed: Collection[int]) -> dict[int, Holders]:
        """Continue the search for these GPUs and return known holders, by minor number.

        The `listed` PIDs, which the driver knows, and gpudash itself are left out.
        """
        self._want(set(minors))
        start, seconds = self._clock(), _SLICE_SECONDS
        if self._scan is None and self._is_due(start):
            self._scan = _Scan(minors)
            seconds = _FIRST_SLICE_SECONDS if self._last is None else seconds
        if self._scan is not None:
            self._continue(self._scan, start + seconds)
        passed_over = {*listed, os.getpid()}
        known = {} if self._last is None else self._known(self._last, passed_over)
        if self._scan is not None and not self._scan.covers <= known.keys():
            known = {**self._known(self._scan, passed_over), **known}
        return known

    def _want(self, minors: set[int]) -> None:
        """Keep scans from covering GPUs for which they were not made."""
        if not minors:
            self._scan = self._last = None
        for scan in filter(None, (self._scan, self._last)):
            scan.covers &= minors & self._wanted
        self._wanted = minors

    def _is_due(self, now: float) -> bool:
        if not self._wanted or self._last is None:
            return bool(self._wanted)
        is_covered = self._last.covers >= self._wanted
        return now - self._ended >= (_RESCAN_SECONDS if is_covered else _UNCOVERED_RESCAN_SECONDS)

    def _known(self, scan: _Scan, passed_over: Collection[int]) -> dict[int, Holders]:
        """Return the results of a scan; an unfinished one omits GPUs without holders."""
        is_whole = scan is self._last
        unlisted = [each for each in scan.found if each.holder.pid not in passed_over]
        known = {}
        for minor in scan.covers:
            present = [each for each in unlisted if minor in each.opened]
            running = filter(_is_running, _by_user_in_turn(present, minor))
            shown = tuple(islice(running, _MAX_HOLDERS))
            if shown or is_whole:
                # Thousands of others are not checked at every tick for whether they still run.
                left_out = len(present) - len(shown) if len(shown) == _MAX_HOLDERS else 0
                known[minor] = Holders(shown, is_whole and not scan.missed, left_out)
        return known

    def _continue(self, scan: _Scan, until: float) -> None:
        for pid in scan.left:
            opened = self._opened(scan, pid)
            holder = self._holder(pid) if opened else None
            if holder is not None:
                scan.found.append(_Found(opened, holder))
            if self._clock() >= until:
                return
        self._scan, self._last, self._ended = None, scan, self._clock()

    def _opened(self, scan: _Scan, pid: int) -> Opened:
        """Return the GPUs that a process has open, empty if it does not use CUDA."""
        folder = f"/proc/{pid}/fd"
        try:
            # A process may have a million: no more are listed than are read.
            with os.scandir(folder) as entries:
                descriptors = [each.name for each in islice(entries, _MAX_DESCRIPTORS + 1)]
        except PermissionError:
            scan.missed = True
            return {}
        except OSError:  # It has ended.
            return {}
        scan.missed = scan.missed or len(descriptors) > _MAX_DESCRIPTORS
        paths = [read_link(f"{folder}/{each}") for each in descriptors[:_MAX_DESCRIPTORS]]
        if self._uvm_node not in paths:
            return {}
        nodes = (path for path in paths if path.startswith(self._node_prefix))
        numbers = (path.removeprefix(self._node_prefix) for path in nodes)
        return Counter(int(number) for number in numbers if number.isdecimal())

    def _holder(self, pid: int) -> Holder | None:
        stat = processes.read_stat(pid)
        facts = self._read_facts(pid, stat) if stat else None
        if stat is None or facts is None:
            return None
        return Holder(
            pid=pid,
            start_ticks=stat.start_ticks,
            username=facts.username,
            command_line=facts.command_line and bound_all(facts.command_line, NAME_BYTES),
        )


def _by_user_in_turn(found: Collection[_Found], minor: int) -> Iterator[Holder]:
    """Yield one process of each user, the caller first, then the next of each, and so on.

    User ids without a name count as one user: anyone may have a range of them.
    """
    of_user: dict[str, list[_Found]] = {}
    for each in sorted(found, key=lambda each: each.rank(minor)):
        name = each.holder.username or ""
        of_user.setdefault("" if name.isdecimal() else name, []).append(each)
    own = of_user.pop(processes.username(os.getuid()), [])
    turns = zip_longest(own, *of_user.values())
    return (each.holder for each in chain.from_iterable(turns) if each is not None)


def _hides_processes() -> bool:
    """Whether /proc hides other users' processes (hidepid), such as the first one."""
    return not os.path.exists("/proc/1")


def _is_running(holder: Holder) -> bool:
    stat = processes.read_stat(holder.pid)
    return stat is not None and stat.start_ticks == holder.start_ticks
