import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.color import ColorSystem

from gpudash.analysis.history import History
from gpudash.model.device import Device
from gpudash.tui.draw.line import cells_of
from gpudash.tui.draw.main_charts import MAX_SECONDS, Trends, charted_fields, charts, curve_count
from gpudash.tui.layout import compute_layout
from gpudash.tui.theme import ASCII, UNICODE, load_theme
from tests.factories import GIB, gpu_uuid, make_device, make_host, received
from tests.tui.past import START, sample, watched

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
CURVE = re.compile(r"[\u2801-\u28ff]")
GPU = gpu_uuid(0)
FIELD = "gpu_utilization_percent"
SAMPLES = [sample(second, [80, 40]) for second in range(60)]
HOST = make_host(cpu_percent=12.0)


def trends_of(history: History, moment: float | None = None) -> Trends:
    trends = Trends(history)
    trends.show(moment)
    return trends


TRENDS = trends_of(watched(SAMPLES))
DEVICES = SAMPLES[-1].devices


def drawn(
    cells: int,
    height: int,
    devices: tuple[Device, ...] = DEVICES,
    trends: Trends = TRENDS,
    metric: str = "",
) -> list[str]:
    lines = charts(HOST, devices, trends, THEME, (cells, height), metric)
    return ["".join(segment.text for segment in line) for line in lines]


def values(trends: Trends, cells: int, *keys: str) -> list[float | None]:
    return trends.values(keys or (GPU,), FIELD, cells, ASCII)


def many(count: int) -> tuple[Device, ...]:
    return tuple(make_device(index=n, uuid=gpu_uuid(n)) for n in range(count))


def test_heading_names_metric_scale_and_once_the_time_that_is_shown() -> None:
    lines = drawn(120, 16)
    assert lines[0].split() == [
        "GPU",
        "utilization",
        "0%",
        "to",
        "100%",
        "last",
        "59s",
        "of",
        "3m32s,",
        "2s",
        "a",
        "column",
    ]
    assert sum("last " in line for line in lines) == 1


@pytest.mark.parametrize(
    ("seconds", "filled"), [(0, "1s of 40s"), (9, "9s of 40s"), (39, "39s"), (40, "40s of 1m20s")]
)
def test_time_of_a_curve_is_what_it_shows_of_what_it_can(seconds: int, filled: str) -> None:
    trends = trends_of(watched(sample(second, [7]) for second in range(seconds + 1)))
    assert trends.filled(20) == filled


def test_number_of_a_gpu_is_its_last_sample_and_that_of_all_their_mean() -> None:
    samples = [sample(second, [100, 90]) for second in range(9)] + [sample(9, [50, 40])]
    lines = drawn(80, 12, samples[-1].devices, trends_of(watched(samples)))
    numbers = {line.split()[0]: line.split()[-1] for line in lines[1:] if line[:5].strip()}
    assert numbers == {"0": "50%", "1": "40%", "mean": "45%", "CPU": "12%"}


def test_numbers_beside_each_other_have_as_many_decimals() -> None:
    devices = sample(0, [76, 77]).devices
    lines = charts(make_host(cpu_percent=9.5), devices, TRENDS, THEME, (80, 5), "")
    numbers = ["".join(part.text for part in line).split()[-1] for line in lines[1:]]
    assert numbers == ["76%", "77%", "76%", "10%"]


def test_the_scale_of_the_host_is_named_where_it_is_another() -> None:
    host = make_host(memory_used_bytes=200 * GIB, memory_total_bytes=512 * GIB)
    metric, devices = "memory_used_bytes", DEVICES

    def titles(height: int) -> str:
        line = charts(host, devices, TRENDS, THEME, (100, height), metric)[0]
        return "".join(part.text for part in line)

    assert "Memory used  0 to 80.0G, RAM to 512G" in titles(5)
    assert "RAM" not in titles(3)


def test_every_curve_has_as_many_lines_at_any_height() -> None:
    devices = sample(0, [50] * 8).devices
    count = curve_count(devices, 100)
    rooms = {compute_layout(100, height, 8, 8, curves=count).charts for height in range(24, 60)}
    for room in rooms - {0}:
        starts = [n for n, line in enumerate(drawn(100, room, devices)) if line[1:6].strip()][1:]
        assert {low - high for high, low in pairwise([*starts, room])} == {
            (room - 1) // len(starts)
        }, room


def test_one_curve_needs_no_mean() -> None:
    divided = make_device(index=1, uuid=gpu_uuid(1), gpu_utilization_percent=None)
    lines = drawn(80, 12, (DEVICES[0], divided))
    assert not any(line.startswith(" mean") for line in lines)


