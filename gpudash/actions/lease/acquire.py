"""Taking leases: all GPUs of a wish or none, and the turn of those who wait for them."""

from __future__ import annotations

import fcntl
import os
import random
import select
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple, NoReturn

from gpudash.actions.lease.choose import Wish, choose, most_possible, sort_out
from gpudash.feed.sampler import Sampler
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.system import locks, processes, terminal

_SAY_AGAIN_SECONDS = 60.0


class Waiting:
    """Time to wait, `seconds` at most and for ever with None, and the line that tells of it."""

    def __init__(self, seconds: float | None, *, since: float) -> None:
        self._since = since
        self._deadline = None if seconds is None else since + seconds
        self._on_terminal = terminal.progress_is_shown()
        self._say_at = since
        self._line_stands = False

    def goes_on(self, lack: str) -> bool:
        """Tell what is missing, and whether there is time left to wait for it."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self.end()
            terminal.write_message(f"gpudash: {lack}\n")
            return False
        self.tell(lack)
        return True

    def tell(self, lack: str) -> None:
        """Show a line on a terminal that is replaced each time, else a line a minute."""
        now = time.monotonic()
        text = f"gpudash: waiting {duration(now - self._since)}: {lack}"
        if self._on_terminal:
            terminal.show_progress(text)
            self._line_stands = True
        elif now >= self._say_at:
            terminal.write_message(f"{text}\n")
            self._say_at = now + _SAY_AGAIN_SECONDS

    def end(self) -> None:
        """Take the line away."""
        if self._line_stands:
            terminal.end_progress()
            self._line_stands = False

    @property
    def seconds_left(self) -> float | None:
        """Time left, None for ever."""
        if self._deadline is None:
            return None
        return max(self._deadline - time.monotonic(), 0.0)


def require_possible(now: Snapshot, wish: Wish, environ: Mapping[str, str] = os.environ) -> None:
    """Raise GpudashError for what could never be, whoever leaves: waiting would be in vain."""
    most = most_possible(now, wish, environ)
    if most < wish.count:
        error = GpudashError(
            f"{wish.count} such GPU{'s' * (wish.count != 1)} will never be free: "
            f"{most or 'none'} of this host's GPUs {'is' if most == 1 else 'are'} like that"
        )
        error.exit_status = ExitStatus.TOO_FEW_GPUS
        raise error


_ROUNDS = 5
_RETRY_SECONDS = 0.05
_TAKEN = "just taken by somebody"
_MOST_DESCRIPTORS = 256
_LOOK_UP_SECONDS = 5.0
_NO_PLACE = (
    "no place for leases: {}; GPUs need their directory in /sys/bus/pci/devices, or "
    "GPUDASH_LOCK_DIR a folder with a file for each UUID, all of it root's"
)


class Leased(NamedTuple):
    """GPUs that are ours as long as the descriptors, or copies of them, are open."""

    devices: tuple[Device, ...]
    descriptors: tuple[int, ...]

    def release(self) -> None:
        """Give them back."""
        for descriptor in self.descriptors:
            os.close(descriptor)


def lease(sampler: Sampler, wish: Wish) -> Leased | str:
    """Lease GPUs that fit, and return them, or in a line what is missing.

    Two who want several may be in each other's way for a moment, so it is tried a few times.
    Raises GpudashError where there is no place for leases.
    """
    for attempt in range(_ROUNDS):
        placeless = _placeless(sampler.samples[-1].devices)
        excluded = dict(placeless)
        found = _lease_once(sampler, wish, excluded)
        if isinstance(found, Leased) or excluded == placeless or wish.count == 1:
            return found
        time.sleep(random.uniform(1, 2 + attempt) * _RETRY_SECONDS)
        sampler.next_sample()
    return found


@contextmanager
def turn(waiting: Waiting) -> Iterator[bool]:
    """Wait to be the first of those who wait; yield whether it is so, False when time is up."""
    path = locks.queue_lock_path()
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise GpudashError(_NO_PLACE.format(f"{path}: {error.strerror}")) from None
    try:
        yield _lock(descriptor, path, waiting)
    finally:
        os.close(descriptor)


def require_places(devices: Sequence[Device]) -> None:
    """Raise GpudashError where no GPU has a place for its lease: none could be seen."""
    if not any(map(_has_place, devices)):
        known = next(filter(None, map(_place, devices)), None)
        reason = f"{known} does not exist" if known else "no GPU tells its address"
        raise GpudashError(_NO_PLACE.format(reason))


def guard(leased: Leased) -> None:
    """Let a process beside this one hold the leases, too, until this one has ended.

    Some commands close every descriptor that they inherit, and the lease with it.
    """
    try:
        job = os.pidfd_open(os.getpid())
    except OSError:  # a kernel before 5.3
        return
    child = os.fork()
    if child:
        os.close(job)
        os.waitpid(child, 0)
        return
    try:
        # Twice, so that the command is not the parent of a process that it did not start.
        if os.fork() == 0:
            _stand_guard(job, leased)
    finally:
        os._exit(0)


def _stand_guard(job: int, leased: Leased) -> NoReturn:
    """Hold nothing but the leases until the process behind a pidfd has ended."""
    os.setsid()
    os.chdir("/")
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)
    kept = {0, 1, 2, job, *leased.descriptors}
    for descriptor in range(3, _MOST_DESCRIPTORS):
        if descriptor not in kept:
            with suppress(OSError):
                os.close(descriptor)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    poll = select.poll()
    poll.register(job, select.POLLIN)
    poll.poll()
    os._exit(0)


def _placeless(devices: Sequence[Device]) -> dict[str, str]:
    """Return why devices cannot be leased that have no place; raises GpudashError if none has."""
    require_places(devices)
    return {
        device.uuid: "has no place for a lease"
        for device in devices
        if device.uuid and not _has_place(device)
    }


def _has_place(device: Device) -> bool:
    place = _place(device)
    return place is not None and os.path.exists(place)


def _place(device: Device) -> str | None:
    """Return where a device is leased; an instance has a place only where folders are shared."""
    return locks.lease_path(device.uuid, None if device.is_mig else device.pci_bus_id)


def _lease_once(sampler: Sampler, wish: Wish, excluded: dict[str, str]) -> Leased | str:
    """Choose and lease; add to `excluded` what somebody else was quicker to take."""
    while True:
        choice = choose(tuple(sampler.samples), wish, os.environ, excluded=excluded)
        if not choice.devices:
            return choice.lack
        taken = _take_all(choice.devices, excluded)
        if taken is None:
            continue
        gone = _gone(sampler, wish, taken)
        if not gone:
            return taken
        taken.release()
        excluded.update(dict.fromkeys(gone, _TAKEN))


def _take_all(devices: Sequence[Device], excluded: dict[str, str]) -> Leased | None:
    """Take every lock in the order of the indices, or none: nobody holds some and waits."""
    taken: list[int] = []
    for device in devices:
        descriptor = _take(device)
        if descriptor is None:
            excluded[device.uuid or ""] = _TAKEN
            Leased(tuple(devices), tuple(taken)).release()
            return None
        taken.append(descriptor)
    return Leased(tuple(devices), tuple(taken))


def _take(device: Device) -> int | None:
    path = _place(device) or ""
    try:
        return locks.acquire(path)
    except OSError as error:
        reason = f"{path}: {error.strerror}" if error.strerror else str(error)
        raise GpudashError(_NO_PLACE.format(reason)) from None


def _gone(sampler: Sampler, wish: Wish, taken: Leased) -> set[str]:
    """Return the UUIDs of those that do not fit any more: who does not lease may have come."""
    try:
        sampler.next_sample()
    except GpudashError:
        taken.release()
        raise
    own = {device.uuid or "" for device in taken.devices}
    candidates, _ = sort_out(tuple(sampler.samples), wish, os.environ, own)
    return own - {each.device.uuid or "" for each in candidates}


def _lock(descriptor: int, path: str, waiting: Waiting) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        waiting.tell(f"others wait already, {_first_in_line(path)} first")

    def look_up(_number: int, _frame: object) -> None:
        if waiting.seconds_left == 0:
            raise TimeoutError
        waiting.tell(f"others wait already, {_first_in_line(path)} first")

    left = waiting.seconds_left
    pause = _LOOK_UP_SECONDS if left is None else min(_LOOK_UP_SECONDS, max(left, 0.1))
    before = signal.signal(signal.SIGALRM, look_up)
    try:
        # Again and again, as an alarm just before the kernel waits would be lost.
        signal.setitimer(signal.ITIMER_REAL, pause, pause)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except TimeoutError:
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    return True


def _first_in_line(path: str) -> str:
    key = locks.key(path)
    pid = locks.holders().get(key, 0) if key else 0
    status = processes.read_status(pid) if pid else None
    uid = None if status is None else processes.owner_id(status)
    return "somebody" if uid is None else f"{processes.username(uid)} (PID {pid})"
