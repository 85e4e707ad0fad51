from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.color import ColorSystem

from gpudash.analysis.table import device_rows
from gpudash.model.device import Device
from gpudash.tui.draw.line import cells_of
from gpudash.tui.draw.main_charts import COLUMN_SECONDS, Trends, any_chart, charts
from gpudash.tui.theme import load_theme
from tests.factories import gpu_uuid, make_device, make_snapshot, received
from tests.tui.past import START, sample, watched

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)

CURVE = re.compile(r"[\u2801-\u28ff]")
SAMPLES = [sample(second, [80, 40]) for second in range(60)]
TRENDS = Trends(watched(SAMPLES))
TRENDS.show(None)
DEVICES = SAMPLES[-1].devices


def drawn(cells: int, height: int, devices: tuple[Device, ...] = DEVICES) -> list[str]:
    lines = charts(devices, TRENDS, THEME, cells, height)
    return ["".join(segment.text for segment in line) for line in lines]


def test_title_tells_what_is_joined_and_its_value_now() -> None:
    lines = drawn(78, 6)
    assert "UTILIZATION, mean of 2  60%" in lines[0]
    assert "MEMORY  80.0G" in lines[0]
    assert (lines[1].split()[0], lines[-1].split()[0]) == ("100%", "0%")


@pytest.mark.parametrize(("gpus", "told"), [(8, "100%     2m40s"), (16, "100%    2m40s")])
def test_time_shown_keeps_clear_of_a_long_value(gpus: int, told: str) -> None:
    samples = [sample(second, [100] * gpus) for second in range(90)]
    trends = Trends(watched(samples))
    trends.show(None)
    title = charts(samples[-1].devices, trends, THEME, 120, 6)[0]
    text = "".join(segment.text for segment in title)
    assert f"mean of {gpus}  {told}  MEMORY" in text


def test_wider_terminals_show_more_numbers() -> None:
    titles = [drawn(cells, 6)[0] for cells in (40, 80, 120, 200)]
    counts = [title.count("last") for title in titles]
    assert counts == [1, 2, 3, 4]


def test_tall_ones_show_each_gpu_too() -> None:
    assert not any("GPU 1" in line for line in drawn(120, 8))
    assert any("GPU 0  80%" in line and "GPU 1  40%" in line for line in drawn(120, 14))


def test_a_gpu_that_tells_nothing_any_more_has_a_past_and_no_value_of_now() -> None:
    lost = Device(index=0, uuid=DEVICES[0].uuid, state="lost")
    lines = drawn(120, 14, (lost, DEVICES[1]))
    assert any("GPU 0  -" in line and "GPU 1  40%" in line for line in lines)
    assert not any("80%" in line for line in lines)
    assert lines[-2][8:50] == drawn(120, 14)[-2][8:50]


def test_scale_holds_what_gpus_that_are_lost_added_before() -> None:
    gpus = tuple(make_device(index=n, power_usage_mw=600_000) for n in range(2))
    gpus = tuple(replace(gpu, memory_used_bytes=60 << 30) for gpu in gpus)
    left = gpus[0], Device(index=1, uuid=gpus[1].uuid, state="lost")
    before = [sample(second, [], devices=gpus) for second in range(60)]
    after = [sample(second, [], devices=left) for second in range(60, 90)]
    trends = Trends(watched(before + after))
    trends.show(None)
    lines = charts(left, trends, THEME, 120, 10)
    texts = ["".join(segment.text for segment in line) for line in lines]
    assert "MEMORY  60.0G" in texts[0]
    assert "POWER  600W" in texts[0]
    tops = [word for word in texts[1].split() if word.isascii()]
    assert tops == ["100%", "120G", "1200W"]
    assert [word for word in texts[5].split() if word.isascii()] == ["50%", "60.0G", "600W"]
    # Twelve columns of 5 s with both, half a dozen with one.
    top, bottom = (len(CURVE.findall(texts[line][79:])) for line in (1, 9))
    assert 0 < top < bottom


def test_gpus_that_tell_nothing_have_no_charts() -> None:
    assert drawn(120, 8, (Device(index=0),)) == []
    assert not any_chart(device_rows(make_snapshot(devices=(Device(index=0),))))
    assert any_chart(device_rows(make_snapshot(devices=(Device(index=0), DEVICES[1]))))


def test_a_gpu_in_mig_mode_has_no_chart_of_what_nobody_tells() -> None:
    split = make_device(index=0, gpu_utilization_percent=None, mig_mode=True)
    trends = Trends(watched(sample(second, [None, 40]) for second in range(9)))
    trends.show(None)
    lines = charts((split, DEVICES[1]), trends, THEME, 120, 30)
    texts = ["".join(segment.text for segment in line) for line in lines]
    assert "UTILIZATION, GPU 1  40%" in texts[0]
    assert not any("GPU 0" in text for text in texts)


def test_tall_ones_show_the_numbers_that_a_line_of_charts_has_no_room_for() -> None:
    alone = DEVICES[:1]
    assert not any("TEMPERATURE" in line for line in drawn(120, 18, alone))
    lines = drawn(120, 24, alone)
    assert sum("UTILIZATION" in line and "MEMORY" in line for line in lines) == 1
    assert sum("POWER" in line and "TEMPERATURE" in line for line in lines) == 1