def test_wide_ones_show_two_metrics_beside_each_other() -> None:
    lines = drawn(200, 20)
    assert "GPU utilization" in lines[0]
    assert "Memory used  0 to 80.0G" in lines[0]
    assert any("CPU" in line and "12%" in line and "RAM" in line for line in lines)


@pytest.mark.parametrize("gpus", [1, 16])
def test_no_line_is_left_empty(gpus: int) -> None:
    trends = trends_of(watched([sample(second, [50] * gpus) for second in range(60)]))
    for cells, height in ((80, 12), (120, 18), (200, 36)):
        lines = drawn(cells, height, many(gpus), trends)
        assert len(lines) == height
        labelled = [line.split()[0] for line in lines[1:] if line[:16].strip()]
        assert labelled


def test_many_gpus_stand_in_columns_and_too_many_become_their_mean() -> None:
    trends = trends_of(watched([sample(second, [50] * 16) for second in range(60)]))
    lines = drawn(120, 6, many(16), trends)
    assert sum(len(re.findall(r"\d+%", line)) for line in lines[1:]) == 16
    few = drawn(60, 4, many(64), trends_of(watched([sample(s, [50] * 64) for s in range(9)])))
    assert few[1].split()[0] == "mean"


@pytest.mark.parametrize("cells", range(160, 166))
def test_the_last_value_ends_where_the_heading_does(cells: int) -> None:
    heading, first, *_rest = drawn(cells, 16)
    assert len(heading.rstrip()) == len(first.rstrip()) == cells - 1
    assert heading.index("Memory used") == first.index(" 0 ", first.index("%")) - 2


def test_a_gpu_alone_shows_several_metrics() -> None:
    lines = drawn(100, 13, DEVICES[:1])
    text = "\n".join(lines)
    assert "GPU 0" in lines[0]
    assert all(word in text for word in ("GPU utilization", "Memory used", "Power", "Temperature"))


def test_wide_ones_of_a_gpu_alone_stand_in_two_columns() -> None:
    lines = drawn(200, 13, DEVICES[:1])
    assert "GPU utilization" in lines[1]
    assert "Power" in lines[1]
    assert "Memory used" in lines[7]
    assert "Temperature" in lines[7]


def test_any_metric_can_be_charted_also_one_without_a_limit() -> None:
    devices = tuple(replace(each, pcie_rx_bytes_per_second=3 << 20) for each in DEVICES)
    history = watched(sample(second, [], devices=devices) for second in range(20))
    assert "pcie_rx_bytes_per_second" in [field.name for field in charted_fields(devices)]
    lines = drawn(120, 12, devices, trends_of(history), "pcie_rx_bytes_per_second")
    assert "0/s to 4.0M/s" in lines[0]
    assert CURVE.search("".join(lines[1:4]))


def test_a_gpu_that_is_lost_has_a_past_and_no_value() -> None:
    lost = Device(index=0, uuid=DEVICES[0].uuid, state="lost")
    lines = drawn(120, 14, (lost, DEVICES[1]))
    assert lines[1].split()[-1] == "-"
    assert CURVE.search("".join(lines[1:5]))


def test_a_gpu_without_the_metric_has_no_curve() -> None:
    split = make_device(index=0, gpu_utilization_percent=None, mig_mode=True)
    trends = trends_of(watched(sample(second, [None, 40]) for second in range(9)))
    lines = drawn(120, 12, (split, DEVICES[1]), trends)
    assert next(line.split()[0] for line in lines[1:] if line[:5].strip()) == "1"


def test_gpus_without_values_have_no_charts() -> None:
    assert drawn(120, 8, (Device(index=0),)) == []
    assert curve_count([Device(index=0)], 120) == 0


def test_only_whole_gpus_with_values_count_as_curves() -> None:
    split = make_device(index=0, gpu_utilization_percent=None, mig_mode=True)
    instance = make_device(index=1, parent_uuid=split.uuid)
    assert curve_count([split], 120) == 4
    # Of the other GPU, and of the host; of memory both have one, and their mean.
    assert curve_count([split, instance, DEVICES[1]], 120) == 2
    assert curve_count([split, instance, DEVICES[1]], 200) == 4


@given(st.integers(1, 300), st.integers(0, 60), st.integers(1, 9))
def test_any_size_is_kept(cells: int, height: int, gpus: int) -> None:
    lines = charts(HOST, many(gpus), TRENDS, THEME, (cells, height))
    assert len(lines) in (0, height)
    if cells >= 30:
        assert all(cells_of(line) <= cells for line in lines)


