"""Many hosts as text: a table for people, and rows of CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gpudash.analysis.table import fit, line_cells
from gpudash.fleet.columns import HOST_COLUMNS
from gpudash.fleet.summary import HostRow, Totals, host_rows, part_of, totals
from gpudash.fleet.verdict import verdict
from gpudash.model.fleet import (
    FleetDevice,
    FleetHost,
    FleetSnapshot,
    FleetSource,
    FleetUser,
)
from gpudash.model.state import STATES, state_of
from gpudash.model.text import width as cells_of
from gpudash.model.units import celsius, counted, duration, kilowatts, percent
from gpudash.output import csv
from gpudash.output.table import (
    LEVELS,
    Line,
    Style,
    body,
    finding_lines,
    heading,
    local_time,
    painted,
    paragraph,
    spread,
    state_style,
)

_MIN_BAR = 5
_PAGE = 80
_MAX_NAMED = 8
"""Warnings of a source to show before the others are counted."""
_OF_SOURCES = frozenset({"source-failed", "source-partial"})
"""Rules whose findings `_sources` shows in full."""
_FAILED: dict[str, Style] = {"failed": "red", "stale": "yellow"}
_NO_CELL = frozenset({"devices", "processes", "source"})
"""Fields of a host without a CSV column."""
_OF_HOST = ("name", "cluster", "group", "state", "message", "age_seconds", "expected_devices")


def render(
    snapshot: FleetSnapshot, *, width: int = 80, color: bool = False, ascii: bool = False
) -> str:
    """Return the table, at most `width` cells wide, the worst hosts first."""
    rows = sorted(host_rows(snapshot), key=lambda row: (row.worst_first, row.host.name))
    columns = fit(HOST_COLUMNS, rows, width, bar=_MIN_BAR)
    room = min(width, max(line_cells(columns), _PAGE))
    hosts = [heading(columns), *body(columns, rows, ascii=ascii)] if rows else []
    shown = (finding for finding in snapshot.findings if finding.rule not in _OF_SOURCES)
    sections = (
        _head(snapshot, totals(rows), room),
        _sources(snapshot.sources, width, ascii),
        hosts,
        finding_lines(shown, width, ascii=ascii, now=snapshot.taken_at),
    )
    return painted(sections, width, color=color)


def _head(snapshot: FleetSnapshot, sums: Totals, room: int) -> list[Line]:
    """Return how many hosts there are and answer, the GPUs by status, and their sums."""
    answering, expected = sums.answering, sums.hosts
    if len(snapshot.sources) == 1:
        # A filter leaves fewer, but must not hide how many there are.
        [source] = snapshot.sources
        answering = max(answering, source.answering_hosts)
        expected = max(expected, source.expected_hosts or 0)
    verb = "answer" if max(answering, expected) != 1 else "answers"
    gpus = part_of(sums.gpus, sums.expected_gpus, "GPU")
    text = f"{part_of(answering, expected, 'host')} {verb}, {gpus}"
    if sums.hosts < expected:
        text += f" on {counted(sums.hosts, 'host')}"
    left: Line = [(text, "bold")]
    if sums.oldest_seconds is not None:
        left.append((f"  up to {duration(sums.oldest_seconds)} old", "dim"))
    counts: Line = []
    for status, count in sums.counts.items():
        state = state_of(status)
        comma = "" if status == [*sums.counts][-1] else ","
        counts += [(f"{count:,} {state.word}{comma}", state_style(state)), (" ", "plain")]
    power = kilowatts(sums.power_mw)
    if sums.limit_mw is not None:
        power += f" of {kilowatts(sums.limit_mw)}"
    amounts = f"mean {percent(sums.utilization)}  {power}  hottest {celsius(sums.temperature)}"
    lines = [spread(left, [(local_time(snapshot.taken_at), "dim")], room)]
    is_part = sums.hosts < expected
    found = verdict(
        snapshot.findings,
        sums.answering if is_part else answering,
        sums.hosts if is_part else expected,
        snapshot.taken_at,
        is_asking=snapshot.is_asking,
        is_part=is_part,
    )
    lines += [[(", ".join(found.texts), LEVELS[found.level])]] if found.texts else []
    if not sums.gpus:
        return lines
    if sum(cells_of(part) for part, _ in counts) + 2 + cells_of(amounts) > room:
        return [*lines, counts, [(amounts, "dim")]]
    return [*lines, spread(counts, [(amounts, "dim")], room)]


def _sources(sources: Sequence[FleetSource], room: int, ascii: bool) -> list[Line]:
    """Return a line for each source that does not answer in full."""
    lines: list[Line] = []
    for source in sources:
        text = f"{source.kind} {source.name}"
        style = _FAILED.get(source.state, "plain")
        if source.state != "ok" or source.message is not None:
            age = "" if source.age_seconds is None else f", {duration(source.age_seconds)} old"
            why = f": {source.message}" if source.message else ""
            state = f"! {text}: {source.state}{age}{why}"
            lines += paragraph(state, style, room, ascii=ascii, indent=2)
        for warning in source.warnings[:_MAX_NAMED]:
            lines += paragraph(f"! {text}: {warning}", "yellow", room, ascii=ascii, indent=2)
        if len(source.warnings) > _MAX_NAMED:
            more = counted(len(source.warnings) - _MAX_NAMED, "more warning")
            lines.append([(f"  and {more}", "dim")])
    return lines


_OF_GPUS: Mapping[str, Callable[[HostRow], object]] = {
    "gpus": lambda row: row.gpus,
    "gpus_missing": lambda row: row.missing,
    "gpu_utilization_percent": lambda row: row.utilization,
    "gpu_memory_used_bytes": lambda row: row.memory_used_bytes,
    "gpu_memory_total_bytes": lambda row: row.memory_total_bytes,
    "gpu_power_usage_mw": lambda row: row.power_mw,
    "gpu_temperature_celsius": lambda row: row.temperature,
    "users": lambda row: row.users,
}
"""Values of a host's GPUs in a row: `memory_used_bytes` is the host's own."""


def hosts_csv(snapshot: FleetSnapshot) -> str:
    """Return a heading and a row per host, with its GPUs added up."""
    rows = host_rows(snapshot)
    shown = [state for state in STATES if any(state.id in row.counts for row in rows)]
    names = [each for each in FleetHost.__struct_fields__ if each not in _NO_CELL]
    counts = [f"gpus_{state.word.lower().replace(' ', '_')}" for state in shown]
    values = (
        [
            *(getattr(row.host, name) for name in names),
            *(read(row) for read in _OF_GPUS.values()),
            *(row.count(state) for state in shown),
        ]
        for row in rows
    )
    return csv.table(snapshot.taken_at, [*names, *_OF_GPUS, *counts], values)


def devices_csv(snapshot: FleetSnapshot) -> str:
    """Return a heading and a row per GPU and MIG instance of all hosts."""
    names = FleetDevice.__struct_fields__
    rows = (
        [*(getattr(host, name) for name in _OF_HOST), *(getattr(device, name) for name in names)]
        for host in snapshot.hosts
        for device in host.devices
    )
    of_host = ["host", *(f"host_{name}" for name in _OF_HOST[1:])]
    return csv.table(snapshot.taken_at, [*of_host, *names], rows)


def users_csv(snapshot: FleetSnapshot) -> str:
    """Return a heading and a row per user."""
    names = FleetUser.__struct_fields__
    rows = ([getattr(each, name) for name in names] for each in snapshot.users)
    return csv.table(snapshot.taken_at, names, rows)
