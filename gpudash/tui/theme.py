"""The colours of the screen, all of them defined here, by role."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.color import Color, ColorSystem, ColorType
from rich.style import Style

from gpudash.analysis.table import BarGlyphs
from gpudash.model.state import Level
from gpudash.model.text import cut
from gpudash.model.units import ABSENT

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme


class Glyphs(Struct, frozen=True):
    """The characters of bars, curves and marks."""

    bar: BarGlyphs
    eighths: str
    """Nine columns of rising height, the first of which is blank."""
    braille: bool
    """Whether curves are drawn in braille, two points wide and four dots high."""
    arrow_up: str
    arrow_down: str
    ellipsis: str
    tick: str
    tag: str
    """Marks tagged rows."""
    rule: str
    branch: str
    last_branch: str
    trunk: str
    """Between two branches of a tree; as wide as they are."""
    pointer: str
    """Precedes the subject of a list."""
    secret: str
    """Replaces a hidden value."""


UNICODE = Glyphs(
    bar=BarGlyphs("━", ("╸",), "─"),
    eighths=" ▁▂▃▄▅▆▇█",
    braille=True,
    arrow_up="▲",
    arrow_down="▼",
    ellipsis="…",
    tick="✓",
    tag="●",
    rule="─",
    branch="├─ ",
    last_branch="└─ ",
    trunk="│  ",
    pointer="▶",
    secret="••••••",
)
"""For modern terminals and fonts."""

ASCII = Glyphs(
    bar=BarGlyphs("=", ("-",), "."),
    eighths=" .,:-=+*#",
    braille=False,
    arrow_up="^",
    arrow_down="v",
    ellipsis="~",
    tick="+",
    tag="*",
    rule="-",
    branch="|- ",
    last_branch="`- ",
    trunk="|  ",
    pointer=">",
    secret="******",
)
"""For the Linux console, serial lines and locales without UTF-8."""


_CUBE = (0, 95, 135, 175, 215, 255)


def in_256(colors: Palette) -> Palette:
    """Return a palette whose backgrounds and greys are among a terminal's 256 colours.

    Rich would turn a dark grey into teal: it picks a grey only if the saturation is low.
    """
    return replace(
        colors,
        background=_nearest(colors.background),
        surface=_nearest(colors.surface),
        selected=_nearest(colors.selected),
        text=_nearest(colors.text),
        dim=_nearest(colors.dim),
        faint=_nearest(colors.faint),
        bright=_nearest(colors.bright),
        track=_nearest(colors.track),
    )


def _nearest(color: str) -> str:
    if not color.startswith("#"):
        return color
    red, green, blue = bytes.fromhex(color[1:])
    grey = max(0, min(23, round(((red + green + blue) / 3 - 8) / 10)))
    level = 8 + 10 * grey
    steps = [min(range(6), key=lambda n: abs(_CUBE[n] - each)) for each in (red, green, blue)]
    cube = tuple(_CUBE[step] for step in steps)
    if _distance((level,) * 3, (red, green, blue)) <= _distance(cube, (red, green, blue)):
        return f"color({232 + grey})"
    return f"color({16 + 36 * steps[0] + 6 * steps[1] + steps[2]})"


def _distance(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


_CURVES_ON_DARK = (
    *("#7fb2ff", "#e8d27a", "#d6a5ff", "#6fdcc4"),
    *("#ff9fc4", "#a8d672", "#f29a63", "#b9c4d6"),
)
_CURVES_ON_LIGHT = (
    *("#1d56b3", "#7d6200", "#7b3fb8", "#0f6f62"),
    *("#b0316e", "#4b7a12", "#a04a14", "#4d5664"),
)


class Palette(Struct, frozen=True):
    """A few colours, as `#rrggbb` or as names of the terminal's own sixteen."""

    background: str
    surface: str
    """Background of header, footer and dialogs."""
    selected: str
    """Background of the selected row."""
    text: str
    dim: str
    """Units, limits, secondary text."""
    faint: str
    """Absent values."""
    bright: str
    accent: str
    """Keys, titles, the sort column."""
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
        """Colours that distinguish the curves of one chart, none of which means a state."""
        if self.background == "default":
            return ("blue", "magenta", "cyan", "bright_blue", "bright_magenta", "bright_cyan")
        return _CURVES_ON_DARK if self.is_dark else _CURVES_ON_LIGHT


