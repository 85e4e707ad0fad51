"""The queue of commands that wait for GPUs: their order, and the GPUs kept for them.

A waiting command holds a ticket: read locks on one folder, a byte range for each GPU that it could
use. They exclude nothing, every user can read them in /proc/locks with the PID, and the kernel
removes them with their process. There is no daemon: each command reads the tickets and takes what
it may.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import NamedTuple
from zlib import crc32

from msgspec.structs import replace

from gpudash.actions.lease.acquire import (
    NO_LEASES,
    Leased,
    blocked,
    lease,
    own_leases,
    require_lock_files,
)
from gpudash.actions.lease.choose import leased_shortage, require_soon
from gpudash.actions.lease.request import GpuRequest, possible_devices
from gpudash.collect.leases import LeaseTable, lock_key
from gpudash.feed.sampler import Sampler
from gpudash.feed.supervisor import CollectorError
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.system import locks, processes, terminal

_REPORT_SECONDS = 60.0

_ARRIVAL_BITS, _GPU_BITS = 42, 20
_NOT_WAITING = frozenset({"stopped", "tracing-stop", "zombie", "dead"})
_START_TOLERANCE_SECONDS = 1.0


class Waiting:
    """A wait of at most `seconds`, without limit if None, and the line that reports it."""

    def __init__(self, seconds: float | None, *, since: float) -> None:
        self._since = since
        self._deadline = None if seconds is None else since + seconds
        self._on_terminal = terminal.progress_is_shown()
        self._report_at = since
        self._line_is_shown = False

    def within_deadline(self, shortage: str) -> bool:
        """Report the shortage, and return whether there is time left to wait."""
        if self.is_over:
            self.end()
            terminal.write_message(f"gpudash: {shortage}\n")
            return False
        self.report(shortage)
        return True

    def report(self, shortage: str) -> None:
        """Replace the line on a terminal, else print one every minute."""
        now = time.monotonic()
        text = f"gpudash: waiting {duration(now - self._since)}: {shortage}"
        if self._on_terminal:
            terminal.show_progress(text)
            self._line_is_shown = True
        elif now >= self._report_at:
            terminal.write_message(f"{text}\n")
            self._report_at = now + _REPORT_SECONDS

    def end(self) -> None:
        """Remove the line."""
        if self._line_is_shown:
            terminal.end_progress()
            self._line_is_shown = False

    @property
    def is_over(self) -> bool:
        """Whether the time is up."""
        return self._deadline is not None and time.monotonic() >= self._deadline

    def sleep(self, seconds: float) -> None:
        """Sleep, but not past the end."""
        left = seconds if self._deadline is None else self._deadline - time.monotonic()
        time.sleep(max(0.0, min(seconds, left)))


class Timing(NamedTuple):
    """Times of the queue, in seconds."""

    bound: float = 600.0
    """After this, everything that a command could use is kept for it once it is first in line."""
    head_start: float = 10.0
    """For this long, enough freed GPUs are left to those who have waited longer."""
    poll: float = 1.0
    """Between two readings of the locks, for the first in line."""
    retry: float = 30.0
    """Until others query the driver again if no lease has ended since."""
    blocked: float = 60.0
    """How long to wait for others' shared locks: they are not leases, and may never end."""


TIMING = Timing()


class Ticket(NamedTuple):
    """A waiting command. The one that has waited longer compares as smaller."""

    arrival_ms: int
    """Since boot."""
    pid: int
    wanted: int
    """How many GPUs it waits for."""
    gpus: frozenset[int]
    """The GPUs that it could use, by number."""

    def waited_seconds(self) -> float:
        """Return for how long it has waited."""
        return _now() - self.arrival_ms / 1000

    def __str__(self) -> str:
        status = processes.read_status(self.pid)
        uid = None if status is None else processes.owner_id(status)
        return f"{'another user' if uid is None else processes.username(uid)} (PID {self.pid})"


