"""The colours of the screen: every one of them is here, by the role that it plays."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.color import ColorSystem
from rich.style import Style

from gpudash.health import Level

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

    def level(self, level: Level) -> Style:
        """Return how a value of this level looks; an unknown one recedes."""
        if level == "ok":
            return self.base
        if level == "unknown":
            return self.dim
        return self.critical if level == "critical" else self.warn


_BACKGROUND = "#10141b"
_SURFACE = "#1a212c"
_SELECTED = "#243449"
_TEXT, _DIM, _FAINT, _HEADING = "#c8d0dc", "#76839a", "#4a566a", "#66748c"
_BRIGHT = "#f2f5fa"
_BLUE, _TEAL, _GREEN = "#7fb2ff", "#5fd7c0", "#8fd08a"
_AMBER, _RED = "#f0b95e", "#ff7a80"
_TRACK = "#2a3342"
_UTILIZATION = ("#2f7f86", "#379490", "#40a99a", "#4cbea5", "#58d0af", "#68e0b8")
_MEMORY = ("#4a62b8", "#5a70c8", "#6b7fd6", "#7d8fe3", "#90a0ee", "#a4b2f8")


def _on(color: str, background: str = _BACKGROUND, *, bold: bool = False) -> Style:
    return Style(color=color, bgcolor=background, bold=bold or None)


DARK = Theme(
    base=_on(_TEXT),
    dim=_on(_DIM),
    faint=_on(_FAINT),
    heading=_on(_HEADING),
    strong=_on(_BRIGHT, bold=True),
    title=_on(_BLUE, bold=True),
    owner=_on(_TEAL),
    ok=_on(_GREEN),
    warn=_on(_AMBER),
    critical=_on(_RED, bold=True),
    mark=_on(_BACKGROUND, _AMBER, bold=True),
    notice=_on(_AMBER, _SURFACE),
    header=_on(_TEXT, _SURFACE),
    header_dim=_on(_DIM, _SURFACE),
    header_strong=_on(_BLUE, _SURFACE, bold=True),
    sorted=_on(_BLUE, bold=True),
    key=_on(_BLUE, _SURFACE, bold=True),
    label=_on(_DIM, _SURFACE),
    selected=Style(bgcolor=_SELECTED),
    panel=_on(_TEXT, _SURFACE),
    panel_dim=_on(_DIM, _SURFACE),
    button=_on(_TEXT, _TRACK),
    button_focused=_on(_BACKGROUND, _BLUE, bold=True),
    danger_focused=_on(_BACKGROUND, _RED, bold=True),
    track=_on(_TRACK),
    utilization=tuple(_on(color) for color in _UTILIZATION),
    memory=tuple(_on(color) for color in _MEMORY),
)
"""The default look: calm blue-grey, colour only where something is said."""

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


def look(*, no_color: bool, color_system: ColorSystem) -> Theme:
    """Return the theme for a terminal of so many colours."""
    if no_color:
        return PLAIN
    if color_system is ColorSystem.STANDARD:
        # Steps of one colour come out as several of sixteen.
        return DARK._replace(utilization=DARK.utilization[:1], memory=DARK.memory[:1])
    return DARK


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
    )


def textual_theme() -> TextualTheme:
    """Return the same colours for what Textual draws by itself."""
    from textual.theme import Theme as TextualTheme

    return TextualTheme(
        "gpudash",
        primary=_BLUE,
        accent=_TEAL,
        foreground=_TEXT,
        background=_BACKGROUND,
        surface=_SURFACE,
        panel=_SURFACE,
        success=_GREEN,
        warning=_AMBER,
        error=_RED,
        dark=True,
    )
