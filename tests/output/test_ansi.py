from __future__ import annotations

from gpudash.output.table import painter


def test_colour_leaves_the_padding_bare() -> None:
    assert painter(True)("  97 ", "green") == "  \x1b[32m97\x1b[0m "


def test_nothing_to_see_is_not_coloured() -> None:
    assert painter(True)("   ", "red") == "   "
    assert painter(True)("97", "plain") == "97"


def test_without_colour_text_stays_as_it_is() -> None:
    assert painter(False)("97", "red") == "97"
