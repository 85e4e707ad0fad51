from __future__ import annotations

import pytest
from rich.color import ColorSystem

from gpudash.snapshot import Snapshot
from gpudash.tui.renderables.header import header
from gpudash.tui.renderables.line import cells_of
from gpudash.tui.theme import look
from tests.factories import (
    GIB,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)

THEME = look(no_color=False, color_system=ColorSystem.TRUECOLOR)
IDLE = {"gpu_utilization_percent": 0, "memory_used_bytes": 3 << 20}


def all_uses() -> Snapshot:
    """One hot, five busy, one held idle and one free."""
    devices = (
        make_device(index=0, temperature_celsius=95, slowdown_temperature_celsius=90),
        *(make_device(index=index) for index in range(1, 6)),
        make_device(index=6, **{**IDLE, "memory_used_bytes": 60 * GIB}),
        make_device(index=7, **IDLE),
    )
    share = make_process_device(index=6, sm_utilization_percent=0)
    host = make_host(hostname="demo-of-eight-gpus", simulated=True)
    return make_snapshot(devices=devices, processes=(make_process(devices=(share,)),), host=host)


def text(cells: int, **options: object) -> str:
    given = {"pace": "every 1s", "marks": (), **options}
    line = header(all_uses(), THEME, cells, **given)  # type: ignore[arg-type]
    assert cells_of(line) == cells
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize("cells", [30, 40, 50, 60, 72, 80, 100, 140])
def test_header_never_loses_what_is_free(cells: int) -> None:
    assert "1 free" in text(cells)


def test_pace_and_clock_give_way_to_the_whole_summary() -> None:
    shown = text(80)
    assert "8 GPUs: 1 hot, 5 busy, 1 held idle, 1 free" in shown
    assert "DEMO" in shown
    assert "every" not in shown
    assert "every 1s" in text(140)


def test_words_give_way_to_the_time_of_what_is_not_of_now() -> None:
    shown = text(80, marks=("PAUSED",))
    assert "8 GPUs: 1 hot 1 free 5 busy 1 held" in shown
    assert "PAUSED" in shown
    assert ":" in shown.rpartition("PAUSED")[2]
