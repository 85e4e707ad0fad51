"""Threads that ask servers and report by a pipe that one has answered; queries of a Prometheus."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, json

from gpudash.fleet.prometheus.client import Client
from gpudash.fleet.prometheus.failures import PrometheusError
from gpudash.fleet.prometheus.inventory import Row

IN_FLIGHT = 2
"""Queries at once: a Prometheus runs twenty, and shares them with all dashboards."""

_SERVER_SHARE = 0.8
"""Of our deadline that the server may take."""

_PARTIAL = "the answer is partial: some of the server's nodes did not answer"

_Data = TypeVar("_Data")
_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")


class VectorData(Struct):
    """The series of an instant."""

    result: list[Row]


class RangeRow(Struct):
    """A series over time."""

    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class MatrixData(Struct):
    """The series of a span."""

    result: list[RangeRow]


class Answer(Struct, Generic[_Data], rename={"is_partial": "isPartial"}):
    """What Prometheus answers to anything."""

    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None
    is_partial: bool = False
    """VictoriaMetrics' word for it, in place of a warning."""


VECTOR = json.Decoder(Answer[VectorData])
MATRIX = json.Decoder(Answer[MatrixData])
NAMES = json.Decoder(Answer[list[str]])


class Question(NamedTuple):
    """A request; `tag` comes back with what it brought."""

    tag: Any
    path: str
    parameters: list[tuple[str, str]]
    decoder: json.Decoder[Any]
    seconds: float


class Outcome(NamedTuple):
    """What a question brought: `data`, or an error."""

    tag: Any
    data: Any
    warnings: tuple[str, ...]
    error: PrometheusError | None
    seconds: float


class Workers(Generic[_Question, _Answer]):
    """Threads that answer questions; `descriptor` can be read when there are answers."""

    def __init__(self, functions: Iterable[Callable[[_Question], _Answer]]) -> None:
        """Answer as many questions at once as there are functions, each by the next that is free.

        They raise nothing.
        """
        self.pending = 0
        """Questions that are not answered."""
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        self._questions: SimpleQueue[_Question | None] = SimpleQueue()
        self._answers: deque[_Answer] = deque()
        self._threads = [
            Thread(target=self._run, args=(function,), daemon=True) for function in functions
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, question: _Question) -> None:
        """Have a question answered as soon as a thread is free."""
        self.pending += 1
        self._questions.put(question)

    def take(self) -> Iterator[_Answer]:
        """Yield what has been answered since the last call."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 1 << 12)
        while self._answers:
            self.pending -= 1
            yield self._answers.popleft()

    def close(self, wait_seconds: float, clients: Iterable[Client]) -> None:
        """End the threads, and then the connections of their clients.

        Threads that wait for an answer for longer end with the process.
        """
        for _ in self._threads:
            self._questions.put(None)
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self.descriptor)
            os.close(self._wake)
            for client in clients:
                client.close()

    def _run(self, function: Callable[[_Question], _Answer]) -> None:
        while (question := self._questions.get()) is not None:
            self._answers.append(function(question))
            # A full pipe has waked the reader already.
            with suppress(BlockingIOError):
                os.write(self._wake, b"x")


def outcome_of(client: Client, question: Question) -> Outcome:
    """Return what a question brings, whatever goes wrong."""
    began = time.monotonic()
    limit = [("timeout", f"{_SERVER_SHARE * question.seconds:.0f}s")]
    try:
        body = client.request(question.path, question.parameters + limit, question.seconds)
        seconds = time.monotonic() - began
        answer = question.decoder.decode(body)
        if answer.status != "success" or answer.data is None:
            raise PrometheusError(f"answers without data: {answer.error or answer.status}")
        warnings = [*(answer.warnings or ()), *[_PARTIAL] * answer.is_partial]
        return Outcome(question.tag, answer.data, tuple(warnings), None, seconds)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = PrometheusError(f"the answer is cut off or is not that of a Prometheus: {error}")
    except PrometheusError as error:
        fault = error
    return Outcome(question.tag, None, (), fault, time.monotonic() - began)
