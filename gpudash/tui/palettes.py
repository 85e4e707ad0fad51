"""The colours that a theme is mixed from: gpudash's own palettes, and Textual's by name."""

from __future__ import annotations

from typing import NamedTuple

_CURVES_ON_DARK = (
    *("#7fb2ff", "#e8d27a", "#d6a5ff", "#6fdcc4"),
    *("#ff9fc4", "#a8d672", "#f29a63", "#b9c4d6"),
)
_CURVES_ON_LIGHT = (
    *("#1d56b3", "#7d6200", "#7b3fb8", "#0f6f62"),
    *("#b0316e", "#4b7a12", "#a04a14", "#4d5664"),
)


class Palette(NamedTuple):
    """A few colours, as `#rrggbb` or as names of the terminal's own sixteen."""

    background: str
    surface: str
    """Behind header, footer and dialogs."""
    selected: str
    """Behind the selected row."""
    text: str
    dim: str
    """Units, limits, what is not in question."""
    faint: str
    """Absent values."""
    bright: str
    accent: str
    """Keys, titles, the column that orders the rows."""
    owner: str
    ok: str
    warn: str
    critical: str
    track: str
    utilization: tuple[str, ...]
    """Steps of a bar from empty to full."""
    memory: tuple[str, ...]
    is_dark: bool = True

    @property
    def curves(self) -> tuple[str, ...]:
        """What tells the curves of one chart apart, none of them the colour of a state."""
        if self.background == "default":
            return ("blue", "magenta", "cyan", "bright_blue", "bright_magenta", "bright_cyan")
        return _CURVES_ON_DARK if self.is_dark else _CURVES_ON_LIGHT


DARK = Palette(
    background="#10141b",
    surface="#1a212c",
    selected="#243449",
    text="#c8d0dc",
    dim="#76839a",
    faint="#4a566a",
    bright="#f2f5fa",
    accent="#7fb2ff",
    owner="#5fd7c0",
    ok="#8fd08a",
    warn="#f0b95e",
    critical="#ff7a80",
    track="#2a3342",
    utilization=("#2f7f86", "#379490", "#40a99a", "#4cbea5", "#58d0af", "#68e0b8"),
    memory=("#4a62b8", "#5a70c8", "#6b7fd6", "#7d8fe3", "#90a0ee", "#a4b2f8"),
)
"""Calm blue-grey, colour only where something is said."""

LIGHT = Palette(
    background="#fbfbf9",
    surface="#ebecee",
    selected="#d5e2f5",
    text="#2c323c",
    dim="#6b7380",
    faint="#a3a9b3",
    bright="#0b0e13",
    accent="#1d56b3",
    owner="#0f6f62",
    ok="#2f7d32",
    warn="#9a5b00",
    critical="#b3202c",
    track="#d9dce1",
    utilization=("#77c3b5", "#57b3a2", "#3aa08e", "#248c7a", "#157766", "#0b6253"),
    memory=("#9aaaf0", "#8093e6", "#677cd9", "#5066c8", "#3c52b4", "#2c409c"),
    is_dark=False,
)
"""The same on paper."""

CONTRAST = Palette(
    background="#000000",
    surface="#262626",
    selected="#00437f",
    text="#ffffff",
    dim="#c8c8c8",
    faint="#a0a0a0",
    bright="#ffffff",
    accent="#6fd0ff",
    owner="#7dffe0",
    ok="#7dff7d",
    warn="#ffd500",
    critical="#ff9a9a",
    track="#5a5a5a",
    utilization=("#00e0b0",),
    memory=("#8fb0ff",),
)
"""Every text at 7 to 1 or more on what lies behind it."""

