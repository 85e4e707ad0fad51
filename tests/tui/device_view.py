"""What the tests of the view of a GPU share: its hosts, and how to find things on it."""

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from gpudash.model.snapshot import Snapshot
from gpudash.tui.app import GpudashApp
from tests.factories import (
    make_device,
    make_host,
    make_snapshot,
)
from tests.tui.stage import screen_lines


def later(snapshot: Snapshot, seconds: float, **changes: Any) -> Snapshot:
    """The same host after some seconds."""
    uptime = (snapshot.host.uptime_seconds or 0) + seconds
    return replace(
        snapshot,
        taken_at=snapshot.taken_at + timedelta(seconds=seconds),
        host=make_host(uptime_seconds=uptime),
        **changes,
    )


def varied(count: int = 8, **overrides: Any) -> Snapshot:
    """GPUs that differ in utilization."""
    devices = tuple(make_device(index=n, gpu_utilization_percent=10 * n) for n in range(count))
    return make_snapshot(count, devices=devices, **overrides)


def title(app: GpudashApp) -> str:
    return screen_lines(app)[2]


def place_of(app: GpudashApp, text: str) -> tuple[int, int]:
    for y, line in enumerate(screen_lines(app)):
        if text in line:
            return line.index(text) + len(text) // 2, y
    raise AssertionError(f"{text!r} is not shown")
