"""Playback of the snapshots of a recording: play, pause, step and seek.

The file is read in a separate thread, as a network file system may be slow or hang.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from gpudash.feed.background import Background
from gpudash.feed.instants import Span
from gpudash.feed.protocol import D, FeedState, OnSnapshots, ignore
from gpudash.feed.recording.reader import Recording, Sample
from gpudash.feed.recording.samples import (
    DecodedSample,
    after,
    before,
    elapsed,
    following,
    gap_at,
    with_past,
)
from gpudash.feed.timeline import Kept, Timeline
from gpudash.model.errors import WireError
from gpudash.model.units import duration
from gpudash.model.wire import Received

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""The speeds to choose from."""

_FRAME_SECONDS = 0.1
"""The time between two deliveries, however fast it plays."""
_GAP_SECONDS, _GAP_INTERVALS = 5.0, 3.0
_GAP_PAUSE_SECONDS = 2.0
_FIRST_INTERVAL = 1.0
_COUNTED = 9
"""The interval is the median of this many times between samples."""
_READ_AHEAD = 2
"""How many samples after the first one are read for their interval."""

Read = Callable[[], list[DecodedSample]]
OnRead = Callable[[list[DecodedSample]], None]


class Playback:
    """Delivers the samples of a recording at their original pace or another."""

    # A shown sample is whole, true of its time, and of no host that can be reached.
    state, age = FeedState.LIVE, 0.0
    preview = collector = remote = None

    def __init__(
        self, recording: Recording, start: Sample, *, speed: float = 1.0, repeats: bool = False
    ) -> None:
        self.latest: Any = None
        self.latest_line = b""
        self.error: str | None = None
        self.exit_status: int | None = None
        self.recording = recording
        self.speed = speed
        self.paused = self.ended = False
        self._repeats = repeats
        self._head = start
        self._first: list[DecodedSample] = []
        self._between = deque([_FIRST_INTERVAL], maxlen=_COUNTED)
        self._gap = 0.0
        self._about = ""
        """The message about the instant last sought."""
        self._loop: AbstractEventLoop | None = None
        self._timer: TimerHandle | None = None
        self._reader = Background()
        self._on_snapshots: OnSnapshots[Any] = ignore
        self._on_change: Callable[[], None] = ignore

    def start(self) -> None:
        """Read the first sample and its past; raises WireError if none is readable."""
        if self._first:
            return
        self._first = with_past(self.recording, self._head)
        self._take_head(self._first, after_jump=True)
        # If only bad lines follow, the readable part is shown.
        with suppress(WireError):
            self._count([*self._first[-1:], *after(self.recording, self._head, _READ_AHEAD)])

    @property
    def interval(self) -> float:
        """Seconds between most of the last samples: gaps do not count."""
        return sorted(self._between)[(len(self._between) - 1) // 2]

    def poll(self, timeout_seconds: float = 0) -> Any:
        """Return the first sample to show."""
        return self.latest

    def attach(
        self,
        loop: AbstractEventLoop,
        on_snapshots: OnSnapshots[Any],
        on_change: Callable[[], None],
    ) -> None:
        """Deliver samples on this loop, and report a gap, the end or an error by `on_change`."""
        self._loop, self._on_snapshots, self._on_change = loop, on_snapshots, on_change
        self._reader.start()
        self._deliver(self._first, after_jump=True)
        self._play_next()

    def stop(self) -> None:
        """Deliver nothing more."""
        self._interrupt()
        self._loop = None
        self._reader.stop()

    def timeline(self, kept: Kept[Any], show: Callable[[Any], object]) -> Timeline[Any]:
        """Return the timeline of the recording."""
        return Replay(self, kept, show)

    @property
    def is_stopped(self) -> bool:
        """Whether it is paused or at its end."""
        return self.paused or self.ended

    @property
    def mark(self) -> str:
        """The state of the playback for the header."""
        if self.ended:
            return "REPLAY END"
        if self.paused:
            return "REPLAY PAUSED"
        return f"REPLAY GAP {duration(self._gap)}" if self._gap else "REPLAY"

    @property
    def message(self) -> str:
        """A gap, the end, or a note on the instant, the sample shown or the file; "" for none."""
        if self.ended:
            return "the recording ends here: p plays it again"
        if self._gap and not self.paused:
            return f"nothing was recorded for {duration(self._gap)}"
        return self._about or self._head.note or self.recording.note

    def toggle(self) -> None:
        """Pause, or play on; from the start if it has ended."""
        if self.ended:
            self.play_from(self.recording.first.taken_at)
        elif self.paused:
            self.play()
        else:
            self.pause()

    def pause(self) -> None:
        """Stop at the sample shown."""
        self._interrupt()
        self.paused = True

    def play(self) -> None:
        """Play on from the sample shown."""
        self._interrupt()
        self.paused = False
        self._play_next()

    def play_from(self, moment: datetime) -> None:
        """Play on from an instant."""
        self.paused = False
        self.seek(moment)

    def seek(self, moment: datetime) -> None:
        """Go to an instant, and play on from there unless it was paused."""
        self._interrupt()

        def read() -> tuple[list[DecodedSample], str]:
            samples = with_past(self.recording, self.recording.at(moment))
            return samples, gap_at(self.recording, moment)

        self._reader.submit(read, lambda found: self._arrive(*found), self._fail)

    def step(self, count: int, since: datetime) -> None:
        """Pause `count` samples after the one shown; if negative, before the one of `since`."""
        self.pause()
        if count > 0:
            self._submit(lambda: after(self.recording, self._head, count), self._continue)
        else:
            self._submit(
                lambda: before(self.recording, self.recording.at(since), -count), self._arrive
            )

    def change_speed(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        if step > 0:
            self.speed = next((each for each in SPEEDS if each > self.speed), self.speed)
        else:
            self.speed = next((each for each in reversed(SPEEDS) if each < self.speed), self.speed)
        if not self.is_stopped:
            self.play()

    def _arrive(self, samples: list[DecodedSample], about: str = "") -> None:
        self._deliver(samples, after_jump=True, about=about)
        self._play_next()

    def _continue(self, samples: list[DecodedSample]) -> None:
        if samples:
            self._deliver(samples, after_jump=False)
        else:
            self._end()

    def _play_next(self) -> None:
        if not self.paused:
            seconds = self.speed * _FRAME_SECONDS
            self._submit(lambda: following(self.recording, self._head, seconds), self._await)

    def _await(self, samples: list[DecodedSample]) -> None:
        """Deliver samples when they are due; report gaps and cut them short."""
        loop = self._loop
        if not samples or loop is None:
            self._end()
            return
        seconds = elapsed(self.latest, samples[-1].snapshot)
        gap = elapsed(self.latest, samples[0].snapshot)
        delay = seconds / self.speed
        if gap > max(_GAP_SECONDS, _GAP_INTERVALS * self.interval):
            self._gap = gap
            delay = min(delay, _GAP_PAUSE_SECONDS)
            self._on_change()

        def due() -> None:
            self._deliver(samples, after_jump=False)
            self._play_next()

        self._timer = loop.call_later(delay, due)

    def _end(self) -> None:
        if self._repeats and not self.paused:
            self.seek(self.recording.first.taken_at)
            return
        self.ended = True
        self._on_change()

    def _deliver(self, samples: list[DecodedSample], *, after_jump: bool, about: str = "") -> None:
        self._gap, self.error, self._about = 0.0, None, about
        self._take_head(samples, after_jump=after_jump)
        received = [Received(each.snapshot, each.sample.line) for each in samples]
        self._on_snapshots(received, after_jump)

    def _take_head(self, samples: list[DecodedSample], *, after_jump: bool) -> None:
        shown = DecodedSample(self._head, self.latest)
        self._count(samples if after_jump else [shown, *samples])
        self._head, self.latest = samples[-1]
        self.latest_line = self._head.line

    def _count(self, samples: list[DecodedSample]) -> None:
        """Record the intervals between consecutive samples."""
        for first, second in pairwise(samples):
            if seconds := elapsed(first.snapshot, second.snapshot):
                self._between.append(seconds)

    def _interrupt(self) -> None:
        """Discard requested reads that have not arrived yet."""
        self._reader.interrupt()
        self.ended, self._gap = False, 0.0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _submit(self, read: Read, on_read: OnRead) -> None:
        """Read samples in the thread, and use them unless interrupted."""
        self._reader.submit(read, on_read, self._fail)

    def _fail(self, error: str) -> None:
        self.error = f"recording: {error}"
        self._on_change()


class Replay(Timeline[D]):
    """The timeline of a recording: recently played samples are kept, the file has the rest."""

    is_recorded = True
    reaches_back = False

    def __init__(self, playback: Playback, kept: Kept[D], show: Callable[[D], object]) -> None:
        super().__init__(playback, kept, show)
        self._playback = playback

    @property
    def is_stopped(self) -> bool:
        """Whether it is not playing."""
        return not self.is_live or self._playback.is_stopped

    @property
    def known(self) -> Span:
        """When the first and the last sample of the file were taken."""
        return self._playback.recording.span

    @property
    def mark(self) -> str:
        """The state of the playback."""
        return self._playback.mark

    @property
    def pace(self) -> str:
        """The playback speed."""
        return f"{self._playback.speed:g}x"

    @property
    def message(self) -> str:
        """A gap, the end, or a note on the sample shown; empty for none."""
        return self._playback.message

    def receive(self, received: Sequence[Received[D]], after_jump: bool) -> None:
        """Keep the played samples, and show the last one."""
        if after_jump:
            self._kept.clear()
        self._stand(None)
        super().receive(received, after_jump)

    def toggle(self) -> None:
        """Stop playing, or play on from the sample that is shown."""
        if self.moment is None:
            self._playback.toggle()
        else:
            self._playback.play_from(self._kept.at(self.moment).taken_at)

    def step(self, samples: int) -> None:
        """Pause at an earlier or a later sample."""
        self._playback.pause()
        super().step(samples)

    def go_to(self, moment: datetime) -> None:
        """Go to an instant, and play on from there unless it was stopped."""
        self._playback.seek(moment)

    def change_speed(self, step: int) -> None:
        """Play faster (1) or slower (-1)."""
        self._playback.change_speed(step)

    def _go_before(self, samples: int) -> None:
        self._playback.step(samples, self._kept.at(self._kept.moments[0]).taken_at)

    def _go_behind(self, samples: int) -> None:
        self.go_live()
        if samples:
            self._playback.step(samples, self._kept.latest.taken_at)
