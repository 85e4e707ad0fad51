"""A recording as a stream of snapshots, in the place of a collector: played, stopped, sought.

The file is read in a thread of its own, for a network's folder may be slow, or never answer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING

from gpudash.feed.protocol import FeedState, OnSnapshots
from gpudash.feed.recording.reader import Sample, Tape
from gpudash.feed.recording.samples import Shot, around, back, elapsed, following, stepped
from gpudash.model.errors import GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""What there is to choose from while it plays."""

_FRAME_SECONDS = 0.1
"""So often another picture is worth its drawing."""
_GAP_SECONDS, _GAP_INTERVALS = 5.0, 3.0
_GAP_PAUSE_SECONDS = 2.0

Work = Callable[[], list[Shot]]
Then = Callable[[list[Shot]], None]


class Playback:
    """Delivers the samples of a tape as they came, or faster; what it is told takes effect once."""

    def __init__(
        self, tape: Tape, start: Sample, *, speed: float = 1.0, repeats: bool = False
    ) -> None:
        self.latest: Snapshot | None = None
        self.error: str | None = None
        self.exit_status: int | None = None
        self.interval = 1.0
        """Seconds between the last two samples."""
        self.tape = tape
        self.speed = speed
        self.paused = self.ended = False
        self._repeats = repeats
        self._head = start
        self._first: list[Shot] = []
        self._gap = 0.0
        self._turn = 0
        self._loop: AbstractEventLoop | None = None
        self._timer: TimerHandle | None = None
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._on_snapshots: OnSnapshots | None = None
        self._on_change: Callable[[], None] = _nothing

    def start(self) -> None:
        """Read the first sample and its past; raises WireError where none can be read."""
        if self._first:
            return
        self._first = around(self.tape, self._head)
        self._take_head(self._first)

    def poll(self, timeout_seconds: float = 0) -> Snapshot | None:
        """Return the sample that is shown first."""
        return self.latest

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: OnSnapshots,
        on_change: Callable[[], None],
    ) -> None:
        """Deliver samples on this loop, and report a gap, the end or an error by `on_change`."""
        self._loop, self._on_snapshots, self._on_change = loop, on_snapshots, on_change
        threading.Thread(target=self._work, name="playback", daemon=True).start()
        self._deliver(self._first, after_jump=True)
        self._go_on()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._interrupt()
        self._loop = None
        self._jobs.put(None)

    @property
    def state(self) -> FeedState:
        """Always as it was: what is shown is true of its time."""
        return FeedState.LIVE

    @property
    def age(self) -> float:
        """Nothing of a recording grows old."""
        return 0.0

    @property
    def collector(self) -> None:
        """A recording has no collector."""

    @property
    def player(self) -> Playback:
        """This feed is a recording."""
        return self

    @property
    def extent(self) -> tuple[datetime, datetime]:
        """When the first and the last sample were taken."""
        return self.tape.first.taken_at, self.tape.last.taken_at

    @property
    def is_stopped(self) -> bool:
        """Whether it is paused or at its end."""
        return self.paused or self.ended

    @property
    def marks(self) -> list[str]:
        """The state of the playback for the header."""
        if self.ended:
            return ["REPLAY END"]
        if self.paused:
            return ["REPLAY PAUSED"]
        return [f"REPLAY GAP {duration(self._gap)}" if self._gap else "REPLAY"]

    @property
    def message(self) -> str:
        """A gap, the end, or a note on the sample shown; empty for none."""
        if self.ended:
            return "the recording ends here: p plays it again"
        if self._gap and not self.paused:
            return f"nothing was recorded for {duration(self._gap)}"
        return self._head.note

    def toggle(self) -> None:
        """Stop, or play on; from the start where it has ended."""
        if self.ended:
            self.play_from(self.tape.first.taken_at)
        elif self.paused:
            self.play()
        else:
            self.pause()

    def pause(self) -> None:
        """Stop at the sample that is shown."""
        self._interrupt()
        self.paused = True

    def play(self) -> None:
        """Go on from the sample that was shown last."""
        self._interrupt()
        self.paused = False
        self._go_on()

    def play_from(self, moment: datetime) -> None:
        """Play on from an instant."""
        self.paused = False
        self.seek(moment)

    def seek(self, moment: datetime) -> None:
        """Go to an instant, and play on from there unless it was paused."""
        self._interrupt()
        self._ask(lambda: around(self.tape, self.tape.at(moment)), self._arrive)

    def step(self, count: int, since: datetime) -> None:
        """Stop so many samples after, or with a negative count before, the one of an instant."""
        self.pause()
        if count > 0:
            self._ask(lambda: stepped(self.tape, self._head, count), self._continue)
        else:
            self._ask(lambda: back(self.tape, self.tape.at(since), -count), self._arrive)

    def change_speed(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        if step > 0:
            self.speed = next((each for each in SPEEDS if each > self.speed), self.speed)
        else:
            self.speed = next((each for each in reversed(SPEEDS) if each < self.speed), self.speed)
        if not self.is_stopped:
            self.play()

    def _arrive(self, shots: list[Shot]) -> None:
        self._deliver(shots, after_jump=True)
        self._go_on()

    def _continue(self, shots: list[Shot]) -> None:
        if shots:
            self._deliver(shots, after_jump=False)
        else:
            self._end()

    def _go_on(self) -> None:
        if not self.paused:
            seconds = self.speed * _FRAME_SECONDS
            self._ask(lambda: following(self.tape, self._head, seconds), self._await)

    def _await(self, shots: list[Shot]) -> None:
        """Deliver samples when it is their time; a gap is told and cut short."""
        if not shots:
            self._end()
            return
        assert self._loop is not None
        assert self.latest is not None
        seconds = elapsed(self.latest, shots[-1].snapshot)
        gap = elapsed(self.latest, shots[0].snapshot)
        delay = seconds / self.speed
        if gap > max(_GAP_SECONDS, _GAP_INTERVALS * self.interval):
            self._gap = gap
            delay = min(delay, _GAP_PAUSE_SECONDS)
            self._on_change()

        def due() -> None:
            self._deliver(shots, after_jump=False)
            self._go_on()

        self._timer = self._loop.call_later(delay, due)

    def _end(self) -> None:
        if self._repeats and not self.paused:
            self.seek(self.tape.first.taken_at)
            return
        self.ended = True
        self._on_change()

    def _deliver(self, shots: list[Shot], *, after_jump: bool) -> None:
        self._gap, self.error = 0.0, None
        self._take_head(shots)
        if self._on_snapshots is not None:
            self._on_snapshots([shot.snapshot for shot in shots], after_jump)

    def _take_head(self, shots: list[Shot]) -> None:
        before = shots[-2].snapshot if len(shots) > 1 else self.latest
        self._head, self.latest = shots[-1]
        if before is not None:
            self.interval = elapsed(before, self.latest) or self.interval

    def _interrupt(self) -> None:
        """Let what was asked for, and has not come yet, count for nothing."""
        self._turn += 1
        self.ended, self._gap = False, 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask(self, work: Work, then: Then) -> None:
        """Let the thread do some work, and take what came of it unless it is outdated."""
        loop, turn = self._loop, self._turn
        if loop is None:
            return

        def take(shots: list[Shot], error: str | None) -> None:
            if turn != self._turn:
                return
            if error is None:
                then(shots)
            else:
                self.error = error
                self._on_change()

        def job() -> None:
            found: list[Shot] = []
            error = None
            try:
                found = work()
            except (GpudashError, OSError) as trouble:
                error = f"recording: {trouble}"
            # Whoever has left meanwhile is told nothing.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(take, found, error)

        self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()


def _nothing() -> None:
    """Stand in for a listener before one is attached."""
