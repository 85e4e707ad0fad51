"""Everything that the page about a process is drawn from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from gpudash.analysis.inspection import Inspection
from gpudash.analysis.labels import command, short_command
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.secrets import mask_arguments
from gpudash.model.snapshot import Snapshot

SPANS = (60.0, 120.0, 300.0)
"""How far back the curves may reach, in seconds."""


def span_of(seen_seconds: float) -> float:
    """Return how far back they reach for a process that was seen for so long."""
    return next((span for span in SPANS if seen_seconds <= span), SPANS[-1])


class Sight(NamedTuple):
    """A process as it was seen last, and what is known beside its row."""

    row: ProcessRow
    snapshot: Snapshot
    mark: str = ""
    """Why the numbers of the row are not those of now, empty if they are."""
    idle_seconds: float | None = None
    series: Callable[[str, int], Sequence[float | None]] = lambda _field, points: [None] * points
    """Gives so many points of a number of PROCESS_METRICS over the last `span` seconds."""
    span: float = SPANS[-1]
    inspection: Inspection | None = None
    waiting: str = ""
    """That the first look is still awaited, or the next one overdue; else empty."""
    disk_rates: tuple[float | None, float | None] = (None, None)
    """Bytes read and written per second."""
    shows_secrets: bool = False
    reveal_key: str = "x"
    """The key that shows and hides them."""

    def command(self, process: Process, *, short: bool = False) -> str:
        """Return a command line, secrets in it hidden until asked for."""
        if process.command_line:
            process = replace(process, command_line=self._arguments(process))
        return short_command(process) if short else command(process)

    def _arguments(self, process: Process) -> tuple[str, ...]:
        line = tuple(process.command_line or ())
        if not self.shows_secrets:
            return _masked(line)
        if self.inspection is None or process.key != self.row.process.key:
            return line
        # A snapshot holds no secrets, what was read here does.
        return self.inspection.command_line or line


@lru_cache(maxsize=512)
def _masked(arguments: tuple[str, ...]) -> tuple[str, ...]:
    return mask_arguments(arguments)
