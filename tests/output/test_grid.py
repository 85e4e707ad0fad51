from __future__ import annotations

import pytest

from gpudash.output.table import bar, shown


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0, "    "),
        (0.0001, "▏   "),
        (0.5, "██  "),
        (0.97, "███▉"),
        (1, "████"),
        (7, "████"),
        (-1, "    "),
    ],
)
def test_bar_fills_by_eighths_of_a_cell(share: float, drawn: str) -> None:
    assert bar(share, 4, ascii=False) == drawn


@pytest.mark.parametrize(("share", "drawn"), [(0, "...."), (0.5, "##.."), (1, "####")])
def test_bar_has_an_ascii_form(share: float, drawn: str) -> None:
    assert bar(share, 4, ascii=True) == drawn


def test_shown_text_is_harmless() -> None:
    assert shown("\x1b]52;c;\x07名", ascii=False) == "\\x1b]52;c;\\x07名"
    assert shown("名", ascii=True) == "\\u540d"
