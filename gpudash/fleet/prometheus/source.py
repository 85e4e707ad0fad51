"""A Prometheus as a source of hosts: which queries are made when, and their answers.

The utilization of all devices is queried every ten seconds, the rest more rarely, so that the
server works less than a second a minute for it. Anything that needs a look back (idle for an
hour, lost, a new XID error) is queried once and remembered from then on.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime, timezone
from functools import partial
from math import inf
from typing import Any

from msgspec.structs import replace

from gpudash.config.settings import Settings
from gpudash.fleet.lasting import Lasting
from gpudash.fleet.prometheus.charts import OpenChart
from gpudash.fleet.prometheus.client import Client
from gpudash.fleet.prometheus.dialects import FIELDS, MEMORY_TOTAL, known_series
from gpudash.fleet.prometheus.endpoint import TOKEN, Endpoint, endpoint, urls
from gpudash.fleet.prometheus.failures import MESSAGE_LENGTH, PrometheusError, public_url
from gpudash.fleet.prometheus.happened import PastEvents
from gpudash.fleet.prometheus.instant import Instant, QueryTask
from gpudash.fleet.prometheus.inventory import Inventory
from gpudash.fleet.prometheus.known import Row
from gpudash.fleet.prometheus.past import NAMES_PATH, NAMES_REFUSED, QUERY, RANGE, Ask, Past, oldest
from gpudash.fleet.prometheus.picture import STALE_SECONDS
from gpudash.fleet.prometheus.questions import DATES, INTERVAL_SECONDS
from gpudash.fleet.prometheus.workers import (
    IN_FLIGHT,
    MATRIX,
    NAMES,
    VECTOR,
    Outcome,
    Workers,
    answer_of,
    together,
)
from gpudash.fleet.source import Reading, Source
from gpudash.model.errors import UsageError
from gpudash.model.fleet import (
    ChartRequest,
    FleetHost,
    FleetRequest,
    FleetSnapshot,
    FleetSource,
)
from gpudash.model.report import Minute
from gpudash.model.text import SafeText, clean, did_you_mean
from gpudash.model.units import counted

_NAMES_SPAN = 600.0
_TIMEOUT_SECONDS = 30.0

_BEFORE_MAIN = {"names": "identity", "identity": "main"}
"""Queries made before main, each with the next one."""
_RETRY_SECONDS, _MAX_RETRY_SECONDS, _MAX_ABSENT_SECONDS = 5.0, 300.0, 30.0
"""After the first failure, after many, and while a server is unreachable and nothing is known.

