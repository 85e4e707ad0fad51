"""The threads on which driver calls are made, so that one that hangs holds up no other.

NVML knows no timeout, and a GPU that fell off the bus may hold a call for ever. One thread does
all tasks of a tick in turn, so that a healthy driver is asked by one thread as ever; only when
a call takes long does each of the others get a thread of its own. That one thread is kept from
tick to tick, for a system that gives no more of them must not make a healthy GPU a silent one.
"""

from __future__ import annotations

import _thread
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.bus import Bus
from gpudash.collect.nvml.library import call_under_way
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.model.units import duration

T = TypeVar("T")


def no_news() -> None:
    """Do nothing: nobody listens."""


class Patience(Struct, frozen=True):
    """How long calls are waited for, in seconds."""

    alone: float
    """So long a call may hold up the others."""
    rest: float
    """So long each may take; then it is no more waited for."""
    first: float
    """The same where nothing is known yet; afterwards, how old values may be and still be shown."""
    news: Callable[[], None] = no_news
    """Called whenever a task came back."""
    is_limited_elsewhere: bool = False
    """Whether whoever waits for us gives us up as a whole, so that a call may hold us as well."""


STEADY = Patience(alone=0.5, rest=1.0, first=5.0)
"""For a screen, which rather goes on with the GPUs that answer."""


def once(seconds: float, news: Callable[[], None] = no_news) -> Patience:
    """Return the patience of a single look: each call has `seconds` to answer."""
    return Patience(
        alone=min(1.0, seconds / 2),
        rest=seconds,
        first=seconds,
        news=news,
        is_limited_elsewhere=True,
    )


