"""Exporters read directly, without a Prometheus: one connection each, every ten seconds.

Exporters have no past: GPUs lost before the start are not known to be missing.
"""

from __future__ import annotations

import os
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from math import inf
from urllib.parse import urlsplit

from msgspec import Raw, json
from msgspec.structs import replace

from gpudash.config.settings import Settings
from gpudash.fleet.prometheus.client import Client
from gpudash.fleet.prometheus.dialects import INSTANCE_LABEL, known_series
from gpudash.fleet.prometheus.endpoint import TOKEN, Endpoint, endpoint, has_credentials, urls
from gpudash.fleet.prometheus.failures import MESSAGE_LENGTH, PrometheusError, public_url
from gpudash.fleet.prometheus.known import Row
from gpudash.fleet.prometheus.picture import Picture
from gpudash.fleet.prometheus.queries import Metric
from gpudash.fleet.prometheus.questions import questions
from gpudash.fleet.prometheus.workers import Workers
from gpudash.fleet.source import Reading, Source
from gpudash.model.errors import UsageError
from gpudash.model.fleet import FleetSource
from gpudash.model.text import clean

MAX_EXPORTERS = 64

_SECONDS = 10.0
_DEADLINE = 5.0
_PATIENCE = 1.0
"""How long to wait for a late page once others have arrived."""
_DEFAULT_PATH = "/metrics"
_JOB = "scrape"
_WITHHELD = (
    f"{TOKEN} and the credentials in [fleet] are not for exporters: see [exporters] in the settings"
)
_MISSING = "--scrape needs a library that is not installed: pip install 'gpudash[scrape]'"


_Sample = tuple[dict[str, str], float]
_Samples = dict[str, list[_Sample]]


def opened(options: Namespace, settings: Settings) -> Iterator[ScrapeSource]:
    """Yield the source of all exporters; raises UsageError."""
    own = settings.exporters
    found = urls("scrape", options.scrape, own.urls, "exporters", separator=",")
    yield ScrapeSource([_exporter(url, settings) for url in found])


def _exporter(url: str, known: Settings) -> Endpoint:
    own = known.exporters
    found = replace(endpoint(url, own, own.urls), host_label=known.fleet.host_label)
    has_others = TOKEN in os.environ or has_credentials(known.fleet)
    if has_others and not has_credentials(own):
        return replace(found, withheld=_WITHHELD)
    return found


