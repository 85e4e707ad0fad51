"""A report as text: a table for people, and rows of CSV."""

from __future__ import annotations

from gpudash.analysis.columns.report import FINDING_COLUMNS, REPORT_COLUMNS, gpu_time
from gpudash.analysis.table import fit
from gpudash.model.report import Report, ReportRow, Use
from gpudash.model.units import counted, duration
from gpudash.output import csv
from gpudash.output.table import Line, body, heading, local_time, painted, paragraph

_MIN_BAR = 5


def render(report: Report, *, width: int = 80, color: bool = False, ascii: bool = False) -> str:
    """Return how much was seen and held, the rows, and what was wrong for how long."""
    columns = fit(REPORT_COLUMNS[report.by], report.rows, width, bar=_MIN_BAR)
    rows = [heading(columns), *body(columns, report.rows, ascii=ascii)] if report.rows else []
    failed = [each for each in report.hosts if each.message is not None]
    missing = [
        line
        for each in failed
        for line in paragraph(f"! {each.name}: {each.message}", "yellow", width, ascii=ascii)
    ]
    shown = fit(FINDING_COLUMNS, report.findings, width)
    findings = [heading(shown), *body(shown, report.findings, ascii=ascii)]
    sections = (_head(report), missing, rows, findings if report.findings else [])
    return painted(sections, width, color=color)


def seen_text(report: Report) -> str:
    """Return how much of its span was seen: `seen 6d22h of 7d00h`, of hosts the least and most."""
    seen = sorted(each.seen_seconds for each in report.hosts if each.message is None)
    texts = list(dict.fromkeys(duration(each) for each in (seen[:1] + seen[-1:]) or [0.0]))
    asked = duration((report.until - report.since).total_seconds())
    hosts = f" on {counted(len(seen), 'host')}" if len(report.hosts) > 1 else ""
    return f"seen {' to '.join(texts)} of {asked}{hosts}"


def _head(report: Report) -> list[Line]:
    span = f"{local_time(report.since)} to {local_time(report.until)}"
    held = sum(row.share_seconds for row in report.rows if row.parent_uuid is None)
    total = sum(each.gpu_seconds for each in report.hosts)
    sums = f"GPUs held {gpu_time(held)} of {gpu_time(total)} seen"
    return [[(f"{span}, {seen_text(report)}", "bold")], [(sums, "plain")]]


def to_csv(report: Report) -> str:
    """Return a heading and a row for each of the report, in the units of its document."""
    sums = Use.__struct_fields__
    own = [each for each in ReportRow.__struct_fields__ if each not in (*sums, "models")]
    names = [*own, *sums]
    rows = (
        [report.by, report.since.isoformat(), report.until.isoformat()]
        + [getattr(row, name) for name in names]
        for row in report.rows
    )
    return csv.table(report.taken_at, ["by", "since", "until", *names], rows)
