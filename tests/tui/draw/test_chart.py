import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.color import ColorSystem

from gpudash.model.units import Unit
from gpudash.tui.draw import chart
from gpudash.tui.draw.chart import Chart, Curve, Scale, drawn, instants, scaled, tight
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.theme import ASCII, PLAIN, UNICODE, Glyphs, Theme, load_theme

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
glyph_sets = st.sampled_from([UNICODE, ASCII])
numbers = st.floats(min_value=-1e15, max_value=1e15, allow_nan=False)
series = st.lists(st.none() | numbers, max_size=40).map(tuple)
scales = st.builds(scaled, numbers, numbers, st.sampled_from(Unit), st.integers(0, 12))
curves = st.lists(
    st.builds(Curve, st.sampled_from(["0", "12", "0:1"]), series, st.just(PLAIN.base)),
    min_size=1,
    max_size=4,
).map(tuple)


@pytest.fixture(autouse=True, scope="module")
def loaded() -> None:
    chart.load()


def themed(glyphs: Glyphs, theme: Theme = PLAIN) -> Theme:
    return replace(theme, glyphs=glyphs)


def texts(lines: list[Line]) -> list[str]:
    return ["".join(segment.text for segment in line) for line in lines]


def chart_of(*columns: list[float | None], high: float = 100) -> Chart:
    several = [
        Curve(str(number), tuple(values), THEME.curves[number])
        for number, values in enumerate(columns)
    ]
    return Chart(tuple(several), scaled(0, high, Unit.PERCENT, 3), 60, "now")


@given(curves, scales, st.integers(1, 200), st.integers(1, 60), st.floats(1, 1800), glyph_sets)
@settings(max_examples=25, deadline=None)
def test_chart_is_exactly_as_large_as_asked(
    several: tuple[Curve, ...],
    scale: Scale,
    cells: int,
    height: int,
    seconds: float,
    glyphs: Glyphs,
) -> None:
    lines = drawn(Chart(several, scale, seconds, "now"), cells, height, themed(glyphs))
    assert [cells_of(line) for line in lines] == [cells] * height
    assert all(text.isprintable() for text in texts([*lines]))


def test_no_room_is_no_chart() -> None:
    assert drawn(chart_of([1.0]), 0, 5, PLAIN) == []
    assert drawn(chart_of([1.0]), 20, 0, PLAIN) == []


