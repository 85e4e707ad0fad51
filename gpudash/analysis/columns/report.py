"""The columns of a report: how long GPUs were held, by users, jobs, devices or hosts.

Hours are those of GPUs: two GPUs for an hour are two. The energy of users and jobs is an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from gpudash.analysis.table import Column, number
from gpudash.model.report import Grouping, Report, ReportFinding, ReportRow
from gpudash.model.state import Level
from gpudash.model.units import ABSENT, counted, duration, hours, kilowatts, short_size

_MAKER = "NVIDIA "


def gpu_time(seconds: float | None) -> str:
    """Return the time of GPUs: `42s`, `18m05s`, `4.5h`, `1,204h`."""
    if seconds is None or seconds < 3600:
        return duration(seconds)
    return hours(seconds / 3600)


def seen_text(report: Report) -> str:
    """Return how much of its span was seen: `seen 6d22h of 7d00h`, of hosts the least and most."""
    asked = (report.until - report.since).total_seconds()
    seen = sorted(min(each.seen_seconds, asked) for each in report.hosts if each.message is None)
    texts = dict.fromkeys(duration(each) for each in (seen[:1] + seen[-1:]) or [0.0])
    hosts = f" on {counted(len(seen), 'host')}" if len(report.hosts) > 1 else ""
    return f"seen {' to '.join(texts)} of {duration(asked)}{hosts}"


def _energy(millijoules: float | None) -> str:
    """Return energy in at most six columns: `310Wh`, `5.6kWh`."""
    return ABSENT if millijoules is None else f"{kilowatts(millijoules / 3600)}h"


def _cost(value: float | None) -> str:
    return ABSENT if value is None else f"{value:,.2f}"


def _models(row: ReportRow) -> str:
    return ", ".join((each.name or ABSENT).removeprefix(_MAKER) for each in row.models)


def _idle_level(row: ReportRow) -> Level:
    return "warn" if row.idle_seconds else "unknown"


def _word(
    key: str, header: str, text: Callable[[ReportRow], str | None], width: int, **more: Any
) -> Column[ReportRow]:
    return Column(
        key=key,
        header=header,
        text=lambda row: text(row) or ABSENT,
        sort_key=lambda row: text(row) or "",
        width=width,
        **more,
    )


def _amount(
    key: str,
    header: str,
    value: Callable[[ReportRow], float | None],
    text: Callable[[float | None], str],
    **more: Any,
) -> Column[ReportRow]:
    return Column(
        key=key,
        header=header,
        text=lambda row: text(value(row)),
        sort_key=lambda row: number(value(row)),
        width=12,
        align=">",
        **more,
    )


def _held_share(row: ReportRow) -> float | None:
    return row.held_seconds / row.seen_seconds if row.seen_seconds else None


_USER = _word("user", "USER", lambda row: row.user, 24)
_HOST = _word("host", "HOST", lambda row: row.host, 40)
_SEEN = _amount("seen", "SEEN", lambda row: row.seen_seconds, gpu_time, priority=3)
_HELD = _amount("held", "HELD", lambda row: row.held_seconds, gpu_time)
_HELD_OF_SEEN = replace(_HELD, share=_held_share)
_SHARE = _amount("share", "SHARE", lambda row: row.share_seconds, gpu_time, priority=2)
_AMOUNTS = (
    _amount("idle", "HELD IDLE", lambda row: row.idle_seconds, gpu_time, level=_idle_level),
    _amount(
        "unknown",
        "UNKNOWN",
        lambda row: row.unknown_seconds,
        gpu_time,
        priority=1,
        worth=lambda row: row.unknown_seconds > 0,
    ),
    _amount("memory", "PEAK-MEM", lambda row: row.peak_memory_bytes, short_size, priority=4),
)
_COST = _amount("cost", "COST", lambda row: row.cost, _cost, priority=1)
_MODEL = _word("model", "MODEL", _models, 40, priority=6, grows=True)
_ENERGY = _amount("energy", "ENERGY", lambda row: row.energy_mj, _energy, priority=3)
_ESTIMATE = _amount("energy", "~ENERGY", lambda row: row.energy_mj, _energy, priority=3)

REPORT_COLUMNS: Mapping[Grouping, tuple[Column[ReportRow], ...]] = {
    "user": (_USER, _HELD, _SHARE, *_AMOUNTS, _ESTIMATE, _COST, _MODEL),
    "job": (
        _word("job", "JOB", lambda row: row.job, 40),
        _USER,
        *(_HELD, _SHARE, *_AMOUNTS, _ESTIMATE, _COST, _MODEL),
    ),
    "gpu": (
        _HOST,
        _word("gpu", "GPU", lambda row: row.gpu, 6),
        *(_SEEN, _HELD_OF_SEEN, *_AMOUNTS, _ENERGY, _COST, _MODEL),
    ),
    "host": (_HOST, _SEEN, _HELD_OF_SEEN, *_AMOUNTS, _ENERGY, _COST, _MODEL),
}
"""Those of each kind of row."""

FINDING_COLUMNS: tuple[Column[ReportFinding], ...] = (
    Column(
        key="level",
        header="LEVEL",
        text=lambda each: each.level,
        sort_key=lambda each: each.level,
        width=8,
        level=lambda each: "unknown" if each.level == "info" else each.level,
    ),
    Column(
        key="finding",
        header="FINDING",
        text=lambda each: each.rule,
        sort_key=lambda each: each.rule,
        width=40,
    ),
    Column(
        key="host",
        header="HOST",
        text=lambda each: each.host,
        sort_key=lambda each: each.host,
        width=40,
    ),
    Column(
        key="gpu",
        header="GPU",
        text=lambda each: each.gpu or ABSENT,
        sort_key=lambda each: each.gpu or "",
        width=16,
    ),
    Column(
        key="time",
        header="TIME",
        text=lambda each: duration(each.seconds),
        sort_key=lambda each: each.seconds,
        width=6,
        align=">",
    ),
)
"""Those of what was wrong."""
