"""The interface of a source of hosts: SSH, a Prometheus, exporters, the simulated fleet."""

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
    """Return seconds that include suspends, if there is such a clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Reading(Struct, frozen=True, kw_only=True):
    """The present knowledge of a source."""

    report: FleetSource
    hosts: tuple[FleetHost, ...] = ()
    """All expected hosts, including silent ones, with the age of their data."""
    jobs: tuple[FleetJob, ...] = ()
    at: datetime | None = None
    """The instant in the past that is shown, None for now."""
    is_whole: bool = True
    """Whether every query has been answered, or has failed, at least once."""
    charts: tuple[FleetChart, ...] = ()
    """Requested charts that have arrived."""
    events: tuple[Event, ...] | None = ()
    """Events before the watch began, None while they are queried."""
    lasted: Lasted = {}
    """For how long the findings last passed to `date` have lasted, where known."""


def chart_of(
    request: ChartRequest,
    end: float,
    step: float,
    lines: Iterable[FleetLine],
    message: SafeText | None = None,
) -> FleetChart:
    """Return the answer to a request: lines up to `end`, Unix time, with points `step` s apart.

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
    """Reads many hosts in parallel, without ever waiting for one.

    Call `advance` when one of `descriptors` is readable, and after `due_in` seconds at the latest.
    This base class starts nothing, and knows no past.
    """

    def descriptors(self) -> Iterable[int]:
        """Return descriptors that become readable when there is something to do."""
        return ()

    def due_in(self) -> float:
        """Return the seconds until `advance` has something to do, infinity for never."""
        return inf

    def ask(self, request: FleetRequest) -> None:
        """Show another instant, or the past of a metric; no effect on a source without a past."""

    def advance(self) -> None:
        """Read what has arrived, and start what is due."""

    def is_partial(self) -> bool:
        """Whether `read` returns less than will soon be known; cheap to ask."""
        return False

    def date(self, lasting: Lasting) -> bool:
        """Find out since when findings have lasted; return whether some times are still to come."""
        return False

    def read(self) -> Reading:
        """Return what is known now; never waits."""
        raise NotImplementedError

    def past(self, since: datetime, until: datetime) -> Iterable[FleetSnapshot]:
        """Return the snapshots from one instant to another, oldest first; none without a past.

        Unchanged hosts are the same objects. Waits for it; raises GpudashError.
        """
        return ()

    def close(self, wait_seconds: float = 0.0) -> None:
        """End everything that it started; wait for at most `wait_seconds`."""
