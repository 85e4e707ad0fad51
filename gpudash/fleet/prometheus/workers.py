"""Threads that query servers and announce answers by a pipe; queries of a Prometheus."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, json

from gpudash.fleet.prometheus.client import Client
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.known import Row

IN_FLIGHT = 2
"""Queries at once: Prometheus runs twenty, shared by all dashboards."""

_SERVER_SHARE = 0.8
"""The server's part of our deadline."""

_PARTIAL = "the answer is partial: some of the server's nodes did not answer"

_Data = TypeVar("_Data")
_Result = TypeVar("_Result")


class RangeRow(Struct):
    """A series over time."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class SeriesData(Struct, Generic[_Data]):
    """The series of an instant, or of a span."""

    result: list[_Data]


class Response(Struct, Generic[_Data], rename={"is_partial": "isPartial"}):
    """The answer to any request."""

    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False
    """Set by VictoriaMetrics instead of a warning."""


VECTOR = json.Decoder(Response[SeriesData[Row]])
MATRIX = json.Decoder(Response[SeriesData[RangeRow]])
NAMES = json.Decoder(Response[list[str]])


class Outcome(NamedTuple):
    """The result of a request."""

    data: Any
    warnings: tuple[str, ...]
    seconds: float


def together(parts: list[Outcome]) -> Outcome:
    """Return answers to the parts of a query as one."""
    if len(parts) == 1:
        return parts[0]
    return Outcome(
        SeriesData([row for part in parts for row in part.data.result]),
        tuple(dict.fromkeys(text for part in parts for text in part.warnings)),
        sum(part.seconds for part in parts),
    )


def answer_of(
    client: Client,
    path: str,
    parameters: list[tuple[str, str]],
    decoder: json.Decoder[Any],
    seconds: float,
) -> Outcome:
    """Return the answer of a Prometheus; raises PrometheusError."""
    began = time.monotonic()
    limit = [("timeout", f"{_SERVER_SHARE * seconds:.0f}s")]
    body = client.request(path, parameters + limit, seconds)
    took = time.monotonic() - began
    try:
        answer = decoder.decode(body)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = f"the answer is cut off or is not that of a Prometheus: {error}"
        raise PrometheusError(text) from None
    if answer.status != "success" or answer.data is None:
        raise PrometheusError(f"answers without data: {answer.error or answer.status}")
    warnings = [*(answer.warnings or ()), *[_PARTIAL] * answer.is_partial]
    return Outcome(answer.data, tuple(warnings), took)


class Workers:
    """Threads for work that waits; `descriptor` is readable when some of it is done.

    There are none before the first work, so that a process can still be forked.
    """

    def __init__(self, count: int) -> None:
        self.pending = 0
        """How much work is pending."""
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        self._work: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None]
        self._work = SimpleQueue()
        self._done: deque[Callable[[], None]] = deque()
        self._count, self._threads = count, list[Thread]()

    def ask(
        self, work: Callable[[], _Result], take: Callable[[_Result | PrometheusError], None]
    ) -> None:
        """Run work in a thread; `finish` takes its result or exception."""
        if not self._threads:
            self._threads = [Thread(target=self._run, daemon=True) for _ in range(self._count)]
            for thread in self._threads:
                thread.start()
        self.pending += 1
        self._work.put((work, take))

    def finish(self) -> None:
        """Process the results of work finished since the last call."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 1 << 12)
        while self._done:
            self.pending -= 1
            self._done.popleft()()

    def close(self, wait_seconds: float, clients: Iterable[Client]) -> None:
        """End the threads, and then the connections of their clients.

        Threads that wait for an answer for longer end with the process.
        """
        for _ in self._threads:
            self._work.put(None)
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self.descriptor)
            os.close(self._wake)
            for client in clients:
                client.close()

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            work, take = item
            try:
                result = work()
            except PrometheusError as error:
                result = error
            self._done.append(partial(take, result))
            # A full pipe has already woken the reader.
            with suppress(BlockingIOError):
                os.write(self._wake, b"x")
