"""The threads for driver calls, so that a hanging call does not delay others.

NVML has no timeouts, and a GPU that fell off the bus may hold a call for ever. One thread runs the
tasks of a tick in turn, so that a healthy driver has a single caller; only when a task takes long
does each of the others get a separate thread. One idle thread is kept from tick to tick: a healthy
GPU must not fall silent because the system has no threads left. A stuck thread is left to its call
and never joined; all are daemons, so none keeps the process alive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Condition, Lock, Thread, get_ident
from time import monotonic
from typing import Any, Generic, TypeVar

from msgspec import Struct

from gpudash.collect.nvml import codes
from gpudash.collect.nvml.library import call_under_way
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.model.units import duration

T = TypeVar("T")

_MAX_WAIT_SECONDS = 5.0
_LONG_SECONDS = 100.0


def ignore_answer() -> None:
    """Do nothing."""


class CallTimeouts(Struct, frozen=True):
    """How long to wait for driver calls."""

    turn_seconds: float
    """How long a task may delay the others before each of them gets a separate thread."""
    call_seconds: float
    """How long a task may take before it is left to its thread."""
    first_call_seconds: float
    """The same while nothing is known; later, the maximum age of values to show."""
    first_turn_seconds: float = 0.02
    """`turn_seconds` of the first tasks: some hundred calls per GPU, which a fast driver answers
    in that time.
    """
    on_answer: Callable[[], None] = ignore_answer
    """Called after each task, on the thread that ran it."""
    has_outer_limit: bool = False
    """Whether the whole process has a time limit, so that a call may block the caller."""


STREAM_TIMEOUTS = CallTimeouts(turn_seconds=0.5, call_seconds=1.0, first_call_seconds=5.0)
"""For a screen, which continues with the GPUs that answer."""


def one_shot_timeouts(
    seconds: float, on_answer: Callable[[], None] = ignore_answer
) -> CallTimeouts:
    """Return the timeouts of a single sample: each task has `seconds` to answer."""
    return CallTimeouts(
        turn_seconds=min(1.0, seconds / 2),
        call_seconds=seconds,
        first_call_seconds=seconds,
        on_answer=on_answer,
        has_outer_limit=True,
    )


class Task(Generic[T]):
    """Driver calls with one result, to be run once on some thread.

    The retry of a task without a thread counts its seconds from that task's creation.
    """

    def __init__(
        self,
        function: Callable[[], T],
        retry_of: Task[Any] | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.started_at: float | None = None
        self.is_pending = True
        """Whether it has not returned yet."""
        self.lacks_thread = False
        """Whether it was withdrawn before it began, as the system had no thread."""
        self.thread_id = 0
        self._function = function
        self._clock = clock
        self._results: list[T] = []
        self._error: BaseException | None = None
        is_retry = retry_of is not None and retry_of.lacks_thread
        self._created_at: float = retry_of._created_at if retry_of and is_retry else clock()

    @property
    def seconds(self) -> float:
        """How long it has been running, or waiting for a thread."""
        return self._clock() - (self._created_at if self.started_at is None else self.started_at)

    @property
    def is_done(self) -> bool:
        """Whether it has returned."""
        return not self.is_pending and not self.lacks_thread

    def result(self) -> T:
        """Return the result of a finished task's function, or raise its exception."""
        if self._error is not None:
            raise self._error
        return self._results[0]

    def run(self) -> None:
        """Call the function on this thread."""
        self.thread_id, self.started_at = get_ident(), self._clock()
        try:
            self._results.append(self._function())
        except BaseException as error:  # noqa: BLE001 - raised again by result()
            self._error = error
        self.is_pending = False

    def withdraw(self) -> None:
        """Withdraw a task that has not begun."""
        self.is_pending, self.lacks_thread = False, True


def _start_thread(function: Callable[[], None]) -> None:
    Thread(target=function, daemon=True).start()


