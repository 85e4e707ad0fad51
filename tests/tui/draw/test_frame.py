from __future__ import annotations

import pytest
from rich.color import ColorSystem

from gpudash.model.snapshot import Snapshot
from gpudash.tui.draw.frame import header
from gpudash.tui.draw.line import cells_of
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
    shown = text(67, marks=("PAUSED",))
    assert "8 GPUs: 1 hot, 5 busy, 1 held, 1 free " in shown
    assert "PAUSED" in shown
    assert ":" in shown.rpartition("PAUSED")[2]


@pytest.mark.parametrize("marks", [(), ("PAUSED",)])
def test_uses_keep_their_order_and_commas_at_any_width(marks: tuple[str, ...]) -> None:
    order = ["1 hot", "5 busy", "1 held", "1 free"]
    for cells in range(46, 160):
        told = text(cells, marks=marks).partition("8 GPUs: ")[2].partition("  ")[0]
        told = told.removesuffix(" DEMO")
        uses = told.replace("held idle", "held").removesuffix("…").split(", ")
        assert uses == [use for use in order if use in uses]
        assert told.endswith("…") is (len(uses) < len(order))


def test_what_is_left_out_is_marked() -> None:
    assert "8 GPUs: 1 hot, 1 held, 1 free…" in text(60, marks=("PAUSED",))