class _Page:
    """An exporter and its last answer."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.client = Client(endpoint, "exporter")
        parts = urlsplit(endpoint.url)
        self.path = "" if parts.path.strip("/") else _DEFAULT_PATH
        self.target = {"job": _JOB, "instance": parts.netloc.rpartition("@")[2]}
        self.is_pending = False
        self.read_at = 0.0
        self.samples: _Samples = {}
        self.error: PrometheusError | None = None

    def fetch(self) -> _Samples:
        """Return its samples of GPUs, by metric; raises PrometheusError."""
        from prometheus_client.parser import text_string_to_metric_families

        samples: _Samples = {}
        text = self.client.request(self.path, [], _DEADLINE).decode("utf-8", "replace")
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if sample.name in known_series():
                        labels = {**sample.labels, **self.target, "__name__": sample.name}
                        samples.setdefault(sample.name, []).append((labels, sample.value))
        except (ValueError, KeyError, IndexError) as error:
            # Raised by the parser for text in another format.
            problem = f"does not answer in Prometheus' text format: {error}"
            raise PrometheusError(problem) from None
        return samples


class ScrapeSource(Source):
    """Hosts of exporters."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        try:
            import prometheus_client.parser  # noqa: F401
        except ImportError:
            raise UsageError(_MISSING) from None
        if len(endpoints) > MAX_EXPORTERS:
            count = len(endpoints)
            raise UsageError(f"--scrape got {count} exporters: for over 64 use --prometheus")
        self._pages = [_Page(endpoint) for endpoint in endpoints]
        self._name = ", ".join(public_url(endpoint.url) for endpoint in endpoints)
        host_label = next((each.host_label for each in endpoints if each.host_label), None)
        self._picture = Picture(host_label)
        self._questions = [query for query in questions() if query.is_of_exporters]
        self._began_at = self._applied_at = -inf
        self._has_new = False
        self._workers = Workers(len(self._pages))

    def descriptors(self) -> Iterable[int]:
        """Return descriptors that become readable when there is something to do."""
        return (self._workers.descriptor,)

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do, infinity for never."""
        now = time.monotonic()
        due = self._began_at + _SECONDS
        if self._has_new:
            due = min(due, max(self._began_at, self._applied_at) + _PATIENCE)
        return max(0.0, due - now)

    def advance(self) -> None:
        """Read what has arrived, and start what is due."""
        now = time.monotonic()
        self._workers.finish()
        are_all_there = not self._workers.pending
        is_time = now - max(self._began_at, self._applied_at) >= _PATIENCE
        if self._has_new and (are_all_there or is_time):
            self._apply()
        if now - self._began_at >= _SECONDS:
            self._began_at = now
            for page in self._pages:
                if not page.is_pending:
                    page.is_pending = True
                    self._workers.ask(page.fetch, partial(self._take, page))

    def _take(self, page: _Page, result: _Samples | PrometheusError) -> None:
        page.is_pending = False
        page.error = result if isinstance(result, PrometheusError) else None
        page.samples = {} if isinstance(result, PrometheusError) else result
        page.read_at = time.time()
        self._has_new = True

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        hosts = self._picture.hosts(time.time()) if self._applied_at > -inf else ()
        failing = [page for page in self._pages if page.error is not None]
        answered = [page for page in self._pages if page.read_at and page.error is None]
        message = None
        if len(failing) == len(self._pages):
            message = f"{failing[0].target['instance']} {failing[0].error}"
        elif answered and not hosts:
            message = "have no GPU metrics of an exporter that is known"
        found = (self._picture.inventory.host_of(page.target) for page in answered)
        shown = [host for host in found if host is not None]
        is_waiting = len(failing) + len(answered) < len(self._pages) or self._has_new
        age = min((time.time() - page.read_at for page in answered), default=None)
        return Reading(
            report=FleetSource(
                kind="scrape",
                name=clean(self._name, MESSAGE_LENGTH),
                state="failed" if message else "ok" if answered else "starting",
                message=None if message is None else clean(message),
                age_seconds=None if age is None else max(0.0, age),
                answering_hosts=sum(host.state == "ok" for host in hosts),
                # Two exporters with the same GPUs are one host.
                expected_hosts=len(self._pages) - len(shown) + len({*shown}),
            ),
            hosts=hosts,
            jobs=self._picture.jobs(),
            is_whole=not is_waiting,
        )

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the threads; waits at most `wait_seconds`."""
        self._workers.close(wait_seconds, [page.client for page in self._pages])

    def _apply(self) -> None:
        """Build a picture from all pages; a late page counts with its last content."""
        self._applied_at, self._has_new = time.monotonic(), False
        samples: _Samples = {}
        for page in self._pages:
            for name, some in page.samples.items():
                samples.setdefault(name, []).extend(some)
        picture, at = self._picture, time.time()
        picture.inventory.set_names(samples)
        for query in self._questions:
            query.take(picture, _rows(query.terms(picture), samples), at)
        failing = [page for page in self._pages if page.error is not None]
        picture.take_targets(
            ((page.target, str(page.error)) for page in failing),
            (page.target for page in self._pages if page.error is None and not page.samples),
        )
        read = [(page.target, page.read_at) for page in self._pages if page.samples]
        picture.take_ages(map(_row, read), at)


def _rows(terms: Iterable[Metric], samples: _Samples) -> list[Row]:
    """Return samples as a Prometheus would; the largest of a device comes last."""
    found = (each for term in terms for each in _of(term, samples))
    return list(map(_row, sorted(found, key=_value)))


def _of(term: Metric, samples: _Samples) -> Iterable[_Sample]:
    """Return the samples of a term; for a sum, one per device."""
    first, *rest = (
        [each for each in samples.get(name, ()) if not term.matcher or INSTANCE_LABEL in each[0]]
        for name in term.names
    )
    if not rest:
        others = {_device(term, each) for other in term.without for each in _of(other, samples)}
        return [each for each in first if _device(term, each) not in others]
    by = term.by.split(", ")
    parts = [
        {tuple((name, labels.get(name, "")) for name in by): value for labels, value in part}
        for part in (sorted(part, key=_value) for part in (first, *rest))
    ]
    devices = (each for each in parts[0] if all(each in part for part in parts))
    return [(dict(each), sum(part[each] for part in parts) * term.factor) for each in devices]


def _device(term: Metric, sample: _Sample) -> tuple[str | None, ...]:
    """Return the labels that identify the device of a sample."""
    return tuple(map(sample[0].get, ("instance", *term.by.split(", "))))


def _value(sample: _Sample) -> float:
    return sample[1]


def _row(sample: _Sample) -> Row:
    labels, value = sample
    return Row(Raw(json.encode(labels)), (0.0, repr(value)))
