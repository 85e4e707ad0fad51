"""How true a report of a simulated day is, and what it takes: of numbers, and of samples alone.

    python -m tests.benchmarks.reports

Of each column the row that is farthest from the schedule, of users, jobs, devices and the host.
Where samples are an interval apart, it is known to the interval when GPUs begin to be held, idle or
busy, and when they end: what a row is off by is also shown in intervals for each of its periods.
More than one is an error of the report; within one, which is much of a short time, is not.
"""

import sys
import time
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import get_args

from gpudash.analysis.minutes import Minutes
from gpudash.analysis.report import ReportSums
from gpudash.feed.history import KeptHistory
from gpudash.feed.recording.reader import Recording
from gpudash.fleet.report import recorded_minutes, recorded_span
from gpudash.model import wire
from gpudash.model.report import Grouping, ReportRow
from tests.fleet.used import UsedHost

_HOUR = 3600.0
_PRICE = 2.0
_LEAST_SECONDS = 600.0
_LEAST_ENERGY = 100 * 3_600_000
_KEYS = {
    "user": attrgetter("user"),
    "job": attrgetter("user", "job"),
    "gpu": attrgetter("uuid"),
    "host": attrgetter("host"),
}
_HELD = "held_seconds"
_KEPT_SECONDS = 10
"""Between the samples that are kept for a day."""


def measure(name: str, host: UsedHost, interval: float) -> None:
    """Print how far reports are from the truth, and how long they take."""
    with TemporaryDirectory() as folder:
        where, now = Path(folder) / "history", [0.0]
        history = KeptHistory(
            str(where),
            30 * 24 * _HOUR,
            1 << 40,
            sys.stderr.write,
            numbers=Minutes(interval),
            clock=lambda: now[0],
        )
        for sample in host.samples(interval):
            now[0] = sample.taken_at.timestamp()
            history.take(sample, wire.encode(sample))
        history.close()
        _compare(f"{name} from numbers", host, where, interval)
        for each in where.glob("*.numbers.*"):
            each.unlink()
        _compare(f"{name} from samples", host, where, max(interval, _KEPT_SECONDS))


def _compare(name: str, host: UsedHost, folder: Path, interval: float) -> None:
    worst: dict[str, tuple[float, object]] = {}
    intervals: dict[str, float] = {}
    seconds = []
    for by in get_args(Grouping):
        began = time.process_time()
        recording, sums = Recording(str(folder)), ReportSums(by)
        span = recorded_span(recording)
        for minute in recorded_minutes(recording, *span):
            sums.add(minute)
        found = sums.report(span.last, *span, lambda _name: _PRICE)
        seconds.append(time.process_time() - began)
        rows = {_KEYS[by](row): row for row in found.rows}
        assert set(rows) == set(host.truth[by])
        for key, truth in host.truth[by].items():
            for column, error in _errors(rows[key], truth):
                worst[column] = max(worst.get(column, (0.0, None)), (error, (by, key)), key=_first)
            for column, count in host.rows[by][key].periods.items():
                error = abs(getattr(rows[key], column) - truth[column]) / interval / count
                intervals[column] = max(intervals.get(column, 0.0), error)
    print(f"{name}: {max(seconds):.2f} s of CPU")
    for column, (error, row) in worst.items():
        per_period = f", {intervals[column]:.2f} intervals a period" if column in intervals else ""
        print(f"  {column}: {100 * error:.2f} % {row}{per_period}")


def _first(pair: tuple[float, object]) -> float:
    return pair[0]


def _errors(row: ReportRow, truth: dict[str, float]) -> Iterator[tuple[str, float]]:
    """Yield how far each column is from the truth, as a part of it; not of less than ten minutes.

    Nor of less than 100 Wh: tasks begin and end between two samples.
    """
    share = truth.get("share_seconds", truth.get(_HELD, 0.0))
    for column in (*(each for each in truth if each != "share_seconds"), "share_seconds", "cost"):
        want = {"cost": _PRICE * share / _HOUR, "share_seconds": share}.get(
            column, truth.get(column)
        )
        have = getattr(row, column) or 0.0
        least = _LEAST_SECONDS if column.endswith("_seconds") else _LEAST_ENERGY
        if want and (want >= least or column in ("cost", "peak_memory_bytes")):
            yield column, abs(have - want) / want


def main() -> None:
    """Measure both hosts: a day each, with a gap of two hours."""
    gap = 10 * _HOUR, 12 * _HOUR
    measure("9/32", UsedHost(gpus=9, tasks=32, hours=24, gap=gap), 5)
    measure("64/500", UsedHost(gpus=64, tasks=500, hours=24, gap=gap), 5)


if __name__ == "__main__":
    main()