def test_charts_of_the_gpus_are_spread_evenly() -> None:
    samples = [sample(second, [10, 20, 30, 40]) for second in range(9)]
    trends = Trends(watched(samples))
    trends.show(None)
    lines = charts(samples[-1].devices, trends, THEME, 120, 20)
    texts = ["".join(segment.text for segment in line) for line in lines]
    counts = [text.count("GPU ") for text in texts if "GPU " in text]
    assert counts == [2, 2]


@given(st.integers(1, 300), st.integers(0, 60))
def test_any_size_is_kept(cells: int, height: int) -> None:
    lines = charts(DEVICES, TRENDS, THEME, cells, height)
    assert len(lines) in (0, height)
    if cells >= 10:
        assert all(cells_of(line) <= cells for line in lines)


GPU = gpu_uuid(0)
FIELD = "gpu_utilization_percent"


def test_last_column_fills_up_and_then_all_move_on_by_one() -> None:
    history = watched(sample(second, [second % 100]) for second in range(40))
    trends = Trends(history)
    trends.show(None)
    assert trends.values(GPU, FIELD, 5) == [None, None, 2, 7, 12, 17, 22, 27, 32, 37]
    for second in (40, 41, 42):
        history.push(*received(sample(second, [second])))
        trends.show(None)
        assert trends.values(GPU, FIELD, 5) == [2, 7, 12, 17, 22, 27, 32, 37, 20 + second / 2, None]


def test_later_samples_are_seen_without_asking_for_the_past_again() -> None:
    history = watched(sample(second, [50]) for second in range(22))
    trends = Trends(history)
    trends.show(None)
    assert trends.values(GPU, FIELD, 2) == [50, 50, 50, None]
    history.push(*received(sample(27, [80])))
    trends.show(None)
    assert trends.values(GPU, FIELD, 2)[-1] == 80


def test_moment_of_the_past_ends_the_series() -> None:
    history = watched(sample(second, [second]) for second in range(60))
    trends = Trends(history)
    trends.show(START + 12)
    assert trends.values(GPU, FIELD, 2) == [2, 7, 11, None]
    trends.show(None)
    assert trends.values(GPU, FIELD, 1) == [52, 57]


def test_join_leaves_out_who_does_not_tell() -> None:
    history = watched(sample(second, [10, 30, None]) for second in range(10))
    trends = Trends(history)
    trends.show(None)
    keys = tuple(map(gpu_uuid, range(3)))
    assert trends.joined(keys, FIELD, 3, sum) == [None, None, 40, 40, 40, 40]
    assert trends.joined(keys[2:], FIELD, 1, sum) == [None, None]


@pytest.mark.parametrize(("seconds", "width"), [(0, 5), (100, 5), (101, 10), (900, 10)])
def test_columns_are_as_short_as_lets_them_hold_all_that_is_known(seconds: int, width: int) -> None:
    trends = Trends(watched(sample(second, [7]) for second in range(seconds + 1)))
    trends.show(None)
    assert trends.column_seconds(20) == width
    known = [value for value in trends.values(GPU, FIELD, 20) if value is not None]
    assert len(known) >= 2 * min(20, seconds // width) - 1
    trends.show(START + 10)
    assert trends.column_seconds(20) == COLUMN_SECONDS[0]


def test_a_curve_starts_anew_with_its_history() -> None:
    history = watched(sample(second, [7]) for second in range(300))
    trends = Trends(history)
    history.push(*received(sample(-50, [9])))
    trends.show(None)
    assert trends.column_seconds(20) == COLUMN_SECONDS[0]
    assert set(trends.values(GPU, FIELD, 20)) == {None, 9}


@pytest.mark.parametrize("columns", [1, 2, 30])
def test_every_column_has_two_points_at_any_instant(columns: int) -> None:
    history = watched(())
    trends = Trends(history)
    for second in range(columns * COLUMN_SECONDS[-1] + 1):
        history.push(*received(sample(second, [1])))
        trends.show(None)
        assert len(trends.values(GPU, FIELD, columns)) == 2 * columns


def test_columns_that_are_finished_one_by_one_are_those_of_a_look_at_all() -> None:
    history = watched([])
    trends = Trends(history)
    # Samples come and go slowly and fast, and once a column long none does.
    for second in (0, 1, 2, 3, 7, 8, 19, 20, 21, 22, 23, 43, 44, 45, 46, 47, 48, 49, 50, 51):
        history.push(*received(sample(second, [second])))
        trends.show(None)
        afresh = Trends(history)
        afresh.show(None)
        assert trends.values(GPU, FIELD, 12) == afresh.values(GPU, FIELD, 12)


def test_another_history_has_another_past() -> None:
    history = watched(sample(second, [50]) for second in range(10))
    trends = Trends(history)
    trends.show(None)
    trends.values(GPU, FIELD, 5)
    history.clear()
    history.push(*received(sample(12, [80])))
    trends.show(None)
    assert [value for value in trends.values(GPU, FIELD, 5) if value is not None] == [80]
