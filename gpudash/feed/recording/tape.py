"""A recording as samples in their order, any of them found by its time in a few reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import Annotated, NamedTuple

import msgspec

from gpudash.feed.recording.chunks import Chunks, open_chunks
from gpudash.model import wire
from gpudash.model.errors import WireError
from gpudash.model.snapshot import SCHEMA, Snapshot

_KEPT_CHUNKS = 4


class _Stamp(msgspec.Struct):
    """What is read of a line to find it, without the rest."""

    taken_at: Annotated[datetime, msgspec.Meta(tz=True)]
    schema: int = 1


class Sample(NamedTuple):
    """A line of a recording: where it stands, when it was taken, and the line itself."""

    chunk: int
    row: int
    taken_at: datetime
    schema: int
    line: bytes

    @property
    def note(self) -> str:
        """What to say of one whose schema is not known yet, empty for the others."""
        if self.schema <= SCHEMA:
            return ""
        return (
            f"recorded by a newer gpudash (schema {self.schema}, this one reads {SCHEMA}): what "
            "it cannot know is left out; update it"
        )

    def snapshot(self) -> Snapshot:
        """Return what it says; raises WireError if that is no snapshot."""
        try:
            return wire.decode(self.line)
        except WireError as error:
            raise WireError(f"{self.note or self.taken_at.isoformat()}: {error}") from None


class Tape:
    """The samples of a file; raises WireError, UsageError where nothing can be replayed.

    Samples are in the order of the file. They are found by the wall clock, and a clock that was
    set back while it was recorded is found in one of the two passes.
    """

    def __init__(self, path: str, chunks: Callable[[str], Chunks] = open_chunks) -> None:
        self.path = path
        self._chunks = chunks(path)
        self._kept: dict[int, list[Sample]] = {}
        first = next(self._forward(0), None)
        if first is None:
            raise WireError(f"{path}: {self._why_nothing()}")
        self.first = first
        self.last = next(self._backward(self._chunks.count - 1))

    @property
    def seconds(self) -> float:
        """From the first sample to the last."""
        return (self.last.taken_at - self.first.taken_at).total_seconds()

    def at(self, moment: datetime) -> Sample:
        """Return the last sample not after an instant, the first one if all are."""
        low, high = 0, self._chunks.count - 1
        found = self.first
        while low <= high:
            middle = (low + high) // 2
            sample = next(self._forward(middle), None)
            if sample is None or sample.taken_at > moment:
                high = middle - 1
            else:
                found, low = sample, max(middle, sample.chunk) + 1
        for sample in self._read(found.chunk):
            if sample.taken_at <= moment:
                found = sample
        return found

    def after(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples behind one, in order."""
        for each in self._forward(sample.chunk):
            if (each.chunk, each.row) > (sample.chunk, sample.row):
                yield each

    def before(self, sample: Sample) -> Iterator[Sample]:
        """Yield the samples before one, the nearest first."""
        for each in self._backward(sample.chunk):
            if (each.chunk, each.row) < (sample.chunk, sample.row):
                yield each

    def _forward(self, chunk: int) -> Iterator[Sample]:
        for number in range(chunk, self._chunks.count):
            yield from self._read(number)

    def _backward(self, chunk: int) -> Iterator[Sample]:
        for number in range(chunk, -1, -1):
            yield from reversed(self._read(number))

    def _read(self, number: int) -> list[Sample]:
        """Return the samples of a chunk, of which those read last are kept."""
        found = self._kept.pop(number, None)
        self._kept[number] = found = self._samples(number) if found is None else found
        if len(self._kept) > _KEPT_CHUNKS:
            del self._kept[next(iter(self._kept))]
        return found

    def _samples(self, number: int) -> list[Sample]:
        """Return the samples of a chunk; a line that is none, such as a torn one, is left out."""
        found = []
        for row, line in enumerate(self._chunks.read(number)):
            stamp = _stamp(line)
            if stamp is not None:
                found.append(Sample(number, row, stamp.taken_at, stamp.schema, line))
        return found

    def _why_nothing(self) -> str:
        if not self._chunks.count:
            return "empty: nothing was recorded"
        return "no recording of gpudash: make one with gpudash record"


def _stamp(line: bytes) -> _Stamp | None:
    try:
        return _decoder().decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[_Stamp]:
    return msgspec.json.Decoder(_Stamp)