class DriverWorker:
    """Runs tasks within `timeouts`; without any, on the caller's thread.

    `start` starts a thread or raises RuntimeError; `wait` waits for a condition for some seconds of
    `clock`.
    """

    def __init__(
        self,
        timeouts: CallTimeouts | None,
        start: Callable[[Callable[[], None]], None] = _start_thread,
        clock: Callable[[], float] = monotonic,
        wait: Callable[[Condition, float], object] = Condition.wait,
    ) -> None:
        self.timeouts = timeouts
        self._start = start
        self._clock = clock
        self._wait = wait
        self._lock = Lock()
        """Guards everything below."""
        self._queued = Condition(self._lock)
        """Threads wait for tasks."""
        self._returned = Condition(self._lock)
        """`run` waits for threads."""
        self._queue: deque[Task[Any]] = deque()
        self._running: set[Task[Any]] = set()
        self._free = 0
        """The number of threads without a task; at most one of them is kept."""
        self._answered_at = 0.0
        """When a task last returned."""
        self._is_slow = False
        """Whether one of the first tasks exceeded its turn: then later ones will too."""
        self._is_closed = False

    def prestart(self) -> None:
        """Have a thread wait for tasks, before anything else takes the last available one."""
        with self._lock:
            if self.timeouts is not None:
                self._provide_threads(1)

    def run(self, tasks: Sequence[Task[Any]], *, first: bool) -> None:
        """Run the tasks; those still running at the timeout are left to their threads.

        Those without a thread are withdrawn, to be retried in the next tick; they run here if the
        whole process has a time limit.
        """
        timeouts = self.timeouts
        if timeouts is None:
            for task in tasks:
                task.run()
            return
        with self._lock:
            self._is_closed = False
            self._answered_at = self._clock()
            self._queue.extend(tasks)
            has_thread = self._provide_threads(1)
            if has_thread:
                if first:
                    turn_seconds = 0.0 if self._is_slow else timeouts.first_turn_seconds
                    is_quick = self._finish(tasks, turn_seconds, timeouts.first_call_seconds)
                    # Opening NVML alone may take long.
                    self._is_slow |= len(tasks) > 1 and not is_quick
                else:
                    self._finish(tasks, timeouts.turn_seconds, timeouts.call_seconds)
            left: tuple[Task[Any], ...] = ()
            # A free thread that was just not scheduled yet still takes queued tasks.
            if not self._free:
                left = tuple(self._queue)
                self._queue.clear()
        for task in left:
            if has_thread or not timeouts.has_outer_limit:
                task.withdraw()
            else:
                task.run()
                timeouts.on_answer()

    def close(self) -> None:
        """Let the idle thread end, and stuck ones as soon as their calls return."""
        with self._lock:
            self._is_closed = True
            self._queued.notify_all()

    def _finish(self, tasks: Sequence[Task[Any]], turn_seconds: float, seconds: float) -> bool:
        """Wait until all have returned or timed out; return whether none exceeded its turn."""
        if self._wait_for(tasks, lambda: self._answered_at + turn_seconds):
            return True
        self._provide_threads(len(self._queue))
        self._wait_for(tasks, lambda: self._deadline(tasks, seconds))
        return False

    def _wait_for(self, tasks: Sequence[Task[Any]], deadline: Callable[[], float]) -> bool:
        """Wait until all tasks have returned; return False if the deadline comes first."""
        while self._queue or not self._running.isdisjoint(tasks):
            left = deadline() - self._clock()
            if left <= 0:
                return False
            self._wait(self._returned, min(left, _MAX_WAIT_SECONDS))
        return True

    def _deadline(self, tasks: Sequence[Task[Any]], seconds: float) -> float:
        """Return when the running tasks have had their time and the driver was silent for long.

        The driver serves one call after another: while it answers at all, a late call is not a hung
        one. GPUs that no process uses are started one by one, each within seconds.
        """
        starts = (task.started_at or 0.0 for task in tasks if task.is_pending)
        started_at = max(starts, default=self._answered_at)
        silence = min(seconds / 2, _MAX_WAIT_SECONDS)
        return max(started_at + seconds, self._answered_at + silence)

    def _provide_threads(self, count: int) -> bool:
        """Provide this many threads without a task, if possible; return whether there is one."""
        while self._free < count:
            try:
                self._start(self._serve)
            except RuntimeError:
                break
            self._free += 1
        self._queued.notify(count)
        return self._free > 0

    def _serve(self) -> None:
        """Run queued tasks on a free thread, which ends when another one is waiting too."""
        task: Task[Any] | None = None
        while (task := self._next(task)) is not None:
            task.run()
            if self.timeouts is not None:
                self.timeouts.on_answer()

    def _next(self, finished: Task[Any] | None) -> Task[Any] | None:
        """Complete a task and return the next one, None for the thread to end."""
        with self._lock:
            if finished is not None:
                self._running.remove(finished)
                self._free += 1
                self._answered_at = self._clock()
                if not self._queue:
                    self._returned.notify()
            while not self._queue:
                if self._free > 1 or self._is_closed:
                    self._free -= 1
                    return None
                self._queued.wait()
            self._free -= 1
            task = self._queue.popleft()
            self._running.add(task)
            return task


def timeout_fault(task: Task[Any], subject: str) -> Fault:
    """Return why a task has no result: the call that it hangs in, or the lack of a thread.

    `subject` is what it reads, for the beginning of that sentence.
    """
    if task.lacks_thread:
        message = f"{subject} cannot be read: the system gives no thread; see ulimit -u"
        return Fault(source="nvml", code=codes.INSUFFICIENT_RESOURCES, message=clean(message))
    # The thread of a task that has returned may be in another GPU's call by now.
    call = call_under_way(task.thread_id) if task.is_pending else None
    seconds = task.seconds
    span = f"{seconds:.0f} s" if seconds < _LONG_SECONDS else duration(seconds)
    message = f"driver not answering {span}" + (f", in {call}" if call else "")
    return Fault(source="nvml", code=codes.TIMEOUT, message=clean(message))
