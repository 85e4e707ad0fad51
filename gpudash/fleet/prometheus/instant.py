"""The queries about one instant, the present or one in the past, and their progress."""

from __future__ import annotations

import time
from collections import deque
from math import inf

from gpudash.analysis.health.rules.reliability import DAY_SECONDS
from gpudash.fleet.prometheus.endpoint import Endpoint
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.questions import Query, questions
from gpudash.fleet.prometheus.workers import Outcome

_MEASURED = 4


class QueryTask:
    """A query of a view: when it is due, and how it went."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.name, self.period, self.is_core = query.name, query.period, query.is_core
        self.due_at = 0.0
        self.is_in_flight = self.is_done = self.had_series = False
        self.left: list[str] = []
        """Its remaining parts, in PromQL."""
        self.parts: list[Outcome] = []
        """The answers so far."""
        self.took: deque[float] = deque(maxlen=_MEASURED)
        """Durations of the last runs in seconds; the shortest is closest to the server's work."""
        self.failures = 0
        self.error: PrometheusError | None = None
        self.warnings: tuple[str, ...] = ()

    @property
    def cost(self) -> float:
        """Seconds that it takes, 0 if unknown."""
        return min(self.took, default=0.0)


class Instant:
    """The present, or an instant in the past; `at` is that instant, None for the present."""

    def __init__(self, at: float | None, endpoint: Endpoint) -> None:
        self.at = at
        look_back = endpoint.look_back_days * DAY_SECONDS
        self.picture = Picture(endpoint.host_label, look_back, endpoint.metrics)
        self.version = 0
        """Counts visible changes."""
        self.answered_at = -inf
        """When the main query was answered, by the wall clock: other clocks stop during suspend."""
        self.oldest: float | None = None
        """From when on there are data, infinity for never, None while unknown."""
        self.has_asked_oldest = False
        self.tasks = {query.name: QueryTask(query) for query in questions(look_back)}
        self.is_brief = False
        """Whether only the queries of a first picture are made."""
        self.is_doubted = False
        """Whether vanished devices may have new names, which are queried first."""

    @property
    def wanted(self) -> list[QueryTask]:
        """All queries to make."""
        return [
            task
            for task in self.tasks.values()
            if not self.is_brief or task.is_core or task.query.is_brief
        ]

    def is_ready(self, task: QueryTask) -> bool:
        """Whether the query that a task builds on was answered, or failed and is optional."""
        before = self.tasks.get(task.query.after)
        return before is None or before.is_done or (before.failures > 0 and not before.is_core)

    @property
    def is_whole(self) -> bool:
        """Whether all queries have been answered or refused."""
        return all(task.is_done or task.failures for task in self.wanted)

    @property
    def core_error(self) -> PrometheusError | None:
        """Why nothing is known, or only old data."""
        return next(
            (task.error for task in self.tasks.values() if task.is_core and task.error), None
        )

    def now(self) -> float:
        """Return the server's time, or the instant in the past."""
        if self.at is not None:
            return self.at
        return self.picture.now + max(0.0, time.time() - self.answered_at)