A server that is starting says that it is busy, and is asked half as often.
"""
_LEAVES_ALONE = 401, 429
"""Statuses that ask for fewer requests."""
_REBUILD_SECONDS = 10.0
_MAX_WARNINGS = 20
_BRIEF = (
    "only a first picture: lost GPUs, hosts that are down, XID errors and idle times were not "
    "waited for, --timeout S waits for all"
)


def opened(options: Namespace, settings: Settings) -> Iterator[PrometheusSource]:
    """Yield a source for each URL; raises UsageError."""
    known = settings.fleet
    for name in known.metrics:
        if name not in known_series():
            hint = did_you_mean(name, known_series()) or "expected a name that an exporter has"
            raise UsageError(f"[fleet] metrics: {name!r} is unknown: {hint}")
    for url in urls("prometheus", options.prometheus, known.prometheus, "fleet"):
        found = endpoint(url, known, known.prometheus, token=os.environ.get(TOKEN))
        own = {name: getattr(known, name) for name in ("host_label", "look_back_days", "metrics")}
        yield PrometheusSource(replace(found, **own))


class PrometheusSource(Source):
    """Hosts of a Prometheus.

    All periods follow from the interval of the main query.
    """

    def __init__(self, endpoint: Endpoint, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._endpoint = endpoint
        self._pace = interval_seconds / INTERVAL_SECONDS
        self._clients = [Client(endpoint) for _ in range(IN_FLIGHT)]
        self._free = list(self._clients)
        self._workers = Workers(IN_FLIGHT + 1)
        self._happened = PastEvents(self.past, self._workers, self._pace)
        self._live = self._view = Instant(None, endpoint)
        self._charts: dict[ChartRequest, OpenChart] = {}
        self._hold_until = 0.0
        self._built: tuple[Instant, int, float, tuple[FleetHost, ...]] | None = None
        self.past_warnings: dict[SafeText, None] = {}
        """Warnings of the server in its last answers about the past, each text once."""

    def descriptors(self) -> Iterable[int]:
        """Return descriptors that become readable when there is something to do."""
        return (self._workers.descriptor,)

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do, infinity for never."""
        if not self._free:
            return inf
        due = [task.due_at for task in self._startable()]
        due += [chart.due_at for chart in self._charts.values()]
        due.append(self._happened.due_at)
        return max(0.0, max(min(due), self._hold_until) - time.monotonic())

    def ask(self, request: FleetRequest) -> None:
        """Show another instant, or the past of a metric."""
        at = None if request.at is None else request.at.timestamp()
        if at != self._view.at:
            self._view = self._live if at is None else Instant(at, self._endpoint)
        self._view.is_brief = request.is_brief
        if request.events_since is not None:
            self._happened.ask(request.events_since, request.events_until)
        known = self._charts
        self._charts = {chart: known.get(chart) or OpenChart(chart) for chart in request.charts}

    def advance(self) -> None:
        """Read the answers that have arrived, and start the queries that are due."""
        self._workers.finish()
        now = time.monotonic()
        if now < self._hold_until:
            return
        self._happened.ask_again(now)
        for task in self._startable():
            if self._free and task.due_at <= now:
                self._start(task)
        for chart in self._charts.values():
            if self._free and chart.due_at <= now:
                self._start_chart(chart)

    def is_partial(self) -> bool:
        """Whether `read` returns less than will soon be known; cheap to ask."""
        return not self._view.is_whole and self._view.core_error is None

    def date(self, lasting: Lasting) -> bool:
        """Find out since when findings have lasted; return whether some times are still to come."""
        view = self._view
        task = view.tasks[DATES]
        is_open = view.picture.memory.dates.want(lasting) and not task.failures
        if is_open and not task.is_in_flight:
            task.due_at, task.is_done = 0.0, task.is_done and view.at is None
        return is_open and task in view.wanted

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        view = self._view
        hosts = self._hosts(view)
        return Reading(
            report=self._report(view, hosts),
            hosts=hosts,
            jobs=view.picture.jobs(),
            at=None if view.at is None else datetime.fromtimestamp(view.at, timezone.utc),
            is_whole=view.is_whole,
            charts=tuple(each.answer for each in self._charts.values() if each.answer is not None),
            events=self._happened.events,
            lasted=view.picture.memory.lasted(view.now()),
        )

    def past(self, since: datetime, until: datetime) -> Iterator[FleetSnapshot]:
        """Yield snapshots from one instant to another; raises PrometheusError."""
        with closing(Client(self._endpoint)) as client:
            found = Past(*self._past_of(client))
            for each in found.snapshots(since.timestamp(), until.timestamp()):
                said = tuple(self.past_warnings)
                sources = tuple(replace(source, warnings=said) for source in each.sources)
                yield replace(each, sources=sources) if said else each

    def minutes(
        self, since: datetime, until: datetime, owners: Mapping[str, SafeText], *, by_host: bool
    ) -> Iterator[Minute]:
        """Yield the use of its hosts as `PastUse.minutes`; raises PrometheusError."""
        from gpudash.fleet.prometheus.use import PastUse

        with closing(Client(self._endpoint)) as client:
            used = PastUse(*self._past_of(client))
            span = since.timestamp(), until.timestamp()
            yield from used.minutes(*span, owners, by_host=by_host)

    def _past_of(self, client: Client) -> tuple[Ask, Inventory, str]:
        """Return what a past is made of; what asks also notes what is said against the answers."""
        said = self.past_warnings = {}

        def ask(path: str, parameters: list[tuple[str, str]], decoder: Any) -> Any:
            outcome = answer_of(client, path, parameters, decoder, _TIMEOUT_SECONDS)
            said.update(dict.fromkeys(clean(each, MESSAGE_LENGTH) for each in outcome.warnings))
            return outcome.data

        known = Inventory(self._endpoint.host_label, self._endpoint.metrics)
        return ask, known, public_url(self._endpoint.url)

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the threads; wait at most this long."""
        self._workers.close(wait_seconds, self._clients)

    def _hosts(self, view: Instant) -> tuple[FleetHost, ...]:
        built, now = self._built, time.monotonic()
        if built is None or built[:2] != (view, view.version) or now - built[2] > _REBUILD_SECONDS:
            self._built = built = view, view.version, now, view.picture.hosts(view.now())
        return built[3]

    def _report(self, view: Instant, hosts: tuple[FleetHost, ...]) -> FleetSource:
        has_answered = view.answered_at > -inf
        age = max(0.0, time.time() - view.answered_at) if has_answered else None
        error = view.core_error
        is_late = age is not None and age > STALE_SECONDS and view.at is None
        message = None if error is None else str(error)
        if error is None and is_late:
            message = "has not answered for some time"
        if age is None:
            state = "starting" if error is None else "failed"
        else:
            state = "ok" if message is None else "stale"
        if error is None and view.tasks["main"].is_done and not view.picture.inventory.hosts:
            state, message = "failed", "has no GPU metrics of an exporter that is known"
            if view.at is not None:
                message = self._why_empty(view)
                state = "starting" if message is None else state
        past = view.tasks["past"]
        return FleetSource(
            kind="prometheus",
            name=public_url(self._endpoint.url),
            state=state,  # type: ignore[arg-type]
            message=None if message is None else clean(message, MESSAGE_LENGTH),
            age_seconds=age,
            answering_hosts=sum(host.state == "ok" for host in hosts),
            expected_hosts=len(hosts) if past.is_done or past.failures else None,
            warnings=self._warnings(view),
            partial=not all(task.is_done or task.failures for task in view.tasks.values()),
            data_since=self._happened.data_since,
        )

    def _why_empty(self, view: Instant) -> str | None:
        """Return from when on there are data, None while that is being queried."""
        if not view.has_asked_oldest:
            view.has_asked_oldest = True

            def take(result: float | PrometheusError) -> None:
                view.oldest = inf if isinstance(result, PrometheusError) else result
                view.version += 1

            self._workers.ask(partial(self._with_client, oldest, view.now(), time.time()), take)
        if view.oldest is None:
            return None
        if view.oldest == inf:
            return "has no data of GPUs at that time"
        return f"has no data before {datetime.fromtimestamp(view.oldest):%Y-%m-%d %H:%M}"

    def _with_client(self, ask: Callable[..., float], *span: float) -> float:
        client = Client(self._endpoint)
        try:
            return ask(partial(_answer, client), *span)
        finally:
            client.close()

    def _warnings(self, view: Instant) -> tuple[SafeText, ...]:
        texts = [text for task in view.tasks.values() for text in task.warnings]
        # Without any answer, none is partial.
        is_there = view.core_error is None
        for task in view.tasks.values():
            if task.error is not None and not task.is_core and is_there:
                texts.append(f"{task.name}: {task.error}")
        if view.is_brief:
            texts.append(_BRIEF)
        if self._happened.error is not None:
            texts.append(f"events: {self._happened.error}")
        if view.picture.wrong_values:
            texts.append(counted(view.picture.wrong_values, "impossible value"))
        unique = dict.fromkeys(clean(text, MESSAGE_LENGTH) for text in texts)
        return tuple(unique)[:_MAX_WARNINGS]

    def _startable(self) -> list[QueryTask]:
        view = self._view
        tasks = [task for task in view.wanted if not task.is_in_flight and view.is_ready(task)]
        return [task for task in tasks if view.at is None or not task.is_done]

    def _start(self, task: QueryTask) -> None:
        view = self._view
        take = partial(self._take, view, task)
        at = view.at
        if task.name == "names":
            end = time.time() if at is None else at
            selector = view.picture.inventory.catalog.selector
            span = [("start", f"{end - _NAMES_SPAN:.0f}"), ("end", f"{end:.0f}")]
            self._ask(NAMES_PATH, [*span, ("match[]", selector)], NAMES, take)
            task.is_in_flight = True
            return
        task.left, task.parts = task.query.expressions(view.picture), []
        if task.left:
            self._ask_part(view, task)
        else:
            self._finish(view, task, 0.0)

    def _ask_part(self, view: Instant, task: QueryTask) -> None:
        """Ask for the next part of a task."""
        at, query = view.at, task.left.pop(0)
        parameters = [("query", query)] + ([] if at is None else [("time", f"{at:.3f}")])
        is_sum = task.name == MEMORY_TOTAL
        if at is None and not is_sum and any(client.can_lag for client in self._clients):
            # Some series of the newest scrape may still be missing, which matters only for a sum.
            parameters.append(("nocache", "1"))
        self._ask(QUERY, parameters, VECTOR, partial(self._take, view, task))
        task.is_in_flight = True

    def _start_chart(self, chart: OpenChart) -> None:
        picture = self._view.picture
        parameters = chart.parameters(picture, self._view.now())
        if parameters is not None:
            self._ask(RANGE, parameters, MATRIX, partial(chart.take, picture))

    def _ask(
        self,
        path: str,
        parameters: list[tuple[str, str]],
        decoder: Any,
        take: Callable[[Outcome | PrometheusError], None],
    ) -> None:
        """Make a request by a free client."""
        client = self._free.pop()

        def taken(result: Outcome | PrometheusError) -> None:
            self._free.append(client)
            take(result)

        work = partial(answer_of, client, path, parameters, decoder, _TIMEOUT_SECONDS)
        self._workers.ask(work, taken)

    def _take(self, view: Instant, task: QueryTask, result: Outcome | PrometheusError) -> None:
        task.is_in_flight = False
        if isinstance(result, PrometheusError):
            task.warnings = ()
            self._fail(view, task, result)
            return
        task.parts.append(result)
        if task.left:
            self._ask_part(view, task)
            return
        result, task.parts = together(task.parts), []
        task.warnings = result.warnings
        if task.name in ("identity", "main", *FIELDS):
            if task.had_series and not result.data.result:
                if task.is_core:
                    self._doubt(view)
                text = "answers without any series, of which there were some"
                self._fail(view, task, PrometheusError(text))
                return
            task.had_series = bool(result.data.result)
        self._answer(view, task, result)
        self._finish(view, task, result.seconds)

    def _finish(self, view: Instant, task: QueryTask, seconds: float) -> None:
        """Set the next time of a task so that all of them stay within the server's share."""
        now, was_whole = time.monotonic(), view.is_whole
        if task.is_core and task.failures:
            # The server is back, so that other failed tasks need not wait.
            for each in view.tasks.values():
                each.due_at = min(each.due_at, now) if each.failures else each.due_at
        task.is_done, task.failures, task.error = True, 0, None
        task.took.append(seconds)
        others = (each for each in view.tasks.values() if each.name != "main")
        load = sum(each.cost / each.period for each in others)
        picture = view.picture
        has_hosts = bool(picture.inventory.hosts)
        period = task.query.seconds(task.cost, load, has_hosts=has_hosts, is_late=picture.is_late)
        task.due_at = now + period * self._pace
        if view.is_doubted and task.name in _BEFORE_MAIN:
            view.tasks[_BEFORE_MAIN[task.name]].due_at = now
        # The rest becomes visible with the next values, once all is there.
        if task.name == "main" or view.at is not None or not was_whole:
            view.version += 1
        self._hold_until = 0.0

    def _fail(self, view: Instant, task: QueryTask, error: PrometheusError) -> None:
        """Keep the last answer, and retry later; an overloaded server is left alone for longer."""
        if task.name == "names" and error.status in NAMES_REFUSED and not task.failures:
            # A server without this request may have the metrics all the same.
            view.picture.inventory.set_names(())
            self._finish(view, task, 0.0)
            return
        task.failures += 1
        task.error = error
        wait = self._pace * _RETRY_SECONDS * 2.0 ** (task.failures - 1 + error.is_busy)
        is_absent = task.is_core and error.status not in _LEAVES_ALONE
        longest = _MAX_ABSENT_SECONDS * (1 + error.is_busy) if is_absent else _MAX_RETRY_SECONDS
        task.due_at = time.monotonic() + min(wait, longest)
        if task.is_core or error.status in (0, *_LEAVES_ALONE):
            self._hold_until = task.due_at

    def _answer(self, view: Instant, task: QueryTask, outcome: Outcome) -> None:
        picture = view.picture
        if task.name == "names":
            # The clocks may differ by more than the requested span.
            picture.inventory.set_names(outcome.data)
            return
        rows: list[Row] = outcome.data.result
        at = next((row.value[0] for row in rows if row.value), view.now())
        if task.name == "main":
            self._take_main(view, rows, at, is_partial=bool(outcome.warnings))
        else:
            # Data older than a span must not look younger because answers take time or because
            # servers round their times.
            task.query.take(picture, rows, min(at, view.now()))

    def _doubt(self, view: Instant) -> None:
        """Query names and labels at once, and then the present data again."""
        view.is_doubted = True
        view.tasks["names"].due_at = 0.0

    def _take_main(self, view: Instant, rows: list[Row], at: float, *, is_partial: bool) -> None:
        now = time.time()
        if view.at is None and now - view.answered_at > STALE_SECONDS:
            # Nothing was seen for a while: query again what is remembered.
            view.picture.resume()
            for task in view.tasks.values():
                if task.period == inf:
                    task.due_at = 0.0
        view.answered_at = now
        # An answer that follows a doubt is not doubted again.
        may_doubt = view.at is None and not view.is_doubted
        view.is_doubted = False
        if view.picture.take_main(rows, at, is_partial=is_partial, may_doubt=may_doubt):
            self._doubt(view)
        identity = view.tasks["identity"]
        if view.picture.inventory.has_unknown:
            soon = time.monotonic() + _RETRY_SECONDS * self._pace
            identity.due_at = min(identity.due_at, soon)


def _answer(client: Client, path: str, parameters: list[tuple[str, str]], decoder: Any) -> Any:
    """Wait for an answer and return its data; raises PrometheusError."""
    return answer_of(client, path, parameters, decoder, _TIMEOUT_SECONDS).data