COLOR_BLIND = Palette(
    background="#10141b",
    surface="#1a212c",
    selected="#27364a",
    text="#d2d8e2",
    dim="#8792a6",
    faint="#566175",
    bright="#ffffff",
    accent="#56b4e9",
    owner="#9ad0f5",
    ok="#56b4e9",
    warn="#f0e442",
    critical="#ff8c3a",
    track="#2f3948",
    utilization=("#1f6c9c", "#2a80b2", "#3794c7", "#47a5da", "#56b4e9"),
    memory=("#8a7cc0", "#9a8dd0", "#aa9fdf", "#bcb2ec"),
)
"""Blue, yellow and orange, which no common colour blindness confuses; never red against green."""

TERMINAL = Palette(
    background="default",
    surface="default",
    selected="cyan",
    text="default",
    dim="bright_black",
    faint="bright_black",
    bright="default",
    accent="cyan",
    owner="cyan",
    ok="green",
    warn="yellow",
    critical="red",
    track="bright_black",
    utilization=("green",),
    memory=("blue",),
)
"""The terminal's own sixteen colours on its own background."""

OWN = {
    "dark": DARK,
    "light": LIGHT,
    "contrast": CONTRAST,
    "color-blind": COLOR_BLIND,
    "terminal": TERMINAL,
}
"""gpudash's palettes by name, the default first."""

BORROWED = (
    "textual-dark",
    "textual-light",
    "nord",
    "gruvbox",
    "catppuccin-mocha",
    "catppuccin-frappe",
    "catppuccin-macchiato",
    "catppuccin-latte",
    "dracula",
    "tokyo-night",
    "monokai",
    "flexoki",
    "solarized-dark",
    "solarized-light",
    "rose-pine",
    "rose-pine-moon",
    "rose-pine-dawn",
    "atom-one-dark",
    "atom-one-light",
    "ansi-dark",
    "ansi-light",
)
"""Names of Textual's themes, which are mixed into palettes when one is asked for."""


def palette(name: str) -> Palette:
    """Return a palette of `OWN` or `BORROWED`; KeyError for another name."""
    return OWN[name] if name in OWN else _borrowed(name)


def mixed(first: str, second: str, share: float) -> str:
    """Return `first` with a share (0 to 1) of `second`, both `#rrggbb`."""
    pairs = zip(channels(first), channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def channels(color: str) -> tuple[int, int, int]:
    """Return red, green and blue of `#rrggbb`, each 0 to 255."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


def _borrowed(name: str) -> Palette:
    from textual.theme import BUILTIN_THEMES

    theme = BUILTIN_THEMES[name]
    if theme.ansi:
        return TERMINAL._replace(is_dark=theme.dark)
    colors = theme.to_color_system().generate()
    background = colors["background"][:7]
    text = colors["foreground"][:7]
    accent, cool = colors["primary"][:7], colors["secondary"][:7]
    ok, warn, critical = (
        _readable(colors[role][:7], background, text) for role in ("success", "warning", "error")
    )
    return Palette(
        background=background,
        surface=colors["surface"][:7],
        selected=mixed(background, accent, 0.3),
        text=text,
        dim=mixed(text, background, 0.4),
        faint=mixed(text, background, 0.65),
        bright=text,
        accent=_readable(accent, background, text),
        owner=_readable(colors["accent"][:7], background, text),
        ok=ok,
        warn=warn,
        critical=critical,
        track=mixed(background, text, 0.15),
        utilization=tuple(mixed(background, ok, share) for share in (0.55, 0.7, 0.85, 1)),
        memory=tuple(mixed(background, cool, share) for share in (0.55, 0.7, 0.85, 1)),
        is_dark=theme.dark,
    )


def contrast(one: str, other: str) -> float:
    """Return how far apart two colours are for the eye, from 1 to 21 as WCAG counts."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _readable(color: str, background: str, text: str) -> str:
    """Return a colour moved towards that of the text until it can be read."""
    for share in (0.0, 0.15, 0.3, 0.45, 0.6):
        candidate = mixed(color, text, share)
        if contrast(candidate, background) >= 4.5:
            return candidate
    return text


def _luminance(color: str) -> float:
    def linear(channel: int) -> float:
        value = channel / 255
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, channels(color))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
