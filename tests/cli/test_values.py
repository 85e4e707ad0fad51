from argparse import ArgumentTypeError

import pytest

from gpudash.cli.values import count


@pytest.mark.parametrize(
    ("text", "number"), [("1", 1), ("1024", 1024), ("00000004", 4), ("0" * 5000 + "7", 7)]
)
def test_a_count_is_the_number_that_is_written(text: str, number: int) -> None:
    assert count(1024)(text) == number


@pytest.mark.parametrize(
    "text", ["0", "0000000", "1025", "0001025", "-1", "", "4.0", "four", "４", "9" * 5000]
)
def test_a_count_beyond_its_limits_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="expected 1 to 1024"):
        count(1024)(text)


def test_a_count_is_compared_with_all_its_digits() -> None:
    assert count(999_999)("999999") == 999_999
    with pytest.raises(ArgumentTypeError, match="expected 1 to 999999"):
        count(999_999)("1234567")