def test_a_curve_ends_now_at_its_right_and_moves_left_as_a_whole() -> None:
    history = watched(sample(second, [20 * second]) for second in range(6))
    trends = trends_of(history)
    assert values(trends, 10) == [*[None] * 7, 10, 50, 90]
    before = trends.lines([GPU], FIELD, 100, (10, 2), UNICODE)
    history.push(*received(sample(6, [90])))
    trends.show(None)
    after = trends.lines([GPU], FIELD, 100, (10, 2), UNICODE)
    assert [line[:-1] for line in after] == [line[1:] for line in before]
    assert after[0][-1] != " "


@pytest.mark.parametrize(("seconds", "column"), [(0, 2), (39, 2), (40, 4), (79, 4), (80, 8)])
def test_a_full_curve_halves_its_pace(seconds: int, column: int) -> None:
    trends = trends_of(watched(sample(second, [7]) for second in range(seconds + 1)))
    assert trends.column_seconds(20) == column
    assert values(trends, 20).count(7) == seconds // column + 1


def test_the_longest_time_moves_on_by_a_column() -> None:
    seconds = 2 * MAX_SECONDS
    history = watched(sample(second, [7]) for second in range(0, seconds, 10))
    trends = trends_of(history)
    assert trends.column_seconds(20) * 20 <= MAX_SECONDS
    assert values(trends, 20) == [7] * 20
    drawn_once = trends.lines([GPU], FIELD, 100, (20, 1), UNICODE)
    for second in range(seconds, seconds + 200, 10):
        history.push(*received(sample(second, [95])))
        trends.show(None)
        line = trends.lines([GPU], FIELD, 100, (20, 1), UNICODE)[0]
        assert len(line) == 20
    assert line[0] == drawn_once[0][0]
    assert line[-2:] != drawn_once[0][-2:]


def test_a_moment_of_the_past_is_drawn_as_it_was_then() -> None:
    history = watched(sample(second, [second]) for second in range(5))
    then = values(trends_of(history), 20)
    for second in range(5, 30):
        history.push(*received(sample(second, [second])))
    assert values(trends_of(history), 20)[-15:-12] == [0.5, 2.5, 4.5]
    assert values(trends_of(history, START + 4), 20) == then == [*[None] * 17, 0.5, 2.5, 4]


def test_mean_leaves_out_what_is_unknown() -> None:
    trends = trends_of(watched(sample(second, [10, 30, None]) for second in range(3)))
    keys = tuple(map(gpu_uuid, range(3)))
    assert values(trends, 4, *keys) == [None, None, 20, 20]
    assert values(trends, 4, keys[2]) == [None] * 4


@pytest.mark.parametrize("first", [0, 1])
def test_a_steady_curve_is_the_same_from_end_to_end(first: int) -> None:
    history = watched([])
    trends = Trends(history)
    for second in range(first, first + 9):
        history.push(*received(sample(second, [50])))
        trends.show(None)
        curve = trends.lines([GPU], FIELD, 100, (10, 1), UNICODE)[0]
        assert set(curve.lstrip()) == {"\u28e4"}


def test_an_outage_is_a_gap() -> None:
    samples = [sample(0, [50]), sample(1, [50]), sample(12, [50])]
    line = trends_of(watched(samples)).lines([GPU], FIELD, 100, (20, 1), UNICODE)[0]
    assert line[-7] != " " != line[-1]
    assert line[-4:-1] == " " * 3


def test_columns_that_are_finished_one_by_one_are_those_of_a_look_at_all() -> None:
    history = watched([])
    trends = Trends(history)
    # Samples come and go slowly and fast, and once for long none does.
    for second in (0, 1, 2, 3, 7, 8, 19, 20, 21, 22, 23, 43, 44, 45, 46, 47, 48, 49, 50, 51):
        history.push(*received(sample(second, [second])))
        trends.show(None)
        again = trends_of(history)
        for size in ((12, 1), (70, 3)):
            one = trends.lines([GPU], FIELD, 100, size, UNICODE)
            assert one == again.lines([GPU], FIELD, 100, size, UNICODE)


def test_another_history_has_another_past() -> None:
    history = watched(sample(second, [50]) for second in range(10))
    trends = trends_of(history)
    trends.lines([GPU], FIELD, 100, (5, 1), UNICODE)
    history.clear()
    history.push(*received(sample(12, [80])))
    trends.show(None)
    assert values(trends, 5) == [None, None, None, None, 80]
    assert trends.lines([GPU], FIELD, 100, (5, 1), UNICODE)[0][:-1] == " " * 4