PALETTES = {
    # Calm blue-grey, with colour only for information.
    "dark": Palette(
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
    ),
    # The same on paper.
    "light": Palette(
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
    ),
    # All text has a contrast of at least 7 to 1 to its background.
    "contrast": Palette(
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
    ),
    # Blue, yellow and orange, distinct in all common colour blindness; never red against green.
    "color-blind": Palette(
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
    ),
    # The terminal's own sixteen colours on its own background.
    "terminal": Palette(
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
        memory=("bright_blue",),
    ),
}
"""The palettes by theme name, the default first."""


class Theme(Struct, frozen=True):
    """Styles by role, the steps of the bars from empty to full, and the glyphs."""

    base: Style
    dim: Style
    faint: Style
    heading: Style
    strong: Style
    title: Style
    owner: Style
    ok: Style
    warn: Style
    critical: Style
    mark: Style
    """Text that must be noticed: STALE, PAUSED, a refusal."""
    notice: Style
    header: Style
    header_dim: Style
    header_strong: Style
    sorted: Style
    key: Style
    label: Style
    selected: Style
    """Overlays the row of the selected process."""
    panel: Style
    panel_dim: Style
    button: Style
    button_focused: Style
    track: Style
    utilization: tuple[Style, ...]
    memory: tuple[Style, ...]
    glyphs: Glyphs = UNICODE
    curves: tuple[Style, ...] = (Style(),)
    """For adjacent curves in one chart, in turn."""
    absent: str = ABSENT
    """Stands for a missing value."""

    @property
    def is_ansi(self) -> bool:
        """Whether it uses the terminal's own colours, which Textual must pass on unchanged."""
        background = self.base.bgcolor
        return background is None or background.is_default

    @property
    def is_ascii(self) -> bool:
        """Whether it draws only ASCII."""
        return self.glyphs is ASCII

    def cut(self, text: str, cells: int) -> str:
        """Return a text in at most this many cells, with a mark if it is shortened."""
        return cut(text, max(0, cells), mark=self.glyphs.ellipsis)

    def level(self, level: Level) -> Style:
        """Return the style of a value of this level; an unknown one is dimmed."""
        if level == "ok":
            return self.base
        if level == "unknown":
            return self.dim
        return self.critical if level == "critical" else self.warn


def _theme_of(colors: Palette) -> Theme:
    """Return the styles of all roles from the colours of a palette."""

    def on(color: str, background: str = colors.background, *, bold: bool = False) -> Style:
        return Style(color=color, bgcolor=background, bold=bold or None)

    surface, inverse = colors.surface, colors.background
    selected = Style(bgcolor=colors.selected)
    if inverse == "default":
        inverse = "black"
        # No background among the sixteen keeps all other colours readable.
        selected = Style(color=inverse, bgcolor=colors.selected, bold=False)
    return Theme(
        base=on(colors.text),
        dim=on(colors.dim),
        faint=on(colors.faint),
        heading=on(colors.dim),
        strong=on(colors.bright, bold=True),
        title=on(colors.accent, bold=True),
        owner=on(colors.owner),
        ok=on(colors.ok),
        warn=on(colors.warn),
        critical=on(colors.critical, bold=True),
        mark=on(inverse, colors.warn, bold=True),
        notice=on(colors.warn, surface),
        header=on(colors.text, surface),
        header_dim=on(colors.dim, surface),
        header_strong=on(colors.accent, surface, bold=True),
        sorted=on(colors.accent, bold=True),
        key=on(colors.accent, surface, bold=True),
        label=on(colors.dim, surface),
        selected=selected,
        panel=on(colors.text, surface),
        panel_dim=on(colors.dim, surface),
        button=on(colors.text, colors.track),
        button_focused=on(inverse, colors.accent, bold=True),
        track=on(colors.track),
        utilization=tuple(on(color) for color in colors.utilization),
        memory=tuple(on(color) for color in colors.memory),
        curves=tuple(on(color) for color in colors.curves),
    )