def tickets(listed: Iterable[locks.Lock]) -> list[Ticket]:
    """Return the waiting commands, the longest wait first, without stopped ones."""
    folder = locks.key(locks.queue_path())
    found: dict[tuple[int, int, int], set[int]] = {}
    for lock in listed:
        if lock.key == folder and lock.kind == "POSIX" and lock.end is not None:
            gpu, arrival_ms = divmod(lock.start, 1 << _ARRIVAL_BITS)
            count = lock.end - lock.start + 1
            found.setdefault((arrival_ms, lock.pid, count), set()).add(gpu)
    every = [Ticket(*key, frozenset(gpus)) for key, gpus in sorted(found.items())]
    return [each for each in every if _is_waiting(each)]


def kept(
    devices: Sequence[Device],
    ahead: Iterable[Ticket],
    free_since: Mapping[int, float],
    timing: Timing = TIMING,
) -> dict[str, str]:
    """Return by UUID why devices are left to those ahead.

    `free_since` has the monotonic time since which each free GPU was seen to be free, by number.
    """
    recent = time.monotonic() - timing.head_start
    found: dict[int, Ticket] = {}
    for ticket in ahead:
        left = [gpu for gpu in map(gpu_number, devices) if gpu in ticket.gpus and gpu not in found]
        free = [gpu for gpu in left if gpu in free_since]
        # One that has been free for longer may be of no use to it.
        free.sort(key=free_since.__getitem__, reverse=True)
        if ticket.waited_seconds() >= timing.bound:
            found.update(dict.fromkeys(left, ticket))
        elif len(free) >= ticket.wanted and free_since[free[0]] > recent:
            found.update(dict.fromkeys(free[: ticket.wanted], ticket))
    return {
        each.uuid: f"kept for {found[number]}"
        for each in devices
        if each.uuid and (number := gpu_number(each)) in found
    }


def kept_for_others(now: Snapshot, timing: Timing = TIMING) -> dict[str, str]:
    """Return why devices are withheld from one that does not wait: by others' tickets, or locks."""
    own, table = own_leases(now), LeaseTable(time.monotonic)
    table.listed = locks.listed()
    devices = [each for each in now.devices if each.uuid not in own]
    return {**kept(devices, tickets(table.listed), {}, timing), **blocked(now, table)}


class Queue:
    """The ticket of this process, and what it may take; closing it leaves the queue.

    Raises GpudashError if the folder cannot be opened.
    """

    def __init__(self, now: Snapshot, request: GpuRequest, timing: Timing) -> None:
        self._now, self._request, self._timing = now, request, timing
        self._own = own_leases(now)
        possible = possible_devices(now, request, os.environ)
        self._devices = [each for each in possible if lock_key(each) is not None]
        gpus = frozenset(map(gpu_number, self._devices))
        self._ticket = Ticket(int(_now() * 1000), os.getpid(), request.count, gpus)
        self._table = LeaseTable(time.monotonic)
        self._free_since: dict[int, float] = {}
        self._blocked_since: float | None = None
        self.ahead: list[Ticket] = []
        """Those who have waited longer for one of the same GPUs."""
        path = locks.queue_path()
        try:
            # No other file of this folder may be opened here: closing one would end the locks.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY)
            for gpu in gpus:
                start = gpu << _ARRIVAL_BITS | self._ticket.arrival_ms
                flags = fcntl.LOCK_SH | fcntl.LOCK_NB
                fcntl.lockf(self._descriptor, flags, request.count, start)
        except OSError as error:
            raise GpudashError(NO_LEASES.format(f"{path}: {error.strerror}")) from None

    def close(self) -> None:
        """Leave the queue."""
        os.close(self._descriptor)

    @property
    def freed_at(self) -> float:
        """Monotonic time at which the last GPU was seen to become free."""
        return max(self._free_since.values(), default=0.0)

    @property
    def pause_seconds(self) -> float:
        """Time until the locks should be read again: longer behind many others."""
        return self._timing.poll * min(1 + len(self.ahead) / 5, 5)

    def taken(self) -> dict[str, str]:
        """Return by UUID why devices are left to other waiting commands, by the present locks."""
        leases = self._table.sample(self._devices, (), frozenset())
        self._now = replace(self._now, leases=leases)
        locked = blocked(self._now, self._table)
        held = {lease.uuid for lease in leases} | locked.keys()
        free = {gpu_number(each) for each in self._devices if each.uuid not in held}
        at = time.monotonic()
        self._free_since = {gpu: self._free_since.get(gpu, at) for gpu in free}
        self.ahead = [
            each
            for each in tickets(self._table.listed)
            if each < self._ticket and each.gpus & self._ticket.gpus
        ]
        if sum(each.uuid not in locked for each in self._devices) >= self._request.count:
            self._blocked_since = None
        elif self._blocked_since is None:
            self._blocked_since = at
        found = kept(self._devices, self.ahead, self._free_since, self._timing) | locked
        return {uuid: reason for uuid, reason in found.items() if uuid not in self._own}

    def shortage(self, taken: Mapping[str, str]) -> str:
        """Return the shortage, as far as leases and tickets show it; empty if there is none.

        Raises GpudashError if shared locks have kept too many GPUs for too long.
        """
        text = leased_shortage(self._now, self._devices, self._request, self._own, taken)
        since = self._blocked_since
        if since is not None and time.monotonic() - since >= self._timing.blocked:
            error = GpudashError(f"{text}: gave up waiting")
            error.exit_status = ExitStatus.TOO_FEW_GPUS
            raise error
        if not text or not self.ahead:
            return text
        count = "1 has" if len(self.ahead) == 1 else f"{len(self.ahead)} have"
        return f"{text}; {count} waited longer, {self.ahead[0]} first"


