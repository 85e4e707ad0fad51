import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.model.units import (
    ABSENT,
    Unit,
    celsius,
    counted,
    duration,
    hours,
    kilowatts,
    percent,
    readable,
    short,
    short_size,
    size,
    span,
    watts,
)

BYTES = st.integers(0, 2**60)


@pytest.mark.parametrize(
    ("count", "long", "short"),
    [
        (0, "0 B", "0"),
        (999, "999 B", "999"),
        (1000, "1.0 KiB", "1.0K"),
        (1024, "1.0 KiB", "1.0K"),
        (512 * 2**20, "512 MiB", "512M"),
        (1023 * 2**20, "1.0 GiB", "1.0G"),
        (int(74.2 * 2**30), "74.2 GiB", "74.2G"),
        (80 * 2**30, "80.0 GiB", "80.0G"),
        (100 * 2**30, "100 GiB", "100G"),
        (2**60, "1024 PiB", "1024P"),
    ],
)
def test_sizes_have_three_digits(count: int, long: str, short: str) -> None:
    assert size(count) == long
    assert short_size(count) == short


@given(BYTES)
def test_short_size_fits_five_columns(count: int) -> None:
    assert len(short_size(count)) <= 5


@given(BYTES)
def test_size_is_within_its_last_digit(count: int) -> None:
    number, prefix = re.fullmatch(r"([\d.]+)([KMGTP]?)", short_size(count)).groups()  # type: ignore[union-attr]
    scale = 1024 ** " KMGTP".index(prefix or " ")
    step = 0.1 if "." in number else 1
    assert abs(float(number) - count / scale) <= step / 2 + 1e-9


@given(BYTES, BYTES)
def test_sizes_keep_their_order(one: int, other: int) -> None:
    small, large = sorted((one, other))
    if size(small) == size(large):
        return
    assert _bytes(size(small)) < _bytes(size(large))


@given(BYTES)
def test_negative_size_is_the_positive_with_a_minus(count: int) -> None:
    expected = size(count) if count == 0 else f"-{size(count)}"
    assert size(-count) == expected


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (187, "3m07s"),
        (3600, "1h00m"),
        (86_399, "23h59m"),
        (86_400, "1d00h"),
        (12 * 86_400 + 4 * 3600, "12d04h"),
        (999 * 86_400, "999d00h"),
        (1000 * 86_400, "1000d"),
        (-5, "0s"),
    ],
)
def test_duration_shows_its_two_largest_units(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@given(st.floats(-1e6, 99 * 86_400, allow_nan=False))
def test_duration_fits_six_columns_below_a_hundred_days(seconds: float) -> None:
    assert len(duration(seconds)) <= 6


@pytest.mark.parametrize(
    "function", [size, short_size, watts, kilowatts, percent, celsius, duration, hours]
)
def test_absent_is_a_dash_and_never_zero(function: object) -> None:
    assert callable(function)
    assert function(None) == ABSENT == "-"
    assert function(0) != ABSENT


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (None, Unit.BYTE, "-"),
        (True, Unit.NONE, "yes"),
        (False, Unit.NONE, "no"),
        ((), Unit.NONE, "none"),
        ((31, 33), Unit.PERCENT, "31%, 33%"),
        (80 * 2**30, Unit.BYTE, "80.0 GiB"),
        (1536, Unit.BYTE_PER_SECOND, "1.5 KiB/s"),
        (412_345, Unit.MILLIWATT, "412.3 W"),
        (3_600_000_000, Unit.MILLIJOULE, "1.00 kWh"),
        (1755, Unit.MEGAHERTZ, "1755 MHz"),
        (62, Unit.CELSIUS, "62 °C"),
        (0.25, Unit.PER_SECOND, "0.25/s"),
        (187, Unit.SECOND, "3m07s"),
        (7, Unit.NONE, "7"),
        (0.5, Unit.NONE, "0.50"),
        ("Hopper", Unit.NONE, "Hopper"),
    ],
)
def test_readable_adds_the_unit(value: object, unit: Unit, shown: str) -> None:
    assert readable(value, unit) == shown


def test_short_forms_are_whole_numbers() -> None:
    assert (watts(412_300), percent(41.6), celsius(62)) == ("412W", "42%", "62C")


def test_amounts_of_many_gpus_are_short() -> None:
    assert [kilowatts(each) for each in (310_000, 5_649_000, 999_600_000)] == [
        "310W",
        "5.6kW",
        "1.0MW",
    ]
    assert (hours(4.51), hours(1204.2)) == ("4.5h", "1,204h")


@given(st.one_of(st.none(), st.integers(), st.floats(-1e12, 1e12)), st.sampled_from(Unit))
def test_every_unit_can_be_read(value: float | None, unit: Unit) -> None:
    assert readable(value, unit)


def _bytes(shown: str) -> float:
    number, unit = shown.split(" ")
    return float(number) * float(1024 ** " KMGTP".index(unit[0] if unit != "B" else " "))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, Unit.PERCENT, "-"),
        (62.5, Unit.PERCENT, "62.5%"),
        (80 << 30, Unit.BYTE, "80.0G"),
        (3e9, Unit.BYTE_PER_SECOND, "2.8G/s"),
        (250_000, Unit.MILLIWATT, "250W"),
        (61, Unit.CELSIUS, "61C"),
        (1755, Unit.MEGAHERTZ, "1755MHz"),
        (0.25, Unit.PER_SECOND, "0.25/s"),
        (5, Unit.NONE, "5"),
    ],
)
def test_short_form_of_any_unit(value: float | None, unit: Unit, text: str) -> None:
    assert short(value, unit) == text


@pytest.mark.parametrize(("seconds", "text"), [(15, "15s"), (60, "1m"), (90, "90s"), (1800, "30m")])
def test_span_is_in_one_unit(seconds: float, text: str) -> None:
    assert span(seconds) == text


@pytest.mark.parametrize(("number", "text"), [(0, "0 GPUs"), (1, "1 GPU"), (2000, "2,000 GPUs")])
def test_one_thing_is_not_named_in_the_plural(number: int, text: str) -> None:
    assert counted(number, "GPU") == text


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "process", "1 process"),
        (2, "process", "2 processes"),
        (1, "NVSwitch", "1 NVSwitch"),
        (4, "NVSwitch", "4 NVSwitches"),
    ],
)
def test_plural_is_one_that_can_be_spoken(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text
