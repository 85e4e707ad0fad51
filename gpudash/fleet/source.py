"""What a source of hosts offers: SSH, a Prometheus, exporters, the simulated fleet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timezone
from math import inf

from msgspec import Struct

from gpudash.fleet.lasting import Lasted, Lasting
from gpudash.model.fleet import (
    ChartRequest,
    Event,
    FleetChart,
    FleetHost,
    FleetJob,
    FleetLine,
    FleetRequest,
    FleetSnapshot,
    FleetSource,
)
from gpudash.model.text import SafeText, clean

Clock = Callable[[], float]


def boot_clock() -> float:
    """Return seconds that go on while the machine sleeps, where there is such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Reading(Struct, frozen=True, kw_only=True):
    """What a source knows now."""

    report: FleetSource
    hosts: tuple[FleetHost, ...] = ()
    """All that are expected, also those that do not answer, with the age of what is known."""
    jobs: tuple[FleetJob, ...] = ()
    at: datetime | None = None
    """The instant in the past that this is, None for now."""
    is_whole: bool = True
    """Whether all that is asked for has been answered, or has failed, at least once."""
    charts: tuple[FleetChart, ...] = ()
    """Those that were asked for and have arrived."""
    events: tuple[Event, ...] | None = ()
    """What happened before it was asked, None while that is being asked."""
    lasted: Lasted = {}
    """For how long what `date` was given last has been so, where that is known."""


def chart_of(
    request: ChartRequest,
    end: float,
    step: float,
    lines: Iterable[FleetLine],
    message: SafeText | None = None,
) -> FleetChart:
    """Return the answer to a request: lines to `end`, Unix time, whose points are `step` s apart.

    `message` is why there are none, or no newer ones.
    """
    return FleetChart(
        metric=request.metric,
        span_seconds=request.span_seconds,
        by_device=request.by_device,
        cluster=None if request.cluster is None else clean(request.cluster),
        hosts=tuple(map(clean, request.hosts)),
        end=datetime.fromtimestamp(end, timezone.utc),
        step_seconds=step,
        lines=tuple(lines),
        message=message,
    )


class Source:
    """Reads many hosts side by side, without ever waiting for one.

    Call `advance` when one of `descriptors` can be read, and after `due_in` seconds at the
    latest. This one starts nothing, and knows no past.
    """

    def descriptors(self) -> Iterable[int]:
        """Return what can be read when there is something to do."""
        return ()

    def due_in(self) -> float:
        """Return after how many seconds `advance` has something to do, infinity for never."""
        return inf

    def ask(self, request: FleetRequest) -> None:
        """Show another instant, or the past of a metric; without effect on one without a past."""

    def advance(self) -> None:
        """Read what has arrived, start what is due."""

    def is_partial(self) -> bool:
        """Whether `read` returns less than will soon be known; it costs nothing to ask."""
        return False

    def date(self, lasting: Lasting) -> bool:
        """Have it found out since when something is so; return whether that is still to come."""
        return False

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        raise NotImplementedError

    def past(self, since: datetime, until: datetime) -> Iterable[FleetSnapshot]:
        """Return what there was from one instant to another, oldest first; none without a past.

        Hosts that have not changed are the same objects. Waits for it; raises GpudashError.
        """
        return ()

    def close(self, wait_seconds: float = 0.0) -> None:
        """End all that it started; waits at most `wait_seconds`."""