def lease_when_free(
    open_sampler: Callable[[], Sampler],
    request: GpuRequest,
    waiting: Waiting,
    timing: Timing = TIMING,
) -> Leased | None:
    """Wait in the queue and lease; None once the time is up.

    The driver is only queried while enough GPUs are not leased, and repeatedly only by the first in
    line. Raises GpudashError if GPUs cannot be leased.
    """
    with ExitStack() as stack:
        with closing(open_sampler()) as sampler:
            require_soon(sampler, request)
            require_lock_files(sampler.samples[-1].devices)
            queue = stack.enter_context(closing(Queue(sampler.samples[-1], request, timing)))
            found = _try(sampler, request, queue, waiting)
        queried_at = time.monotonic()
        while not isinstance(found, Leased):
            if not waiting.within_deadline(found):
                return None
            waiting.sleep(queue.pause_seconds)
            taken = queue.taken()
            shortage = queue.shortage(taken)
            if shortage:
                found = shortage
            elif max(queue.freed_at, time.monotonic() - timing.retry) >= queried_at:
                found = _query(open_sampler, request, queue, waiting)
                queried_at = time.monotonic()
        return found


def _query(
    open_sampler: Callable[[], Sampler], request: GpuRequest, queue: Queue, waiting: Waiting
) -> Leased | str:
    """Query the driver; if it is silent or gone meanwhile, wait for it too."""
    try:
        with closing(open_sampler()) as sampler:
            sampler.fill()
            return _try(sampler, request, queue, waiting)
    except GpudashError as error:
        return str(error)


def _try(sampler: Sampler, request: GpuRequest, queue: Queue, waiting: Waiting) -> Leased | str:
    """Lease, or return the shortage; the first in line retries while it may succeed."""
    while True:
        taken = queue.taken()
        try:
            found = lease(sampler, request, taken)
        except CollectorError as error:
            return str(error)
        if isinstance(found, Leased):
            return found
        shortage = queue.shortage(taken)
        if shortage or queue.ahead or waiting.is_over:
            return shortage or found
        waiting.report(found)
        try:
            sampler.next_sample()
        except GpudashError as error:
            return str(error)


def _is_waiting(ticket: Ticket) -> bool:
    """Whether its process runs, and already did when the wait began according to the ticket."""
    stat = processes.read_stat(ticket.pid)
    if stat is None or stat.status in _NOT_WAITING:
        return False
    return stat.started_seconds <= ticket.arrival_ms / 1000 + _START_TOLERANCE_SECONDS


def gpu_number(device: Device) -> int:
    """Return a number that stands for a device in a lock range."""
    return crc32((device.uuid or "").encode()) >> (32 - _GPU_BITS)


def _now() -> float:
    """Return the seconds since boot, the clock of processes' start times."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