def test_axes_name_values_and_instants() -> None:
    lines = texts([*drawn(chart_of([50.0] * 61), 80, 9, PLAIN)])
    assert lines[0].startswith("100%")
    assert lines[6].startswith("  0%")
    assert lines[8].split() == ["-1m", "-50s", "-40s", "-30s", "-20s", "-10s", "now"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("cells", [78, 118, 200])
@pytest.mark.parametrize("seconds", [3600.0, 86400.0, 7 * 86400.0])
def test_an_end_with_a_long_name_has_room_for_it(count: int, cells: int, seconds: float) -> None:
    figure = chart_of(*[[10.0, 20.0]] * count)._replace(seconds=seconds, now="11-23 02:14")
    assert texts([*drawn(figure, cells, 9, PLAIN)])[-1].split()[-2:] == ["11-23", "02:14"]


def test_nothing_of_a_chart_is_left_in_the_next() -> None:
    small, large = chart_of([70.0] * 30), chart_of([10.0] * 90, [90.0] * 90, high=200)
    # A single curve has no label: it is drawn again, and looks the same.
    same = small._replace(curves=(small.curves[0]._replace(label="other"),))
    before = drawn(small, 60, 10, THEME)
    drawn(large, 120, 30, themed(ASCII, THEME))
    after = drawn(same, 60, 10, THEME)
    assert after is not before
    assert texts([*after]) == texts([*before])


def test_same_data_is_not_drawn_again() -> None:
    assert drawn(chart_of([5.0, 6.0]), 60, 9, THEME) is drawn(chart_of([5.0, 6.0]), 60, 9, THEME)


def _columns_drawn(values: list[float | None]) -> set[int]:
    rows = texts([*drawn(chart_of(values), 60, 8, PLAIN)])[:-1]
    return {x - 5 for row in rows for x, char in enumerate(row) if "\u2800" < char <= "\u28ff"}


def test_gap_stays_a_gap() -> None:
    whole: list[float | None] = [70.0] * 110
    assert _columns_drawn(whole) == set(range(55))
    assert not _columns_drawn(whole[:40] + [None] * 20 + whole[60:]) & set(range(21, 29))
    assert not _columns_drawn([None] * 110)


def test_one_curve_is_filled_down_to_the_axis_and_several_are_lines() -> None:
    full = "\u28ff"
    assert full in texts([*drawn(chart_of([70.0] * 99), 60, 12, THEME)])[9]
    assert full not in "".join(texts([*drawn(chart_of([70.0] * 99, [9.0] * 99), 60, 12, THEME)]))


def test_several_curves_are_labelled_where_they_end() -> None:
    lines = texts([*drawn(chart_of([100.0] * 99, [50.0] * 99, [0.0] * 99), 60, 9, THEME)])
    assert [line.rstrip()[-1] for line in (lines[0], lines[6])] == ["0", "2"]


def test_each_of_several_curves_has_its_own_style() -> None:
    lines = drawn(chart_of([100.0] * 99, [0.0] * 99), 60, 9, THEME)
    styles = {segment.style for line in lines for segment in line}
    assert {*THEME.curves[:2]} <= styles


def test_curves_of_one_colour_are_told_apart_by_their_labels() -> None:
    plain = chart_of(*([float(number * 12)] * 99 for number in range(8)))
    few = [THEME.curves[number % 6] for number in range(8)]
    curves = tuple(c._replace(style=style) for c, style in zip(plain.curves, few, strict=True))
    lines = texts([*drawn(plain._replace(curves=curves), 60, 30, THEME)])
    by_letter = {letter for line in lines for letter in "01234567" if letter * 9 in line}
    assert by_letter == {"0", "1", "6", "7"}


def test_without_colours_each_of_several_curves_is_drawn_by_its_label() -> None:
    plain = chart_of([100.0] * 99, [0.0] * 99)
    plain = plain._replace(curves=tuple(c._replace(style=PLAIN.base) for c in plain.curves))
    lines = texts([*drawn(plain, 60, 9, PLAIN)])
    assert "0000" in lines[0]
    assert "1111" in lines[6]


def test_ascii_chart_is_ascii_and_marks_each_curve() -> None:
    lines = texts([*drawn(chart_of([100.0] * 99, [0.0] * 99), 60, 9, themed(ASCII, THEME))])
    assert all(line.isascii() for line in lines)
    assert "0000" in lines[0]
    assert "1111" in lines[6]


def test_plotext_is_imported_by_the_first_chart_only() -> None:
    code = (
        "import sys, gpudash.tui.app, gpudash.tui.views.device, gpudash.tui.views.process;"
        "assert 'plotext' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@given(numbers, numbers, st.sampled_from(Unit), st.integers(1, 10))
def test_scale_names_rising_values_within_it(
    low: float, high: float, unit: Unit, count: int
) -> None:
    scale = scaled(low, high, unit, count)
    values = [value for value, _text in scale.ticks]
    assert values == sorted(values)
    assert scale.low < scale.high
    assert all(scale.low <= value <= scale.high for value in values)
    assert 1 <= len(values) <= 2 * count + 3


@given(st.lists(st.floats(0, 1e12), min_size=1), st.sampled_from(Unit))
def test_tight_scale_holds_all_values(values: list[float], unit: Unit) -> None:
    scale = tight(values, unit, 4)
    assert scale.low <= min(values)
    assert scale.high >= max(values)


def test_tight_scale_goes_above_what_is_possible_only_where_a_value_does() -> None:
    gib = 1 << 30
    highs = [tight([0, used * gib], Unit.BYTE, 2, 80 * gib).high / gib for used in (6, 70, 90)]
    assert highs == [7, 80, 90]


def test_memory_is_named_in_powers_of_two() -> None:
    gib = 1 << 30
    named = [text for _value, text in scaled(0, 80 * gib, Unit.BYTE, 5).ticks]
    assert named == ["0", "16.0G", "32.0G", "48.0G", "64.0G", "80.0G"]


def test_limit_between_round_values_is_named_too() -> None:
    named = [text for _value, text in scaled(0, 700_000, Unit.MILLIWATT, 3).ticks]
    assert named == ["0W", "250W", "500W", "700W"]


def test_long_times_are_named_in_minutes() -> None:
    assert [text for _share, text in instants(300, 120, "now")] == [
        *("-5m", "-4m", "-3m", "-2m", "-1m"),
        "now",
    ]
    assert instants(60, 5, "now")[-1] == (1.0, "now")
    assert instants(60, 0, "now")[-1] == (1.0, "now")


@pytest.mark.parametrize("cells", [60, 76, 136, 200])
@pytest.mark.parametrize(("days", "unit"), [(1, "h"), (2, "h"), (3, "d"), (7, "d")])
def test_times_below_a_chart_are_of_one_unit(days: int, unit: str, cells: int) -> None:
    *named, _now = [text for _share, text in instants(days * 86400.0, cells, "now")]
    assert len(named) >= 3
    assert {text[-1] for text in named} == {unit}
