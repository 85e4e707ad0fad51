"""A report as text: a table for people, and rows of CSV."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from gpudash.analysis.columns.report import FINDING_COLUMNS, REPORT_COLUMNS, gpu_time, seen_text
from gpudash.analysis.labels import index_ranges
from gpudash.model.report import Report, ReportFinding, ReportRow, Use
from gpudash.model.text import clean
from gpudash.model.units import grouped
from gpudash.output import csv
from gpudash.output.table import Line, listing, local_time, painted

_MIN_BAR, _MAX_DIGITS = 5, 10


def render(report: Report, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """Return how much was seen and held, the rows, and the findings with their durations."""
    columns = REPORT_COLUMNS[report.by]
    rows = listing(columns, report.rows, width, ascii=ascii, bar=_MIN_BAR)
    findings = listing(FINDING_COLUMNS, _by_host(report.findings), width, ascii=ascii)
    sections = (_head(report), rows, findings)
    return painted(sections, width, color=color)


def _by_host(findings: Iterable[ReportFinding]) -> list[ReportFinding]:
    """Return a host's findings of a rule as one: all devices, and the longest duration."""
    groups = grouped(((each.rule, each.level, each.host), each) for each in findings)
    found = []
    for group in groups.values():
        labels = [each.gpu for each in group if each.gpu is not None]
        whole = {label for label in labels if label.isdecimal() and len(label) < _MAX_DIGITS}
        ranges = [index_ranges(map(int, whole))] if whole else []
        names = [*ranges, *sorted({*labels} - whole)]
        found.append(replace(group[0], gpu=clean(",".join(names)) if names else None))
    return found


def _head(report: Report) -> list[Line]:
    span = f"{local_time(report.since)} to {local_time(report.until)}"
    held = sum(row.share_seconds for row in report.rows if row.parent_uuid is None)
    total = sum(each.gpu_seconds for each in report.hosts)
    sums = f"GPUs held {gpu_time(held)} of {gpu_time(total)} seen"
    return [[(f"{span}, {seen_text(report)}", "bold")], [(sums, "plain")]]


def to_csv(report: Report) -> str:
    """Return a heading and a row for each of the report's, in the units of its document."""
    sums = Use.__struct_fields__
    own = [each for each in ReportRow.__struct_fields__ if each not in (*sums, "models")]
    names = [*own, *sums]
    rows = (
        [report.by, report.since.isoformat(), report.until.isoformat()]
        + [getattr(row, name) for name in names]
        for row in report.rows
    )
    return csv.table(report.taken_at, ["by", "since", "until", *names], rows)
