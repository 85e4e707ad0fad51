"""The timeline of a collector that is a service: beyond kept samples, its history.

The history is read in a thread, independently of the collector, whose samples are kept meanwhile.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from gpudash.feed.instants import Span
from gpudash.feed.protocol import D
from gpudash.feed.timeline import Kept, R, Timeline

if TYPE_CHECKING:
    from gpudash.feed.background import Background
    from gpudash.feed.protocol import Feed
    from gpudash.feed.recording.reader import Recording, Sample
    from gpudash.feed.recording.samples import DecodedSample

_JUST_BEFORE = timedelta(microseconds=1)
_FRESH_SECONDS = 60.0
"""How long an opened history is reused: it grows."""


class _Asked(NamedTuple):
    """A sample of the history: this many after an instant, or before it if negative."""

    moment: datetime
    steps: int = 0
    is_named: bool = False
    """Whether the user named the instant, so that a message says if no sample is near it."""


class Visits(Timeline[D]):
    """The timeline of a collector, continued in the history of its service."""

    def __init__(
        self,
        feed: Feed[D],
        kept: Kept[D],
        show: Callable[[D], object],
        adapt: Callable[[D], D],
        changed: Callable[[], object],
    ) -> None:
        """Samples that are read pass through `adapt`; `changed` is called once they are shown."""
        super().__init__(feed, kept, show)
        self._adapt, self._changed = adapt, changed
        self._recording: tuple[float, Recording] | None = None
        """The history, and when it was opened."""
        self._visited: _Asked | None = None
        """The shown or requested sample of the history, None for a kept sample."""
        self._shown: datetime | None = None
        """The time of the shown history sample; None for any other."""

    @cached_property
    def _background(self) -> Background:
        # The first frame does not wait for the imports.
        from gpudash.feed.background import Background

        background = Background()
        background.start()
        return background

    @property
    def reaches_back(self) -> bool:
        """Whether the newest sample is from a service, which may have a history, or had one.

        For a service that has ended, a message says why its history cannot be read.
        """
        return (
            self._recording is not None
            or getattr(self._kept.latest, "collected_by", None) is not None
        )

    @property
    def known(self) -> Span | None:
        """The span from the first sample of the history, once it was read, or of those kept."""
        known = super().known
        if known is None or self._recording is None:
            return known
        return _joined(self._recording[1], known)

    @property
    def span(self) -> Span | None:
        """The known span, once the history was read."""
        return super().span if self._recording is None else self.known

    def step(self, samples: int) -> None:
        """Show an earlier or a later sample, of the history if one of it is shown."""
        if self._visited is None:
            super().step(samples)
        else:
            self._visit(self._visited._replace(steps=self._visited.steps + samples))

    def go_to(self, moment: datetime) -> None:
        """Show the sample of an instant, from the history if it is older than those kept."""
        moments = self._kept.moments
        if moments and self.reaches_back and moment < self._date(moments[0]):
            self._visit(_Asked(moment, is_named=True))
        else:
            super().go_to(moment)

    def learn_span(self, on_known: Callable[[], object]) -> None:
        """Read the history for its first sample; errors are shown only when it is needed."""
        if self.reaches_back and self._recording is None:
            self._background.submit(
                self._opened, lambda _: on_known(), lambda _: None, is_lasting=True
            )

    def read_past(
        self,
        read: Callable[[Recording], R],
        on_read: Callable[[R | None], object],
        *,
        is_coarse: bool = False,
        is_asked: bool = True,
    ) -> None:
        """Read the history in the thread."""
        if not self.reaches_back:
            return

        def open_and_read() -> R:
            from gpudash.feed.past import open_past
            from gpudash.system.memory import give_back_freed

            try:
                return read(open_past(is_coarse=True) if is_coarse else self._opened())
            finally:
                give_back_freed()

        def take(found: R | None) -> None:
            on_read(found)
            self._changed()

        def fail(error: str) -> None:
            on_read(None)
            self._show_problem(error) if is_asked else self._changed()

        self._background.submit(open_and_read, take, fail, is_lasting=True)

    def _show_problem(self, error: str) -> None:
        self._problem = f"history: {error}"
        self._changed()

    def _go_before(self, samples: int) -> None:
        first = self._kept.moments[0]
        if self.reaches_back:
            self._visit(_Asked(self._date(first) - _JUST_BEFORE, samples + 1))
        else:
            self._show_kept(first)

    def _visit(self, asked: _Asked) -> None:
        """Wait for a sample of the history."""
        self._background.interrupt()
        if self.moment is None:
            self._kept.freeze_last_row()
        self.moment, self._visited = self._instant(asked.moment), asked
        self._is_waiting, self._is_paused, self._problem = True, False, ""

        kept = super().known

        def read() -> tuple[DecodedSample | None, str]:
            from gpudash.feed.recording.samples import DecodedSample

            recording = self._opened()
            about = _about(recording, asked.moment, kept) if asked.is_named and kept else ""
            sample = _found(recording, asked)
            if sample is None:
                return None, about
            snapshot: Any = sample.snapshot()
            return DecodedSample(sample, self._adapt(snapshot)), about

        self._background.submit(read, self._arrive, self._fail)

    def _opened(self) -> Recording:
        """Return the history as of now or a moment ago."""
        from gpudash.feed.past import open_past

        now = time.monotonic()
        if self._recording is None or now - self._recording[0] > _FRESH_SECONDS:
            self._recording = now, open_past()
        return self._recording[1]

    def _arrive(self, arrived: tuple[DecodedSample | None, str]) -> None:
        """Show a sample and its message, or the first kept one if none is before that."""
        first, (found, about) = self._kept.moments[0], arrived
        if found is None or found.sample.taken_at >= self._date(first):
            self._show_kept(first)
            self._problem = about
            self._changed()
            return
        taken_at, self._problem = found.sample.taken_at, about
        self._visited, self._shown, self._is_waiting = _Asked(taken_at), taken_at, False
        self.moment = self._instant(taken_at)
        self._kept.visit([(self.moment, found.snapshot)])
        self._show(found.snapshot)
        self._changed()

        def read() -> list[tuple[datetime, Any]]:
            from gpudash.feed.recording.samples import with_past

            past = with_past(self._opened(), found.sample)
            return [(each.sample.taken_at, self._adapt(each.snapshot)) for each in past]

        self._background.submit(read, self._take_past, self._fail)

    def _take_past(self, past: list[tuple[datetime, Any]]) -> None:
        """Chart the samples before the one shown."""
        self._kept.visit([(self._instant(at), snapshot) for at, snapshot in past])
        self._show(past[-1][1])
        self._changed()

    def _fail(self, error: str) -> None:
        """Show the former sample again, and the error."""
        if self._shown is None:
            self._show_kept(self._kept.moments[0])
        else:
            self._visited, self._is_waiting = _Asked(self._shown), False
            self.moment = self._instant(self._shown)
        self._show_problem(error)

    def _stand(
        self, moment: float | None, *, asked: datetime | None = None, is_paused: bool = False
    ) -> None:
        """Leave the history."""
        if self._visited is not None:
            self._background.interrupt()
        self._visited = self._shown = None
        self._kept.visit(())
        super()._stand(moment, asked=asked, is_paused=is_paused)


def _about(recording: Recording, moment: datetime, kept: Span) -> str:
    """Return a message if no sample is near an instant before the kept ones, else empty."""
    from gpudash.feed.recording.samples import gap_at

    there = _joined(recording, kept)
    if not there.has(moment):
        return f"{moment.astimezone():%F %T} {there.outside}"
    return gap_at(recording, moment, kept.first)


def _joined(recording: Recording, kept: Span) -> Span:
    first = recording.first.taken_at
    return kept._replace(first=first if kept.first is None else min(first, kept.first))


def _found(recording: Recording, asked: _Asked) -> Sample | None:
    """Return a sample, the first if there are fewer before it; None after the last."""
    found = recording.at(asked.moment)
    if asked.steps > 0:
        return next(islice(recording.after(found), asked.steps - 1, None), None)
    earlier = list(islice(recording.before(found), -asked.steps))
    return earlier[-1] if earlier else found