_PLAIN, _PLAIN_BOLD = Style(), Style(bold=True)
_PLAIN_DIM, _PLAIN_REVERSE = Style(dim=True), Style(reverse=True)

PLAIN = Theme(
    base=_PLAIN,
    dim=_PLAIN_DIM,
    faint=_PLAIN_DIM,
    heading=_PLAIN_DIM,
    strong=_PLAIN_BOLD,
    title=_PLAIN_BOLD,
    owner=_PLAIN,
    ok=_PLAIN,
    warn=_PLAIN_BOLD,
    critical=Style(bold=True, underline=True),
    mark=Style(bold=True, reverse=True),
    notice=_PLAIN_BOLD,
    header=_PLAIN,
    header_dim=_PLAIN_DIM,
    header_strong=_PLAIN_BOLD,
    sorted=Style(bold=True, underline=True),
    key=_PLAIN_BOLD,
    label=_PLAIN_DIM,
    selected=_PLAIN_REVERSE,
    panel=_PLAIN,
    panel_dim=_PLAIN_DIM,
    button=_PLAIN,
    button_focused=_PLAIN_REVERSE,
    track=_PLAIN_DIM,
    utilization=(_PLAIN,),
    memory=(_PLAIN,),
)
"""No colours, for NO_COLOR: only weight and reverse video."""


# Never freed, like `faded`: drawn text is cached by the identity of its theme.
@cache
def load_theme(
    name: str = "dark", *, no_color: bool, color_system: ColorSystem, ascii: bool = False
) -> Theme:
    """Return a theme adapted to a terminal's colour system."""
    if no_color:
        theme = PLAIN
    else:
        # Several shades of a palette could have the same nearest colour of sixteen.
        has_16 = color_system is ColorSystem.STANDARD
        colors = PALETTES["terminal" if has_16 else name]
        theme = _theme_of(in_256(colors) if color_system is ColorSystem.EIGHT_BIT else colors)
    return replace(theme, glyphs=ASCII if ascii else UNICODE)


@cache
def faded(theme: Theme) -> Theme:
    """Return the theme of values that are out of date: everything is dimmed."""
    dim, faint = theme.dim, theme.faint
    return replace(
        theme,
        base=dim,
        strong=dim,
        owner=dim,
        ok=dim,
        warn=dim,
        critical=dim,
        utilization=(faint,),
        memory=(faint,),
        curves=(dim,),
    )


def css_color(color: Color | None) -> str:
    """Return a colour as Textual's style sheets have it."""
    if color is None or color.is_default:
        return "ansi_default"
    if color.type is ColorType.STANDARD:
        return f"ansi_{color.name}"
    return color.get_truecolor().hex


def textual_theme(name: str, theme: Theme) -> TextualTheme:
    """Return the colours of a theme, with its name in the settings, for Textual's own widgets."""
    from textual.theme import Theme as TextualTheme

    text, bright = css_color(theme.panel.color), css_color(theme.strong.color)
    ground, surface = css_color(theme.base.bgcolor), css_color(theme.panel.bgcolor)
    accent = css_color(theme.key.color)
    # With sixteen colours or fewer, only reverse video keeps all text under a cursor readable.
    cursor_style = "reverse" if theme.is_ansi else "none"
    return TextualTheme(
        f"gpudash-{name}",
        primary=accent,
        secondary=accent,
        accent=accent,
        foreground=text,
        background=ground,
        surface=surface,
        panel=surface,
        boost=surface,
        success=css_color(theme.ok.color),
        warning=css_color(theme.warn.color),
        error=css_color(theme.critical.color),
        dark=PALETTES[name].is_dark,
        variables={
            "dim": css_color(theme.panel_dim.color),
            "dim-style": "dim" if theme.panel_dim.dim else "none",
            "cursor": text if theme.is_ansi else css_color(theme.selected.bgcolor),
            "cursor-text": surface if theme.is_ansi else bright,
            "cursor-style": cursor_style,
            "input-cursor-background": surface if theme.is_ansi else accent,
            "input-cursor-foreground": text if theme.is_ansi else surface,
            "input-cursor-text-style": cursor_style,
            "danger": surface if theme.is_ansi else css_color(theme.critical.color),
            "button": surface if theme.is_ansi else css_color(theme.button.bgcolor),
        },
    )
