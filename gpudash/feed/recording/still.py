"""One sample of a recording in the place of a host, for what looks once."""

from __future__ import annotations

from gpudash.feed.recording.tape import Sample, Tape
from gpudash.feed.recording.times import find
from gpudash.model.snapshot import Snapshot


class Still:
    """A source that always tells the same: the sample that was the latest at an instant."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self.note = sample.note

    def sample(self) -> Snapshot:
        """Return it; raises WireError for a line that is no snapshot after all."""
        return self._sample.snapshot()

    def close(self) -> None:
        """Do nothing: there is no driver to let go of."""


def open_still(path: str, at: str | None) -> Still:
    """Return the last sample of a file, or the one at a time in it.

    Raises UsageError for a time that is not in it, WireError where nothing can be replayed.
    """
    tape = Tape(path)
    return Still(tape.last if at is None else tape.at(find(at, tape)))
