"""The events of a span that a screen shows, found by a separate thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import partial
from itertools import chain, islice
from math import inf

from gpudash.fleet.event_log import with_later
from gpudash.fleet.events import events
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.workers import Workers
from gpudash.model.fleet import Event, FleetSnapshot

_AGAIN_SECONDS = 300.0, 720.0
"""After how long the end of the span is read again: with coarse steps, and with exporters scraped
every minute or more rarely, a loss shows only then.
"""
_LAST_SECONDS, _LAST_SPANS = 600.0, 3
"""How long that end is at least, and in multiples of the first answer's `within_seconds`: two
steps and the last look back are shorter.
"""

_Found = tuple[Sequence[FleetSnapshot], Sequence[Event]]


class PastEvents:
    """The events of one span, whose end is read again later."""

    def __init__(
        self,
        past: Callable[[datetime, datetime], Iterator[FleetSnapshot]],
        workers: Workers,
        pace: float,
    ) -> None:
        """`past` is a source's; `pace` scales all times."""
        self.events: tuple[Event, ...] | None = None
        """None if not asked for, or while the query runs."""
        self.data_since: datetime | None = None
        """The first instant of the span with data, None if unknown."""
        self.error: PrometheusError | None = None
        self._past, self._workers, self._pace = past, workers, pace
        self._span: tuple[datetime, datetime | None] | None = None
        self._again: list[tuple[float, Callable[[], None]]] = []
        """When to read the end of the span again, and the function that does."""

    @property
    def due_at(self) -> float:
        """When the end of the span is read again, infinity for never."""
        return self._again[0][0] if self._again else inf

    def ask(self, since: datetime, until: datetime | None) -> None:
        """Find the events of a span, if it is new; `until` None is the server's present."""
        span = since, until
        if span == self._span:
            return
        self._span, self.events, self._again, self.data_since = span, None, [], None
        asked_at = datetime.now(timezone.utc)

        def take(result: _Found | PrometheusError) -> None:
            if span != self._span:
                return
            if isinstance(result, PrometheusError):
                self.error = result
                if self.events is None:
                    # Repeated with the next request that differs.
                    self._span, self.events = None, ()
                return
            first, happened = result
            if self.events is None:
                self.data_since = first[0].taken_at if first else None
            if self.events is None and (until is None or until > asked_at):
                within = [each.sources[0].within_seconds or 0.0 for each in first]
                length = max(_LAST_SECONDS, _LAST_SPANS * max(within, default=0.0))
                last = max(since, asked_at - timedelta(seconds=length))
                ask, now = partial(self._workers.ask, partial(found, last), take), time.monotonic()
                self._again = [(now + seconds * self._pace, ask) for seconds in _AGAIN_SECONDS]
            self.events, self.error = with_later(self.events or (), happened), None

        def found(start: datetime) -> _Found:
            # The server's clock sets its present, and may be ahead of ours.
            past = self._past(start, until or datetime.now(timezone.utc) + timedelta(days=1))
            first = [*islice(past, 1)]
            return first, [*events(chain(first, past))]

        self._workers.ask(partial(found, since), take)

    def ask_again(self, now: float) -> None:
        """Read the end of the span again if that is due; `now` is monotonic."""
        if self.due_at <= now:
            _, ask = self._again.pop(0)
            ask()
