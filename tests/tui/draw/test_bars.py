from hypothesis import given
from hypothesis import strategies as st
from rich.style import Style

from gpudash.tui.draw.bars import bar
from gpudash.tui.draw.line import cells_of

STEPS = tuple(Style(color=color) for color in ("red", "green", "blue"))
TRACK = Style(dim=True)
shares = st.floats(min_value=-1, max_value=2, allow_nan=False)
widths = st.integers(1, 60)


def text(share: float | None, width: int) -> str:
    return "".join(segment.text for segment in bar(share, width, STEPS, TRACK))


@given(st.none() | shares, widths)
def test_bar_is_as_wide_as_asked(share: float | None, width: int) -> None:
    assert cells_of(bar(share, width, STEPS, TRACK)) == width


@given(shares, shares, widths)
def test_more_is_never_shorter(one: float, other: float, width: int) -> None:
    def lit(share: float) -> float:
        drawn = text(share, width)
        return drawn.count("━") + drawn.count("╸") / 2

    low, high = sorted((one, other))
    assert lit(low) <= lit(high)


@given(st.floats(min_value=0.0001, max_value=0.9999), widths)
def test_only_zero_looks_empty_and_only_one_looks_full(share: float, width: int) -> None:
    assert text(share, width) not in ("─" * width, "━" * width)


def test_unknown_share_is_blank_and_not_zero() -> None:
    assert text(None, 4) == "    "
    assert text(0, 4) == "────"
    assert text(1, 4) == "━━━━"
    assert text(0.5, 5) == "━━╸──"
