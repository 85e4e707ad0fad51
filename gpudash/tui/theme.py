"""The colours of the screen: every one of them is here, by the role that it plays."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from rich.color import ColorSystem
from rich.style import Style

from gpudash.analysis.health.levels import Level
from gpudash.tui.glyphs import ASCII, UNICODE, Glyphs
from gpudash.tui.nearest import in_256
from gpudash.tui.palettes import BORROWED, DARK, OWN, TERMINAL, Palette, palette

if TYPE_CHECKING:
    from textual.theme import Theme as TextualTheme


class Theme(NamedTuple):
    """One look: styles by role, and the steps of the bars from empty to full."""

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
    """Text that must be seen: STALE, PAUSED, a refusal."""
    notice: Style
    header: Style
    header_dim: Style
    header_strong: Style
    sorted: Style
    key: Style
    label: Style
    selected: Style
    """What lies over the row of the selected process."""
    panel: Style
    panel_dim: Style
    button: Style
    button_focused: Style
    danger_focused: Style
    track: Style
    utilization: tuple[Style, ...]
    memory: tuple[Style, ...]
    glyphs: Glyphs = UNICODE
    curves: tuple[Style, ...] = (Style(),)
    """Of neighbouring curves in one chart, in turn."""

    def level(self, level: Level) -> Style:
        """Return how a value of this level looks; an unknown one recedes."""
        if level == "ok":
            return self.base
        if level == "unknown":
            return self.dim
        return self.critical if level == "critical" else self.warn


def _mixed(colors: Palette) -> Theme:
    """Return the styles of every role from the colours of a palette."""

    def on(color: str, background: str = colors.background, *, bold: bool = False) -> Style:
        return Style(color=color, bgcolor=background, bold=bold or None)

    surface, inverse = colors.surface, colors.background
    selected = Style(bgcolor=colors.selected)
    if inverse == "default":
        inverse = "black"
        # None of sixteen lets all the other colours be read on it.
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
        danger_focused=on(inverse, colors.critical, bold=True),
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
    danger_focused=_PLAIN_REVERSE,
    track=_PLAIN_DIM,
    utilization=(_PLAIN,),
    memory=(_PLAIN,),
)
"""No colour at all, for NO_COLOR: weight and reverse video alone."""


THEMES = (*OWN, *BORROWED)
"""What can be chosen by name, the default first."""


# Kept for ever, as `faded` is: what was drawn is known by the identity of its theme.
@cache
def look(
    name: str = "dark", *, no_color: bool, color_system: ColorSystem, ascii: bool = False
) -> Theme:
    """Return a theme as a terminal of so many colours can show it."""
    if no_color:
        theme = PLAIN
    else:
        # The nearest of sixteen to each of a palette's shades would make one of several.
        few = color_system is ColorSystem.STANDARD
        colors = TERMINAL if few else palette(name)
        theme = _mixed(in_256(colors) if color_system is ColorSystem.EIGHT_BIT else colors)
    return theme._replace(glyphs=ASCII if ascii else UNICODE)


@cache
def faded(theme: Theme) -> Theme:
    """Return the look of values that are no longer true: everything recedes."""
    dim, faint = theme.dim, theme.faint
    return theme._replace(
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


def textual_theme(name: str = "dark") -> TextualTheme:
    """Return the same colours for what Textual draws by itself."""
    from textual.theme import Theme as TextualTheme

    colors = palette(name)
    if colors.background == "default":
        colors = DARK
    return TextualTheme(
        f"gpudash-{name}",
        primary=colors.accent,
        accent=colors.owner,
        foreground=colors.text,
        background=colors.background,
        surface=colors.surface,
        panel=colors.surface,
        success=colors.ok,
        warning=colors.warn,
        error=colors.critical,
        dark=colors.is_dark,
    )
