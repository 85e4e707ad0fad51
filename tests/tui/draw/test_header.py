import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.color import ColorSystem
from rich.segment import Segment

from gpudash.analysis.usage import tally
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.text import clean
from gpudash.tui.bindings import (
    keys_on_devices,
    keys_while_stopped,
    labelled,
    live_keys,
    recorded_keys,
)
from gpudash.tui.draw.header import action_at, footer, header, host_line
from gpudash.tui.draw.line import cells_of
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.theme import load_theme
from tests.factories import (
    GIB,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.strategies import values

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
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
    line = header(all_uses(), tally(all_uses()), THEME, cells, **given)  # type: ignore[arg-type]
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


def test_versions_and_the_day_are_shown_where_there_is_room() -> None:
    eight = make_snapshot(8)

    def shown(cells: int) -> str:
        line = header(eight, tally(eight), THEME, cells, pace="every 1s", marks=())
        return "".join(segment.text for segment in line)

    day = f"{eight.taken_at.astimezone():%Y-%m-%d} "
    assert "CUDA 12.8" in shown(80)
    assert "driver" not in shown(80)
    assert "driver 570.86.15   CUDA 12.8" in shown(96)
    assert day not in shown(96)
    assert day in shown(110)


def test_what_is_busy_gives_way_to_the_time_of_what_is_not_of_now() -> None:
    shown = text(67, marks=("PAUSED",))
    assert "8 GPUs: 1 hot, …, 1 held idle, 1 free" in shown
    assert "PAUSED" in shown
    assert ":" in shown.rpartition("PAUSED")[2]


def test_the_host_keeps_its_name_longer_than_the_pace_and_what_is_fine() -> None:
    shown = text(84, marks=("PAUSED",))
    assert "demo-of-eight-gpus" in shown
    assert "every" not in shown
    assert "1 hot, …, 1 held idle, 1 free" in shown


@pytest.mark.parametrize("marks", [(), ("PAUSED",)])
def test_uses_keep_their_order_and_commas_at_any_width(marks: tuple[str, ...]) -> None:
    order = ["1 hot", "5 busy", "1 held idle", "1 free"]
    for cells in range(46, 160):
        told = text(cells, marks=marks).partition("8 GPUs: ")[2].partition("  ")[0]
        told = told.removesuffix(" DEMO")
        uses = told.split(", ")
        assert [use for use in uses if use != "…"] == [use for use in order if use in uses]
        assert ("…" in uses) is not set(order).issubset(uses)


def text_footer(notice: str, cells: int) -> str:
    (line,) = footer(OVERVIEW_KEYS, notice, THEME, cells)
    return "".join(segment.text for segment in line)


@pytest.mark.parametrize("cells", range(30, 120, 7))
def test_notice_pushes_whole_keys_out(cells: int) -> None:
    notice = "killed 23741 and the rest"
    shown = text_footer(notice, cells)
    assert shown.rstrip().endswith(notice)
    left, line, _none = shown.rpartition(notice)[0].strip().rpartition("│")
    assert bool(line) is bool(left)
    left = left.strip()
    every = [f"{key.shown} {key.label}" for key in labelled(OVERVIEW_KEYS)]
    words = left.split()
    assert words == " ".join(every).split()[: len(words)]
    assert not words or any(left.endswith(entry) for entry in every)


def test_a_key_that_a_notice_pushed_out_cannot_be_clicked() -> None:
    assert action_at(OVERVIEW_KEYS, "", 14, 30) is not None
    assert action_at(OVERVIEW_KEYS, "killed 23741 and the rest", 14, 30) is None


def test_a_line_too_short_for_any_key_shows_the_beginning_of_one() -> None:
    assert text_footer("", 5).strip() == "q qu"


def test_eighty_cells_hold_the_keys_of_all_views() -> None:
    (line,) = footer(live_keys(OVERVIEW_KEYS), "", THEME, 80)
    shown = "".join(segment.text for segment in line)
    for entry in ("⏎ open", "d GPU", "w findings", "m links", "u users"):
        assert entry in shown


def test_what_lets_time_go_on_is_reported_first_while_it_stands_still() -> None:
    keys = live_keys(OVERVIEW_KEYS)
    assert "pause" in [key.label for key in labelled(keys)]
    stopped = [key.label for key in labelled(keys_while_stopped(tuple(keys)))]
    assert stopped[:3] == ["quit", "help", "live"]
    assert "pause" not in stopped
    recorded = keys_while_stopped(tuple(recorded_keys(OVERVIEW_KEYS)))
    assert [key.label for key in labelled(recorded)][:3] == ["quit", "help", "play"]


def test_keys_of_the_devices_need_no_process() -> None:
    shown = {key.id: key.label for key in labelled(keys_on_devices(OVERVIEW_KEYS))}
    assert "process.kill" not in shown
    assert shown["move.turn"] == "processes"
    assert "view.process" in shown


def text_host(host: Host, cells: int) -> str:
    return "".join(segment.text for segment in host_line(host, THEME, cells))


def test_wide_line_tells_all_with_bars() -> None:
    line = text_host(make_host(swap_total_bytes=8 * GIB, swap_used_bytes=GIB), 200)
    for part in ("CPU  12%", "MEM 96.0G/512G", "SWAP 1.0G/8.0G", "LOAD 4.5 4.2 4.0", "UP 11d13h"):
        assert part in line
    assert "━" in line


@pytest.mark.parametrize(("cells", "last"), [(80, "UP"), (40, "MEM"), (14, "CPU")])
def test_narrow_line_keeps_what_matters_most(cells: int, last: str) -> None:
    line = text_host(make_host(), cells)
    words = [word for word in line.split() if word.isalpha()]
    assert words[-1] == last


@pytest.mark.parametrize(("used", "word"), [(GIB, "SWAP"), (0, "LOAD")])
def test_swap_comes_before_the_load_when_it_is_used(used: int, word: str) -> None:
    line = text_host(make_host(swap_total_bytes=8 * GIB, swap_used_bytes=used), 60)
    assert {"SWAP", "LOAD"} & set(line.split()) == {word}


def test_host_that_tells_nothing_shows_no_zeros() -> None:
    assert text_host(Host(hostname="x"), 80).split() == []


@given(values(Host), st.integers(1, 300))
def test_any_host_stays_within_the_line(host: Host, cells: int) -> None:
    assert cells_of(host_line(host, THEME, cells)) <= cells


@pytest.mark.parametrize("cells", [80, 100, 140])
def test_it_says_whose_eyes_it_uses(cells: int) -> None:
    shared = replace(all_uses(), collected_by=clean("gpudash-of-all-hosts"))
    text = "".join(
        each.text for each in header(shared, tally(shared), THEME, cells, pace="1s", marks=[])
    )
    assert "by gpudash-of-…" in text
    assert cells_of([Segment(text)]) == cells
