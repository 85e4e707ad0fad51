from itertools import combinations

import pytest
from msgspec.structs import astuple, replace
from rich.color import ColorSystem

from gpudash.tui.theme import PALETTES, in_256, load_theme, textual_theme

READ = ("text", "accent", "owner", "ok", "warn", "critical")
COLORED = [name for name, colors in PALETTES.items() if colors.background != "default"]


def contrast(one: str, other: str) -> float:
    """How far apart two colours are for the eye, from 1 to 21 as WCAG counts."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(color: str) -> float:
    def linear(channel: int) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = (linear(int(color[at : at + 2], 16)) for at in (1, 3, 5))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", COLORED)
def test_text_keeps_its_hue_and_contrast_in_256_colours(name: str) -> None:
    theme = load_theme(name, no_color=False, color_system=ColorSystem.EIGHT_BIT)
    for style in (theme.base, theme.dim, theme.strong, theme.panel):
        assert style.color is not None
        assert (
            style.color.get_truecolor()
            == style.color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor()
        )
        red, green, blue = style.color.get_truecolor()
        assert max(red, green, blue) - min(red, green, blue) <= 40
    assert theme.base.color is not None
    assert theme.base.bgcolor is not None
    shown = [each.get_truecolor().hex for each in (theme.base.color, theme.base.bgcolor)]
    assert contrast(*shown) >= 7


@pytest.mark.parametrize("name", COLORED)
@pytest.mark.parametrize("role", READ)
def test_what_must_be_read_stands_out_from_the_background(name: str, role: str) -> None:
    colors = PALETTES[name]
    assert contrast(getattr(colors, role), colors.background) >= 4.45


@pytest.mark.parametrize("role", [*READ, "dim", "faint"])
def test_the_contrast_theme_is_readable_throughout(role: str) -> None:
    colors = PALETTES["contrast"]
    for behind in (colors.background, colors.surface):
        assert contrast(getattr(colors, role), behind) >= (7 if role in READ else 5.5)


def test_levels_differ_in_brightness_where_colours_may_look_alike() -> None:
    colors = PALETTES["color-blind"]
    for one, other in combinations((colors.ok, colors.warn, colors.critical), 2):
        assert one != other
    assert contrast(colors.warn, colors.critical) >= 1.5
    assert contrast(colors.warn, colors.ok) >= 1.5


@pytest.mark.parametrize("name", PALETTES)
def test_every_theme_becomes_styles_and_a_theme_of_textual(name: str) -> None:
    theme = load_theme(name, no_color=False, color_system=ColorSystem.TRUECOLOR)
    assert theme.utilization
    assert textual_theme(name, theme).dark is PALETTES[name].is_dark


def test_sixteen_colours_are_the_terminals_own() -> None:
    few = load_theme("light", no_color=False, color_system=ColorSystem.STANDARD)
    assert few == load_theme("terminal", no_color=False, color_system=ColorSystem.TRUECOLOR)


def test_ascii_changes_the_glyphs_alone() -> None:
    theme = load_theme("dark", no_color=False, color_system=ColorSystem.TRUECOLOR, ascii=True)
    assert "".join(map(str, astuple(theme.glyphs))).isascii()


@pytest.mark.parametrize("name", [name for name in PALETTES if name != "terminal"])
def test_grounds_stay_apart_in_256_colours(name: str) -> None:
    theme = load_theme(name, no_color=False, color_system=ColorSystem.EIGHT_BIT)
    grounds = [style.bgcolor for style in (theme.base, theme.header, theme.selected)]
    numbers = [ground.number for ground in grounds if ground is not None]
    assert len(set(numbers)) == 3


@pytest.mark.parametrize(
    ("color", "expected"),
    [("#121212", "color(233)"), ("#5f0000", "color(52)"), ("#243449", "color(237)")],
)
def test_ground_is_the_nearest_of_256(color: str, expected: str) -> None:
    assert in_256(replace(PALETTES["dark"], background=color)).background == expected
