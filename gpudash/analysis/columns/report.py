"""The columns of a report: how long GPUs were held, by users, jobs, devices or hosts.

Hours are GPU hours: two GPUs for an hour are two. The energy of users and jobs is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from gpudash.analysis.table import Column, amount, waste, word
from gpudash.model.report import Grouping, Report, ReportFinding, ReportRow
from gpudash.model.units import (
    ABSENT,
    counted,
    duration,
    hours,
    kilowatts,
    price,
    ratio,
    short_size,
)

_MAKER = "NVIDIA "

_Column = Column[ReportRow]


def gpu_time(seconds: float | None) -> str:
    """Return GPU time: `42s`, `18m05s`, `4.5h`, `1,204h`."""
    if seconds is None or seconds < 3600:
        return duration(seconds)
    return hours(seconds / 3600)


def seen_text(report: Report) -> str:
    """Return how much of the span was seen: `seen 6d22h of 7d00h`, with min and max of hosts."""
    asked = (report.until - report.since).total_seconds()
    seen = sorted(min(each.seen_seconds, asked) for each in report.hosts if each.message is None)
    texts = dict.fromkeys(duration(each) for each in (seen[:1] + seen[-1:]) or [0.0])
    hosts = f" on {counted(len(seen), 'host')}" if len(report.hosts) > 1 else ""
    return f"seen {' to '.join(texts)} of {duration(asked)}{hosts}"


def _energy(millijoules: float | None) -> str:
    """Return energy in at most six columns: `310Wh`, `5.6kWh`."""
    return ABSENT if millijoules is None else f"{kilowatts(millijoules / 3600)}h"


def _models(row: ReportRow) -> str:
    return ", ".join((each.name or ABSENT).removeprefix(_MAKER) for each in row.models)


_USER: _Column = word("user", "USER", lambda row: row.user, 24)
_HOST: _Column = word("host", "HOST", lambda row: row.host, 40)
_SEEN: _Column = amount("seen", "SEEN", lambda row: row.seen_seconds, gpu_time, 12, priority=3)
_HELD: _Column = amount("held", "HELD", lambda row: row.held_seconds, gpu_time, 12)
_HELD_OF_SEEN = replace(_HELD, share=lambda row: ratio(row.held_seconds, row.seen_seconds))
_SHARE: _Column = amount("share", "SHARE", lambda row: row.share_seconds, gpu_time, 12, priority=2)
_AMOUNTS: tuple[_Column, ...] = (
    amount("idle", "HELD IDLE", lambda row: row.idle_seconds, gpu_time, 12, graded=waste),
    amount(
        "unknown",
        "UNKNOWN",
        lambda row: row.unknown_seconds,
        gpu_time,
        12,
        priority=1,
        worth=lambda row: row.unknown_seconds > 0,
    ),
    amount("memory", "PEAK-MEM", lambda row: row.peak_memory_bytes, short_size, 12, priority=4),
)
_COST: _Column = amount("cost", "COST", lambda row: row.cost, price, 12, priority=1)
_MODEL: _Column = word("model", "MODEL", _models, 40, priority=6, grows=True)
_ENERGY: _Column = amount("energy", "ENERGY", lambda row: row.energy_mj, _energy, 12, priority=3)
_ESTIMATE: _Column = amount("energy", "~ENERGY", lambda row: row.energy_mj, _energy, 12, priority=3)

REPORT_COLUMNS: Mapping[Grouping, tuple[Column[ReportRow], ...]] = {
    "user": (_USER, _HELD, _SHARE, *_AMOUNTS, _ESTIMATE, _COST, _MODEL),
    "job": (
        word("job", "JOB", lambda row: row.job, 40),
        word("cluster", "CLUSTER", lambda row: row.cluster, 16, priority=5),
        _USER,
        *(_HELD, _SHARE, *_AMOUNTS, _ESTIMATE, _COST, _MODEL),
    ),
    "gpu": (
        _HOST,
        word("gpu", "GPU", lambda row: row.gpu, 6),
        *(_SEEN, _HELD_OF_SEEN, *_AMOUNTS, _ENERGY, _COST, _MODEL),
    ),
    "host": (_HOST, _SEEN, _HELD_OF_SEEN, *_AMOUNTS, _ENERGY, _COST, _MODEL),
}
"""The columns by kind of row."""

FINDING_COLUMNS: tuple[Column[ReportFinding], ...] = (
    word(
        "level",
        "LEVEL",
        lambda each: each.level,
        8,
        level=lambda each: "unknown" if each.level == "info" else each.level,
    ),
    word("finding", "FINDING", lambda each: each.rule, 40),
    word("host", "HOST", lambda each: each.host, 40),
    word("gpu", "GPU", lambda each: each.gpu, 16),
    amount("time", "TIME", lambda each: each.seconds, duration, 6),
)
"""The columns of findings."""
