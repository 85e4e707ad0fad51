"""Time on the screen: which sample of a feed is shown, and navigation to others.

Pages step, seek and pause here, whatever the feed is. Other kinds of past are subclasses.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from gpudash.feed.instants import GAP_COUNTED, Span, is_gap
from gpudash.feed.protocol import D
from gpudash.model.units import duration
from gpudash.model.wire import Received

if TYPE_CHECKING:
    from gpudash.feed.protocol import Feed
    from gpudash.feed.recording.reader import Recording

R = TypeVar("R")
_STEP = timedelta(minutes=1)
"""The distance between requested instants."""
_SAME_SECONDS = 1.0
"""How far the sample of a requested instant may be from it."""
_MAX_LATE = 64
"""How many requested instants may still have samples on their way."""
_ROUNDING_SECONDS = 0.001
"""Rounding error of an instant converted from another clock."""


class Kept(Protocol[D]):
    """The recent samples of a feed, timed in seconds by their own clock."""

    @property
    def latest(self) -> D:
        """The newest sample; an empty one before the first."""

    @property
    def now(self) -> float:
        """The time of the newest sample."""

    @property
    def moments(self) -> Sequence[float]:
        """The times of all samples, oldest first."""

    @property
    def reaches_back(self) -> bool:
        """Whether older samples can be requested."""

    def push(self, snapshot: D, line: bytes) -> None:
        """Add the next sample, with the line that it was decoded from."""

    def at(self, moment: float) -> D:
        """Return the sample of an instant."""

    def is_partial(self, snapshot: D) -> bool:
        """Whether a complete sample of the same instant is on its way."""

    def freeze_last_row(self) -> None:
        """Let later samples change no number that is charted by now."""

    def visit(self, samples: Sequence[tuple[float, D]]) -> None:
        """Chart these samples and their instants instead of the pushed ones; empty to go back."""

    def clear(self) -> None:
        """Drop all samples."""


class Timeline(Generic[D]):
    """The samples of a feed; the newest is shown until the user goes to another.

    Each sample to show is passed to `show`.
    """

    is_recorded = False
    """Whether even the newest sample is old, so that actions on its host make no sense."""

    def __init__(
        self,
        feed: Feed[D],
        kept: Kept[D],
        show: Callable[[D], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.moment: float | None = None
        """The shown or requested instant, by the clock of the kept samples; None for the newest."""
        self.asked: datetime | None = None
        """The requested instant, if it is older than the kept samples."""
        self._feed, self._kept, self._show, self._clock = feed, kept, show, clock
        self._asked_lately: deque[datetime] = deque(maxlen=_MAX_LATE)
        self._is_paused = False
        self._is_waiting = False
        """Whether the sample of the instant was requested and has not arrived."""
        self._is_behind = False
        """Whether another instant was requested since the newest sample, with no live one since."""
        self._arrived_at = 0.0
        """When the newest sample was kept."""
        self._problem = ""
        """Why the requested sample is not shown; empty if it is."""

    # What pages read

    @property
    def is_live(self) -> bool:
        """Whether the newest sample is shown, and each new one."""
        return self.moment is None

    @property
    def is_past(self) -> bool:
        """Whether the user went to an instant before the newest sample."""
        return self.moment is not None and not self._is_paused and self.moment < self._now

    @property
    def is_stopped(self) -> bool:
        """Whether time stands still until a key is pressed."""
        return not self.is_live

    @property
    def reaches_back(self) -> bool:
        """Whether samples older than the kept ones can be requested."""
        return self._kept.reaches_back

    @property
    def known(self) -> Span | None:
        """The span of samples, as far as known; None if there are none."""
        moments = self._kept.moments
        return Span(self._date(moments[0]), self._date(self._now)) if moments else None

    @property
    def span(self) -> Span | None:
        """The span of samples that can be shown or requested, None if there are none."""
        known = self.known
        return known._replace(first=None) if known and self.reaches_back else known

    @property
    def mark(self) -> str:
        """The position in time, for the header: `PAUSED`, `0.5s AGO`, empty for the newest."""
        if self.moment is None:
            return "ASKING FOR NOW" if self._is_behind else ""
        if not self.is_past:
            return "PAUSED"
        past = _nearest(self._now - self.moment)
        return f"{'ASKING FOR ' if self._is_waiting else ''}{past} AGO"

    @property
    def pace(self) -> str:
        """The sample rate, for the header."""
        return f"every {self._feed.interval:g}s"

    @property
    def message(self) -> str:
        """The message about the instant shown; empty for none."""
        return self._problem

    # What the feed brings

    def receive(self, received: Sequence[Received[D]], after_jump: bool) -> None:
        """Keep the next samples of the feed; show the awaited one, or the newest if live.

        `after_jump` means that they do not continue earlier ones.
        """
        before = self._kept.latest
        for each in received:
            taken_at = each.snapshot.taken_at
            if self.asked is not None:
                # A sample that was on its way when another instant was requested is not it.
                if _is_same(taken_at, self.asked) and not self._kept.is_partial(each.snapshot):
                    self.moment, self._is_waiting = self._instant(taken_at), False
                    self._show(each.snapshot)
            elif taken_at >= self._kept.latest.taken_at or not self._was_asked_for(taken_at):
                # Any other older one is a present sample after the clock was set back.
                self._kept.push(each.snapshot, each.line)
                self._arrived_at, self._is_behind = self._clock(), False
        if self.is_live and self._kept.latest is not before:
            self._show(self._kept.latest)

    def catch_up(self) -> None:
        """Receive the latest sample of the feed, if it arrived while none was processed."""
        latest = self._feed.latest
        if latest is not None and latest is not self._kept.latest:
            self.receive([Received(latest, self._feed.latest_line)], after_jump=False)

    # What keys do

    def toggle(self) -> None:
        """Pause at the sample shown, or go on with the newest."""
        if not self.is_live:
            self.go_live()
        elif self._kept.moments:
            self._stand(self._kept.now, is_paused=True)

    def go_live(self) -> None:
        """Show the newest again, and each that arrives."""
        self._stand(None)
        if self._kept.moments:
            self._show(self._kept.latest)

    def step(self, samples: int) -> None:
        """Show an earlier or a later sample; after the last, go live."""
        if self.asked is not None:
            self.go_to(self.asked + samples * _STEP)
            return
        moments = self._kept.moments
        if not moments:
            return
        at = self._kept.now if self.moment is None else self.moment
        index = max(0, bisect_right(moments, at) - 1) + samples
        if index < 0:
            self._go_before(index)
        elif index < len(moments) - 1:
            self._show_kept(moments[index])
        else:
            self._go_behind(index - (len(moments) - 1))

    def go_to(self, moment: datetime) -> None:
        """Show the sample of an instant, else the first; the last goes live."""
        at, moments = self._instant(moment) + _ROUNDING_SECONDS, self._kept.moments
        if at >= self._now:
            self.go_live()
        elif at < moments[0] and self.reaches_back:
            self._stand(self._instant(moment), asked=moment)
        else:
            index = max(0, bisect_right(moments, at) - 1)
            near = [self._date(each) for each in moments[max(0, index - GAP_COUNTED) : index + 1]]
            self._show_kept(moments[index])
            if index + 1 < len(moments) and is_gap(moment, near[::-1]):
                self._problem = Span(near[-1], self._date(moments[index + 1])).missing

    def learn_span(self, on_known: Callable[[], object]) -> None:
        """Find out how far the past reaches, without waiting; call `on_known` if that is new."""

    def read_past(
        self,
        read: Callable[[Recording], R],
        on_read: Callable[[R | None], object],
        *,
        is_coarse: bool = False,
        is_asked: bool = True,
    ) -> None:
        """Read a history older than the kept samples, without waiting; do nothing if there is none.

        A coarse one is for long spans. `on_read` gets the result, None on failure, which is only
        reported if the user asked for it.
        """

    def change_speed(self, step: int) -> None:
        """Play faster (1) or slower (-1), if samples are played."""

    def _go_before(self, samples: int) -> None:
        """Show the sample `samples` (negative) before the first kept one, or that."""
        first = self._kept.moments[0]
        if self.reaches_back:
            self.go_to(self._date(first) + samples * _STEP)
        else:
            self._show_kept(first)

    def _go_behind(self, samples: int) -> None:
        """Show the sample `samples` after the newest kept one, or the newest."""
        self.go_live()

    def _show_kept(self, moment: float) -> None:
        self._stand(moment)
        self._show(self._kept.at(moment))

    def _stand(
        self, moment: float | None, *, asked: datetime | None = None, is_paused: bool = False
    ) -> None:
        """Stay at an instant, or follow the newest again if None."""
        self.moment, self.asked = moment, asked
        self._is_waiting, self._is_paused = asked is not None, is_paused
        self._problem = ""
        if asked is not None:
            self._asked_lately.append(asked)
            self._is_behind = True
        if moment is not None:
            self._kept.freeze_last_row()

    def _was_asked_for(self, taken_at: datetime) -> bool:
        """Whether a sample is of an instant that is no longer wanted."""
        return any(_is_same(taken_at, each) for each in self._asked_lately)

    @property
    def _now(self) -> float:
        """The present time; no sample of it comes while another instant is requested."""
        waited = self._clock() - self._arrived_at if self._is_behind else 0.0
        return self._kept.now + waited

    def _date(self, moment: float) -> datetime:
        """Convert an instant by the clock of the kept samples to a date."""
        return self._kept.latest.taken_at + timedelta(seconds=moment - self._kept.now)

    def _instant(self, moment: datetime) -> float:
        """Convert a date to an instant by that clock."""
        return self._kept.now + (moment - self._kept.latest.taken_at).total_seconds()


def _is_same(taken_at: datetime, asked: datetime) -> bool:
    return abs((taken_at - asked).total_seconds()) < _SAME_SECONDS


def _nearest(seconds: float) -> str:
    """Return a span to the nearest second, below one to the nearest tenth."""
    return f"{max(seconds, 0.1):.1f}s" if seconds < 0.95 else duration(round(seconds))
