"""Time on the screen: which sample of a feed is shown, and the ways to others.

Pages step, go and stop here whatever the feed is. Another kind of past is another subclass.
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
"""How far apart instants are that are asked for."""
_SAME_SECONDS = 1.0
"""How far from an instant that was asked for its sample may be."""
_MAX_LATE = 64
"""How many instants may have been asked for whose samples are on their way."""
_ROUNDING_SECONDS = 0.001
"""What an instant may be off by once it was on another clock."""


class Kept(Protocol[D]):
    """The samples that a feed brought lately, timed in seconds by a clock of their own."""

    @property
    def latest(self) -> D:
        """The newest; an empty one before the first."""

    @property
    def now(self) -> float:
        """The instant of the newest."""

    @property
    def moments(self) -> Sequence[float]:
        """The instants of all, oldest first."""

    @property
    def reaches_back(self) -> bool:
        """Whether older ones can be asked for."""

    def push(self, snapshot: D, line: bytes) -> None:
        """Add the next with the line that it was decoded from."""

    def at(self, moment: float) -> D:
        """Return the one of an instant."""

    def is_partial(self, snapshot: D) -> bool:
        """Whether a whole one of the same instant is on its way."""

    def freeze_last_row(self) -> None:
        """Keep what is charted up to now as it is."""

    def visit(self, samples: Sequence[tuple[float, D]]) -> None:
        """Chart other samples, with their instants, than those that were pushed; none for these."""

    def clear(self) -> None:
        """Drop all."""


class Timeline(Generic[D]):
    """The samples of a feed, of which the newest is shown until its user goes to another.

    Each that is to be shown is passed to `show`.
    """

    is_recorded = False
    """Whether even the newest is of another time, and its host of no concern to any action."""

    def __init__(
        self,
        feed: Feed[D],
        kept: Kept[D],
        show: Callable[[D], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.moment: float | None = None
        """The instant that is shown or waited for, on the clock of what is kept; None: newest."""
        self.asked: datetime | None = None
        """The same where it is older than what is kept, and has to be asked for."""
        self._feed, self._kept, self._show, self._clock = feed, kept, show, clock
        self._asked_lately: deque[datetime] = deque(maxlen=_MAX_LATE)
        self._is_paused = False
        self._is_waiting = False
        """Whether the sample of the instant was asked for, and has not arrived."""
        self._is_behind = False
        """Whether another instant was asked for since the newest sample, and none came of now."""
        self._arrived_at = 0.0
        """When the newest sample was kept."""
        self._problem = ""
        """Why what was asked for is not shown; empty if it is."""

    # What pages read

    @property
    def is_live(self) -> bool:
        """Whether the newest sample is shown, and each that arrives."""
        return self.moment is None

    @property
    def is_past(self) -> bool:
        """Whether the user went to an instant before the newest sample."""
        return self.moment is not None and not self._is_paused and self.moment < self._now

    @property
    def is_stopped(self) -> bool:
        """Whether a key is needed to let time go on."""
        return not self.is_live

    @property
    def reaches_back(self) -> bool:
        """Whether samples can be asked for that are older than those that are kept."""
        return self._kept.reaches_back

    @property
    def known(self) -> Span | None:
        """From when to when there are samples, as far as is known; None while there are none."""
        moments = self._kept.moments
        return Span(self._date(moments[0]), self._date(self._now)) if moments else None

    @property
    def span(self) -> Span | None:
        """From when to when samples can be shown or asked for, None while there are none."""
        known = self.known
        return known._replace(first=None) if known and self.reaches_back else known

    @property
    def mark(self) -> str:
        """Where time stands, for the header: `PAUSED`, `0.5s AGO`, nothing for the newest."""
        if self.moment is None:
            return "ASKING FOR NOW" if self._is_behind else ""
        if not self.is_past:
            return "PAUSED"
        past = _nearest(self._now - self.moment)
        return f"{'ASKING FOR ' if self._is_waiting else ''}{past} AGO"

    @property
    def pace(self) -> str:
        """How often there is a sample, for the header."""
        return f"every {self._feed.interval:g}s"

    @property
    def message(self) -> str:
        """What there is to say about the instant that is shown; empty for nothing."""
        return self._problem

    # What the feed brings

    def receive(self, received: Sequence[Received[D]], after_jump: bool) -> None:
        """Keep the next samples of the feed; show what was waited for, or the newest if live.

        `after_jump` is whether those before are not their past.
        """
        before = self._kept.latest
        for each in received:
            taken_at = each.snapshot.taken_at
            if self.asked is not None:
                # What was on its way when another instant was asked for is not that.
                if _is_same(taken_at, self.asked) and not self._kept.is_partial(each.snapshot):
                    self.moment, self._is_waiting = self._instant(taken_at), False
                    self._show(each.snapshot)
            elif taken_at >= self._kept.latest.taken_at or not self._was_asked_for(taken_at):
                # Any other that is older is the present of a clock that was set back.
                self._kept.push(each.snapshot, each.line)
                self._arrived_at, self._is_behind = self._clock(), False
        if self.is_live and self._kept.latest is not before:
            self._show(self._kept.latest)

    def catch_up(self) -> None:
        """Receive the latest of the feed, if that arrived while none was taken."""
        latest = self._feed.latest
        if latest is not None and latest is not self._kept.latest:
            self.receive([Received(latest, self._feed.latest_line)], after_jump=False)

    # What keys do

    def toggle(self) -> None:
        """Stay at the sample that is shown, or go on with the newest."""
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
        """Show an earlier or a later sample; behind the last it is live again."""
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
        """Show the sample of an instant, the first where there is none; the last is live."""
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
        """Learn how far the past reaches, without waiting; `on_known` is called if that is new."""

    def read_past(
        self,
        read: Callable[[Recording], R],
        on_read: Callable[[R | None], object],
        *,
        is_coarse: bool = False,
        is_asked: bool = True,
    ) -> None:
        """Read of a history behind what is kept, without waiting; nothing where there is none.

        A coarse one is for long times. `on_read` gets what was read, None if it cannot be, of
        which nothing is said unless the user has asked.
        """

    def change_speed(self, step: int) -> None:
        """Play faster (1) or slower (-1), where samples are played."""

    def _go_before(self, samples: int) -> None:
        """Show the sample `samples`, a negative number, from the first that is kept, or that."""
        first = self._kept.moments[0]
        if self.reaches_back:
            self.go_to(self._date(first) + samples * _STEP)
        else:
            self._show_kept(first)

    def _go_behind(self, samples: int) -> None:
        """Show the sample `samples` after the newest that is kept, or the newest."""
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
        """Whether a sample is of an instant that is not wanted any more, and comes late."""
        return any(_is_same(taken_at, each) for each in self._asked_lately)

    @property
    def _now(self) -> float:
        """The present, of which no sample comes while another instant is asked for."""
        waited = self._clock() - self._arrived_at if self._is_behind else 0.0
        return self._kept.now + waited

    def _date(self, moment: float) -> datetime:
        """Return the date of an instant on the clock of what is kept."""
        return self._kept.latest.taken_at + timedelta(seconds=moment - self._kept.now)

    def _instant(self, moment: datetime) -> float:
        """Return an instant on that clock."""
        return self._kept.now + (moment - self._kept.latest.taken_at).total_seconds()


def _is_same(taken_at: datetime, asked: datetime) -> bool:
    return abs((taken_at - asked).total_seconds()) < _SAME_SECONDS


def _nearest(seconds: float) -> str:
    """Return a span to the nearest second, below one to the nearest tenth: samples may be close."""
    return f"{max(seconds, 0.1):.1f}s" if seconds < 0.95 else duration(round(seconds))
