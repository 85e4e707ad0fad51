import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.units import parse_percentage, parse_size, parse_span

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [
        ("10G", 10 * GIB, GIB),
        ("10g", 10 * GIB, GIB),
        ("10GB", 10 * GIB, GIB),
        ("10GiB", 10 * GIB, GIB),
        ("74.2G", 74.2 * GIB, 0.1 * GIB),
        ("512MiB", GIB / 2, 1 << 20),
        ("3K", 3072, 1024),
        ("2T", 2048 * GIB, 1024 * GIB),
        ("7B", 7, 1),
        ("0", 0, 1),
    ],
)
def test_sizes_are_powers_of_1024(text: str, value: float, step: float) -> None:
    assert parse_size(text) == (pytest.approx(value), pytest.approx(step))


@pytest.mark.parametrize(
    ("text", "value", "step"),
    [
        ("90s", 90, 1),
        ("10m", 600, 60),
        ("2h", 7200, 3600),
        ("3d", 259200, 86400),
        ("1w", 604800, 604800),
        ("1.5h", 5400, 360),
        ("3m07s", 187, 1),
        ("12d04h", 12 * 86400 + 4 * 3600, 3600),
        ("0", 0, 1),
    ],
)
def test_spans_are_read_as_they_are_shown(text: str, value: float, step: float) -> None:
    assert parse_span(text) == (pytest.approx(value), pytest.approx(step))


@pytest.mark.parametrize("text", ["5", "5%", "05", "5.0"])
def test_percentages_need_no_sign(text: str) -> None:
    assert parse_percentage(text) is not None
    assert parse_percentage(text) == (5, pytest.approx(0.1 if "." in text else 1))


@pytest.mark.parametrize("read", [parse_size, parse_span, parse_percentage])
@pytest.mark.parametrize(
    "text",
    ["", ".", "-1", "+1", "1e5", "1.", ".5", "1.2.3", "nan", "inf", "²", "٣", "G", "1x", "1 "],
)
def test_what_is_no_quantity_is_none(read: object, text: str) -> None:
    assert callable(read)
    assert read(text) is None


@pytest.mark.parametrize("text", ["10", "10Gi B", "10Q", "9" * 30 + "G"])
def test_a_size_without_a_known_unit_is_none(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize("text", ["10", "1h30", "1h" * 6, "10ms"])
def test_a_span_without_a_known_unit_is_none(text: str) -> None:
    assert parse_span(text) is None


def test_equality_reaches_as_far_as_the_digits_written() -> None:
    coarse, fine = parse_size("74G"), parse_size("74.2G")
    assert fine is not None
    assert coarse.is_close_to(74.2 * GIB)
    assert fine.is_close_to(74.22 * GIB)
    assert not fine.is_close_to(74.0 * GIB)
    assert not coarse.is_close_to(74.5 * GIB)


@given(st.text(max_size=2000) | st.text(alphabet="0123456789.smhd%GiB", max_size=2000))
def test_any_text_is_a_finite_number_or_none(text: str) -> None:
    for read in (parse_size, parse_span, parse_percentage):
        quantity = read(text)
        assert quantity is None or (0 <= quantity.value < 1e40 and quantity.step > 0)
