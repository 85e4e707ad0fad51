"""Devices as CSV under gpudash's own names: a row each, a column for every metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot


def render(snapshot: Snapshot) -> str:
    """Return a heading and a row per GPU and MIG instance; what is not known is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["taken_at", "hostname", *Device.__struct_fields__])
    taken_at = snapshot.taken_at.isoformat()
    for device in snapshot.devices:
        values = (text_of(getattr(device, name)) for name in Device.__struct_fields__)
        writer.writerow([taken_at, snapshot.host.hostname, *values])
    return out.getvalue()


def text_of(value: Any) -> str:
    """Return a value as a cell: nothing for one that is not known, lists with spaces between."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Fault):
        return value.message
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(text_of, value))
    return str(value)
