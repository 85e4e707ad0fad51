from hypothesis import given, settings
from hypothesis import strategies as st

from gpudash.model.units import Unit
from gpudash.tui.draw.chart import (
    Canvas,
    Chart,
    Curve,
    Scale,
    drawn,
    frame,
    instants,
    scaled,
    tight,
)
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.draw.plot import plotted
from gpudash.tui.theme import ASCII, PLAIN, UNICODE, Glyphs, Theme

glyph_sets = st.sampled_from([UNICODE, ASCII])
numbers = st.floats(min_value=-1e15, max_value=1e15, allow_nan=False)
series = st.lists(st.none() | numbers, max_size=40)
scales = st.builds(scaled, numbers, numbers, st.sampled_from(Unit), st.integers(0, 12))
curves = st.lists(
    st.builds(
        lambda label, values: Curve(label, label[-1], values, PLAIN.base),
        st.sampled_from(["0", "12", "0:1"]),
        series,
    ),
    min_size=1,
    max_size=4,
)


def themed(glyphs: Glyphs) -> Theme:
    return PLAIN._replace(glyphs=glyphs)


def texts(lines: list[Line]) -> list[str]:
    return ["".join(segment.text for segment in line) for line in lines]


def chart_of(*columns: list[float | None], high: float = 100) -> Chart:
    drawn_curves = [
        Curve(str(number), str(number), values, PLAIN.base, number)
        for number, values in enumerate(columns)
    ]
    return Chart(drawn_curves, scaled(0, high, Unit.PERCENT, 3), 60, "now")


@given(curves, scales, st.integers(1, 300), st.integers(1, 100), st.floats(1, 1800), glyph_sets)
@settings(max_examples=60, deadline=None)
def test_chart_is_exactly_as_large_as_asked(
    several: list[Curve], scale: Scale, cells: int, height: int, seconds: float, glyphs: Glyphs
) -> None:
    lines = drawn(Chart(several, scale, seconds, "now"), cells, height, themed(glyphs))
    assert [cells_of(line) for line in lines] == [cells] * height


@given(curves, scales, st.integers(1, 120), st.integers(1, 30), glyph_sets)
@settings(max_examples=40, deadline=None)
def test_plotext_chart_is_exactly_as_large_as_asked(
    several: list[Curve], scale: Scale, cells: int, height: int, glyphs: Glyphs
) -> None:
    chart = Chart(several, scale, 300, "now")
    lines = drawn(chart, cells, height, themed(glyphs), plotted)
    assert [cells_of(line) for line in lines] == [cells] * height


def test_no_room_is_no_chart() -> None:
    assert drawn(chart_of([1.0]), 0, 5, PLAIN) == []
    assert drawn(chart_of([1.0]), 20, 0, PLAIN) == []


def test_axes_name_values_and_instants() -> None:
    lines = texts(drawn(chart_of([50.0] * 150), 80, 9, PLAIN))
    assert lines[0].startswith(" 100% ")
    assert lines[7].startswith("   0% ")
    assert lines[8].split() == ["-1m", "-50s", "-40s", "-30s", "-20s", "-10s", "now"]
    assert lines[8].rstrip().endswith("now")


def _columns_drawn(values: list[float | None], canvas: Canvas | None) -> set[int]:
    chart = chart_of(values)
    parts = frame(chart, 60, 8)
    rows = texts(drawn(chart, 60, 8, PLAIN, canvas))[:-1]
    return {
        x for row in rows for x, char in enumerate(row[parts.left :]) if "\u2800" < char <= "\u28ff"
    }


def test_gap_stays_a_gap() -> None:
    parts = frame(chart_of([]), 60, 8)
    whole: list[float | None] = [70.0] * (2 * parts.cells)
    gap = whole[:40] + [None] * 20 + whole[60:]
    for canvas in (None, plotted):
        assert _columns_drawn(whole, canvas) == set(range(parts.cells))
        assert not _columns_drawn(gap, canvas) & set(range(21, 29))


def test_several_curves_are_labelled_where_they_end() -> None:
    lines = texts(drawn(chart_of([100.0] * 99, [100.0] * 99, [0.0] * 99), 60, 9, PLAIN))
    assert lines[0].rstrip().endswith(" 0-1")
    assert lines[7].rstrip().endswith(" 2")


def test_ascii_chart_is_ascii_and_marks_each_curve() -> None:
    lines = texts(drawn(chart_of([100.0] * 99, [0.0] * 99), 60, 9, themed(ASCII)))
    assert all(line.isascii() for line in lines)
    assert "0000" in lines[0]
    assert "1111" in lines[7]


@given(numbers, numbers, st.sampled_from(Unit), st.integers(1, 10))
def test_scale_names_rising_values_within_it(
    low: float, high: float, unit: Unit, count: int
) -> None:
    scale = scaled(low, high, unit, count)
    values = [value for value, _text in scale.ticks]
    assert values == sorted(values)
    assert scale.low < scale.high
    assert all(0 <= scale.share(value) <= 1 for value in values)
    assert 1 <= len(values) <= 2 * count + 3


@given(st.lists(st.floats(0, 1e12), min_size=1), st.sampled_from(Unit))
def test_tight_scale_holds_all_values(values: list[float], unit: Unit) -> None:
    scale = tight(values, unit, 4)
    assert scale.low <= min(values)
    assert scale.high >= max(values)


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
