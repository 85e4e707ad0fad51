"""Who has a GPU open without being in the driver's list: workers that outlived their parent.

A look through 1,600 processes takes 27 ms: it is made in slices, so that no tick is held up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from time import monotonic

from gpudash.collect.processes import Facts
from gpudash.collect.source import Holders
from gpudash.model.process import Holder
from gpudash.system import processes
from gpudash.system import processes as proc_stat

_AGAIN_SECONDS = 10.0
_SOON_SECONDS = 2.0
"""When it is looked again for a GPU that no look was made for."""
_SLICE_SECONDS = 0.02
_FIRST_SLICE_SECONDS = 0.1
"""A first look may be the only one."""
_MOST_DESCRIPTORS = 4096
_MOST_HOLDERS = 64

_NODE = "/dev/nvidia"
_UVM = "/dev/nvidia-uvm"
"""Open in every program that uses CUDA, and in no monitor, which holds no memory."""

Opened = frozenset[int]
"""Minor numbers of the GPUs that a process has open."""


class _Look:
    """One look through all processes, for the GPUs that were asked for when it began."""

    def __init__(self, minors: Collection[int]) -> None:
        self.covers = set(minors)
        self.found: list[tuple[Opened, Holder]] = []
        self.missed = not processes.in_first_pid_namespace() or _hides_processes()
        self.left = iter(proc_stat.pids())


class HolderSearch:
    """A look through all processes, a slice at a time, and what the last whole one found.

    A GPU is judged only by a look that began after it was first asked for: whoever holds its
    memory had it open by then. `read_facts` gives owner and command line of a PID, None if it is
    gone.
    """

    def __init__(
        self,
        read_facts: Callable[[int], Facts | None],
        node_prefix: str = _NODE,
        uvm_node: str = _UVM,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._read_facts = read_facts
        self._clock = clock
        self._node_prefix = node_prefix
        self._uvm_node = uvm_node
        self._asked: set[int] = set()
        self._look: _Look | None = None
        self._last: _Look | None = None
        self._ended = 0.0

    def holders(self, minors: Collection[int], listed: Collection[int]) -> dict[int, Holders]:
        """Go on with the search for these GPUs and return what is known, by minor number.

        The `listed` PIDs, which the driver knows, are left out, and gpudash itself.
        """
        self._ask(set(minors))
        start, seconds = self._clock(), _SLICE_SECONDS
        if self._look is None and self._is_due(start):
            self._look = _Look(minors)
            seconds = _FIRST_SLICE_SECONDS if self._last is None else seconds
        if self._look is not None:
            self._go_on(self._look, start + seconds)
        passed_over = {*listed, os.getpid()}
        known = {} if self._last is None else self._known(self._last, passed_over)
        if self._look is not None and not self._look.covers <= known.keys():
            known = {**self._known(self._look, passed_over), **known}
        return known

    def _ask(self, minors: set[int]) -> None:
        """Let no look judge GPUs for which it was not made."""
        if not minors:
            self._look = self._last = None
        for look in filter(None, (self._look, self._last)):
            look.covers &= minors & self._asked
        self._asked = minors

    def _is_due(self, now: float) -> bool:
        if not self._asked or self._last is None:
            return bool(self._asked)
        is_covered = self._last.covers >= self._asked
        return now - self._ended >= (_AGAIN_SECONDS if is_covered else _SOON_SECONDS)

    def _known(self, look: _Look, passed_over: Collection[int]) -> dict[int, Holders]:
        """Return what a look has found; one that goes on says nothing of those it has not met."""
        present = [
            (opened, holder)
            for opened, holder in look.found
            if holder.pid not in passed_over and _is_there(holder)
        ]
        is_whole = look is self._last
        of_minor = {
            minor: tuple(holder for opened, holder in present if minor in opened)[:_MOST_HOLDERS]
            for minor in look.covers
        }
        return {
            minor: Holders(holders, complete=is_whole and not look.missed)
            for minor, holders in of_minor.items()
            if holders or is_whole
        }

    def _go_on(self, look: _Look, until: float) -> None:
        for pid in look.left:
            opened = self._opened(look, pid)
            holder = self._holder(pid) if opened else None
            if holder is not None:
                look.found.append((opened, holder))
            if self._clock() >= until:
                return
        self._look, self._last, self._ended = None, look, self._clock()

    def _opened(self, look: _Look, pid: int) -> Opened:
        """Return the GPUs that a process has open, none if it does not use CUDA."""
        folder = f"/proc/{pid}/fd"
        try:
            descriptors = os.listdir(folder)
        except PermissionError:
            look.missed = True
            return frozenset()
        except OSError:  # it has ended
            return frozenset()
        look.missed = look.missed or len(descriptors) > _MOST_DESCRIPTORS
        paths = {_target(f"{folder}/{each}") for each in descriptors[:_MOST_DESCRIPTORS]}
        if self._uvm_node not in paths:
            return frozenset()
        nodes = (path for path in paths if path.startswith(self._node_prefix))
        numbers = (path.removeprefix(self._node_prefix) for path in nodes)
        return frozenset(int(number) for number in numbers if number.isdecimal())

    def _holder(self, pid: int) -> Holder | None:
        stat, facts = proc_stat.read(pid), self._read_facts(pid)
        if stat is None or facts is None:
            return None
        return Holder(
            pid=pid,
            start_ticks=stat.start_ticks,
            username=facts.username,
            command_line=facts.command_line,
        )


def _hides_processes() -> bool:
    """Whether /proc leaves processes of others out (hidepid), of which the first is one."""
    return not os.path.exists("/proc/1")


def _is_there(holder: Holder) -> bool:
    """Whether it has not ended since it was found."""
    stat = proc_stat.read(holder.pid)
    return stat is not None and stat.start_ticks == holder.start_ticks


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