class Task(Generic[T]):
    """Some driver calls with one outcome; `thread` is that which is on it.

    One that is put in the place of a task for which there was no thread waits since that one did.
    """

    def __init__(
        self,
        work: Callable[[], T],
        instead_of: Task[Any] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._work = work
        self._clock = clock
        self._outcome: list[T] = []
        self._error: BaseException | None = None
        self.started_at: float | None = None
        self.is_out = True
        """Whether it is still to come back."""
        self.has_no_thread = False
        """Whether it was never begun, and will not be, for the system gave no thread."""
        self.thread = 0
        self.since = clock()
        """Since when it is to be done."""
        if instead_of is not None and instead_of.has_no_thread:
            self.since = instead_of.since

    @property
    def seconds(self) -> float:
        """For how long it has been under way, or for how long there was no thread to begin it."""
        return self._clock() - (self.since if self.started_at is None else self.started_at)

    @property
    def is_back(self) -> bool:
        """Whether there is an outcome."""
        return not self.is_out and not self.has_no_thread

    def outcome(self) -> T:
        """Return what the work returned, once it is back; raises what the work raised."""
        if self._error is not None:
            raise self._error
        return self._outcome[0]

    def run(self) -> None:
        """Do the work on this thread."""
        self.thread, self.started_at = _thread.get_ident(), self._clock()
        try:
            self._outcome.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the outcome
            self._error = error
        self.is_out = False

    def withdraw(self) -> None:
        """Take it back: nobody began it."""
        self.is_out, self.has_no_thread = False, True


_LULL_SECONDS = 5.0

Start = Callable[[Callable[..., None], tuple[Any, ...]], object]
Wait = Callable[[_thread.LockType, float], bool]


def _acquire(lock: _thread.LockType, seconds: float) -> bool:
    return lock.acquire(timeout=seconds)


class Crew:
    """Does tasks, and waits for them as long as its patience lasts; without any, it does them here.

    `start` starts a thread or raises RuntimeError, `wait` takes a lock within some seconds of
    `clock` or returns False.
    """

    def __init__(
        self,
        patience: Patience | None,
        start: Start = _thread.start_new_thread,
        clock: Callable[[], float] = monotonic,
        wait: Wait = _acquire,
    ) -> None:
        self.patience = patience
        self._start = start
        self._clock = clock
        self._wait = wait
        self._bench = _Bench()

    def muster(self) -> None:
        """Have a thread wait for tasks, before anyone else takes the last one there is."""
        if self.patience is None or self._bench.is_taken:
            return
        hand = _Hand(self._bench)
        try:
            self._start(hand.wait, ())
        except RuntimeError:  # `run` tries again
            return
        if not self._bench.join(hand):
            hand.take(None)

    def run(self, tasks: Sequence[Task[Any]], *, first: bool) -> None:
        """Do the tasks; those that are out when patience ends are left to their threads.

        Those for which there was no thread are taken back, to be tried again in the next tick.
        They are done here where somebody else limits how long we may take.
        """
        patience = self.patience
        if patience is None:
            for task in tasks:
                task.run()
        elif tasks:
            shift = _Shift(tasks, patience.news, self._clock)
            if self._call(shift):
                self._finish(shift, patience.alone, patience.first if first else patience.rest)
            elif patience.is_limited_elsewhere:
                shift.work()
            shift.withdraw()

    def close(self) -> None:
        """Let the thread end that is kept, and those that are out as soon as they are back."""
        self._bench.close()

    def _finish(self, shift: _Shift, alone: float, rest: float) -> None:
        """Return when all are back, or none has come back for long."""
        if self._wait_for(shift, lambda: shift.news_at + alone):
            return
        for _ in range(shift.waiting):
            if not self._call(shift):
                break
        self._wait_for(shift, lambda: shift.given_up_at(rest))

    def _wait_for(self, shift: _Shift, until: Callable[[], float]) -> bool:
        """Wait until all are back; False when the time has come before that."""
        while (left := until() - self._clock()) > 0:
            if self._wait(shift.over, min(left, _LULL_SECONDS)):
                return True
        return False

    def _call(self, shift: _Shift) -> bool:
        """Let another thread work; False where the system has none to give."""
        hand = self._bench.leave()
        if hand is not None:
            hand.take(shift)
            return True
        try:
            self._start(_Hand(self._bench).serve, (shift,))
        except RuntimeError:
            return False
        return True


class _Hand:
    """A thread that works, and then waits to be called again if no other does."""

    def __init__(self, bench: _Bench) -> None:
        self._bench = bench
        self._shift: _Shift | None = None
        self._called = _thread.allocate_lock()
        self._called.acquire()

    def take(self, shift: _Shift | None) -> None:
        """Call it to another shift, to none for it to end."""
        self._shift = shift
        self._called.release()

    def wait(self) -> None:
        """Be called, and then work until nobody needs it."""
        self.serve(self._next())

    def serve(self, shift: _Shift | None) -> None:
        """Work until nobody needs it."""
        while shift is not None:
            is_last = shift.work()
            # Before anyone hears that all is done, and calls for a thread again.
            is_kept = self._bench.join(self)
            if is_last:
                shift.over.release()
            shift = self._next() if is_kept else None

    def _next(self) -> _Shift | None:
        self._called.acquire()
        shift, self._shift = self._shift, None
        return shift


class _Bench:
    """Where one thread waits."""

    def __init__(self) -> None:
        self._hand: _Hand | None = None
        self._is_open = True
        self._changing = _thread.allocate_lock()

    @property
    def is_taken(self) -> bool:
        """Whether one waits here."""
        return self._hand is not None

    def join(self, hand: _Hand) -> bool:
        """Let a thread wait here; False if there is one, or none is needed any more."""
        with self._changing:
            if self._hand is not None or not self._is_open:
                return False
            self._hand = hand
            return True

    def leave(self) -> _Hand | None:
        """Return the thread that waits, None if there is none; from now on one may wait again."""
        with self._changing:
            hand, self._hand = self._hand, None
            self._is_open = True
            return hand

    def close(self) -> None:
        """Let the thread end that waits, and no other come."""
        with self._changing:
            hand, self._hand = self._hand, None
            self._is_open = False
        if hand is not None:
            hand.take(None)


class _Shift:
    """The tasks of one tick, which threads take from it one by one."""

    def __init__(
        self, tasks: Sequence[Task[Any]], news: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self.news_at = clock()
        """When one came back last."""
        self.over = _thread.allocate_lock()
        """Released when the last one is back."""
        self.over.acquire()
        self._tasks = tasks
        self._queue = deque(tasks)
        self._left = len(tasks)
        self._news = news
        self._clock = clock
        self._counting = _thread.allocate_lock()

    @property
    def waiting(self) -> int:
        """How many nobody has begun."""
        return len(self._queue)

    def given_up_at(self, rest: float) -> float:
        """Return when those that are out have had their time, and the others were long silent.

        The driver serves one call after another: while it answers at all, a late one is no hung
        one. GPUs that nobody uses are started one by one, each within seconds.
        """
        out = (task.started_at or 0.0 for task in self._tasks if task.is_out)
        started = max(out, default=self.news_at)
        return max(started + rest, self.news_at + min(rest / 2, _LULL_SECONDS))

    def work(self) -> bool:
        """Do what is waiting; whether the last task that was out came back here."""
        is_last = False
        while (task := self._next()) is not None:
            task.run()
            self._news()
            with self._counting:
                self._left -= 1
                self.news_at = self._clock()
                is_last = not self._left
        return is_last

    def withdraw(self) -> None:
        """Take back what nobody has begun."""
        while (task := self._next()) is not None:
            task.withdraw()

    def _next(self) -> Task[Any] | None:
        try:
            return self._queue.popleft()
        except IndexError:
            return None


_LONG_SECONDS = 100.0


def excuse(task: Task[Any], whom: str) -> Fault:
    """Return for how long a task is out, and in which call, or that it could not be begun.

    `whom` it asks begins the sentence of one that was not begun.
    """
    if task.has_no_thread:
        message = f"{whom} cannot be asked: the system gives no thread; ulimit -a shows the limits"
        return Fault(source="nvml", code=codes.INSUFFICIENT_RESOURCES, message=clean(message))
    # A thread whose task is back may be in another GPU's call by now.
    call = call_under_way(task.thread) if task.is_out else None
    seconds = task.seconds
    span = f"{seconds:.0f} s" if seconds < _LONG_SECONDS else duration(seconds)
    message = f"driver not answering {span}" + (f", in {call}" if call else "")
    return Fault(source="nvml", code=codes.TIMEOUT, message=clean(message))


def state_by(fault: Fault) -> DeviceState:
    """Return the state of a GPU with such an excuse: one that was not asked is not silent."""
    return "not-answering" if fault.code == codes.TIMEOUT else "failed"


def seen_by_kernel(bus: Bus, addresses: Iterable[str], fault: Fault) -> tuple[Device, ...]:
    """Return the GPUs as the kernel shows them, who all share a fault."""
    return tuple(
        Device(
            index=index,
            pci_bus_id=clean(address),
            state=state_by(fault),
            fault=fault,
            **asdict(bus.identity(address)),
        )
        for index, address in enumerate(addresses)
    )
