import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.collect.nvml import values


@pytest.mark.parametrize("garbage", [-1, 101, 37100, 2147483632, 0xFFFFFFFF])
def test_an_impossible_percentage_is_none(garbage: int) -> None:
    assert values.percent(garbage) is None


@given(st.integers(0, 100))
def test_a_percentage_stays_what_it_is(value: int) -> None:
    assert values.percent(value) == value


def test_unknown_performance_state_is_none() -> None:
    assert values.performance_state(32) is None
    assert values.performance_state(0) == 0


def test_a_total_of_no_memory_is_none() -> None:
    assert values.positive(0) is None


@pytest.mark.parametrize("garbage", [2**64 - 2**20, 2**63, -1, 2**51])
def test_a_size_below_zero_that_wrapped_is_none(garbage: int) -> None:
    assert values.size(garbage) is None
    assert values.positive(garbage) is None
    assert values.size(288 * 2**30) == 288 * 2**30


def test_flags_other_than_on_and_off_are_none() -> None:
    assert [values.flag(value) for value in (0, 1, 2)] == [False, True, None]


def test_event_reasons_are_named_and_unknown_bits_kept() -> None:
    assert values.event_reasons(0) == ()
    assert values.event_reasons(0x4 | 0x40) == ("sw-power-cap", "hw-thermal-slowdown")
    assert values.event_reasons(0x1 | 0x8000) == ("gpu-idle", "0x8000")
    assert values.event_reasons(0xFFFFFFFFFFFFFFFF) is None


def test_a_short_list_leaves_the_missing_item_none() -> None:
    assert values.item(1, values.flag)([1]) is None


@pytest.mark.parametrize(
    ("raw", "clean"), [(b"H100\x1b[2J", "H100\\x1b[2J"), ("  A100 ", "A100"), ("", None)]
)
def test_strings_are_made_harmless(raw: object, clean: str | None) -> None:
    assert values.string(raw) == clean


@pytest.mark.parametrize("raw", [b"\xff" * 5000, "A" * 5000, "\x1b" * 5000])
def test_a_string_without_end_is_short(raw: object) -> None:
    text = values.string(raw)
    assert len(text.encode()) <= 256
