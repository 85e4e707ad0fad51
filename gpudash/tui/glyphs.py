"""Every character of the screen that is not ASCII, each with one that is."""

from __future__ import annotations

from typing import NamedTuple


class Glyphs(NamedTuple):
    """What bars, curves and marks are drawn with."""

    bar_whole: str
    bar_half: str
    bar_track: str
    eighths: str
    """Nine columns of rising height, the first of which is blank."""
    shades: str
    """Nine steps from nothing to full, for heat maps."""
    braille: bool
    """Whether curves are drawn in braille, two points wide and four dots high."""
    arrow_up: str
    arrow_down: str
    ellipsis: str
    tick: str
    cross: str
    tag: str
    """Beside the rows that are tagged."""
    enter: str
    degree: str
    rule: str
    branch: str
    last_branch: str
    trunk: str
    """Beside the lines between two branches of a tree; as wide as they are."""
    pointer: str
    """Before the one that a list is about."""
    secret: str
    """What stands for a value that is not shown."""


UNICODE = Glyphs(
    bar_whole="━",
    bar_half="╸",
    bar_track="─",
    eighths=" ▁▂▃▄▅▆▇█",
    shades=" ░░▒▒▓▓██",
    braille=True,
    arrow_up="▲",
    arrow_down="▼",
    ellipsis="…",
    tick="✓",
    cross="✗",
    tag="●",
    enter="⏎",
    degree="°",
    rule="─",
    branch="├─ ",
    last_branch="└─ ",
    trunk="│  ",
    pointer="▶",
    secret="••••••",
)
"""For terminals and fonts of this century."""

ASCII = Glyphs(
    bar_whole="=",
    bar_half="-",
    bar_track=".",
    eighths=" .,:-=+*#",
    shades=" .,:-=+*#",
    braille=False,
    arrow_up="^",
    arrow_down="v",
    ellipsis="~",
    tick="+",
    cross="x",
    tag="*",
    enter="Ret",
    degree="",
    rule="-",
    branch="|- ",
    last_branch="`- ",
    trunk="|  ",
    pointer=">",
    secret="******",
)
"""For the Linux console, serial lines and locales without UTF-8."""
