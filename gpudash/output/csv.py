"""Devices as CSV with gpudash's own names: a row each, a column for every metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot


def render(snapshot: Snapshot) -> str:
    """Return a heading and a row per GPU and MIG instance; unknown values are empty."""
    names = Device.__struct_fields__
    rows = (
        [snapshot.host.hostname, *(getattr(device, name) for name in names)]
        for device in snapshot.devices
    )
    return table(snapshot.taken_at, ["hostname", *names], rows)


def table(taken_at: datetime, names: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a heading and rows, each of which begins with the time of the snapshot."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["taken_at", *names])
    writer.writerows([taken_at.isoformat(), *map(_text, row)] for row in rows)
    return out.getvalue()


def _text(value: Any) -> str:
    """Return a value as a cell: empty if unknown, lists separated by spaces."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fault):
        return value.message
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(_text, value))
    return str(value)
