"""The nearest of 256 colours to each ground: taken by saturation, greys would turn to teal."""

from __future__ import annotations

from gpudash.tui.palettes import Palette, channels

_CUBE = (0, 95, 135, 175, 215, 255)


def in_256(colors: Palette) -> Palette:
    """Return a palette whose grounds are colours that a terminal of 256 has."""
    return colors._replace(
        background=_nearest(colors.background),
        surface=_nearest(colors.surface),
        selected=_nearest(colors.selected),
        track=_nearest(colors.track),
    )


def _nearest(color: str) -> str:
    if not color.startswith("#"):
        return color
    red, green, blue = channels(color)
    grey = max(0, min(23, round(((red + green + blue) / 3 - 8) / 10)))
    level = 8 + 10 * grey
    places = [min(range(6), key=lambda n: abs(_CUBE[n] - each)) for each in (red, green, blue)]
    cube = tuple(_CUBE[place] for place in places)
    if _distance((level,) * 3, (red, green, blue)) <= _distance(cube, (red, green, blue)):
        return f"color({232 + grey})"
    return f"color({16 + 36 * places[0] + 6 * places[1] + places[2]})"


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))
