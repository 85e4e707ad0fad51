"""Threads that ask a Prometheus, two queries at a time, and say by a pipe that one is answered."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import DecodeError, Struct, json

from gpudash.fleet.prometheus.client import Client, Endpoint, PrometheusError
from gpudash.fleet.prometheus.inventory import Row
from gpudash.model.errors import GpudashError

IN_FLIGHT = 2
"""Queries at once: a Prometheus runs twenty, and shares them with all dashboards."""

_SERVER_SHARE = 0.8
"""Of our deadline that the server may take."""

_Data = TypeVar("_Data")


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


class Answer(Struct, Generic[_Data]):
    """What Prometheus answers to anything."""

    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None


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


class Workers:
    """Asks in threads of its own; `descriptor` can be read when there are outcomes."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.pending = 0
        """Questions that are not answered."""
        self.descriptor, self._wake = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._wake, False)
        self._questions: SimpleQueue[Question | None] = SimpleQueue()
        self._outcomes: deque[Outcome] = deque()
        clients = [Client(endpoint) for _ in range(IN_FLIGHT)]
        self._threads = [
            Thread(target=self._run, args=(client,), name="prometheus", daemon=True)
            for client in clients
        ]
        for thread in self._threads:
            thread.start()

    def ask(self, question: Question) -> None:
        """Send a question as soon as a thread is free."""
        self.pending += 1
        self._questions.put(question)

    def take(self) -> Iterable[Outcome]:
        """Yield what has been answered since the last call."""
        with suppress(BlockingIOError):
            os.read(self.descriptor, 1 << 12)
        while self._outcomes:
            self.pending -= 1
            yield self._outcomes.popleft()

    def close(self, wait_seconds: float = 0.0) -> None:
        """End the threads; those that wait for an answer end with the process."""
        for _ in self._threads:
            self._questions.put(None)
        deadline = time.monotonic() + wait_seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if not any(thread.is_alive() for thread in self._threads):
            os.close(self.descriptor)
            os.close(self._wake)

    def _run(self, client: Client) -> None:
        while (question := self._questions.get()) is not None:
            self._outcomes.append(_outcome(client, question))
            # A full pipe has waked the reader already.
            with suppress(BlockingIOError):
                os.write(self._wake, b"x")
        client.close()


def _outcome(client: Client, question: Question) -> Outcome:
    began = time.monotonic()
    limit = [("timeout", f"{_SERVER_SHARE * question.seconds:.0f}s")]
    try:
        body = client.request(question.path, question.parameters + limit, question.seconds)
        seconds = time.monotonic() - began
        answer = question.decoder.decode(body)
        if answer.status != "success" or answer.data is None:
            raise PrometheusError(f"answers without data: {answer.error or answer.status}")
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:
        fault = PrometheusError(f"the answer is cut off or is not that of a Prometheus: {error}")
    except PrometheusError as error:
        fault = error
    except GpudashError as error:
        fault = PrometheusError(str(error))
    else:
        return Outcome(question.tag, answer.data, tuple(answer.warnings or ()), None, seconds)
    return Outcome(question.tag, None, (), fault, time.monotonic() - began)
