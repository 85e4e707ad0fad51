"""Recordings to read: seconds of a host, a line each."""

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from gpudash.feed.recording.writer import Writer
from gpudash.model import wire
from gpudash.model.snapshot import Snapshot
from tests.factories import make_host, make_snapshot

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def second(number: int, **overrides: Any) -> Snapshot:
    """The host so many seconds after the start, on both clocks."""
    fields: dict[str, Any] = {
        "taken_at": START + timedelta(seconds=number),
        "host": make_host(uptime_seconds=1000.0 + number),
    }
    return make_snapshot(1, **{**fields, **overrides})


def line(number: int, **overrides: Any) -> bytes:
    return wire.encode(second(number, **overrides))


def write(path: Path, lines: Iterable[bytes]) -> Path:
    writer = Writer(str(path))
    for each in lines:
        writer.write(each)
    writer.close()
    return path
