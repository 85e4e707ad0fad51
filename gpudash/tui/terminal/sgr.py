"""Looks as a terminal takes them: escape codes, and the shortest way from one look to another."""

from __future__ import annotations

from rich.color import ColorSystem
from rich.style import Style

_ATTRIBUTES = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("reverse", "7"),
    ("strike", "9"),
)
_ENDS = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
_SEEN_ON_BLANKS = frozenset("479")


class SgrStyle:
    """The escape codes of one look; two looks that send the same codes are one object."""

    __slots__ = ("_ways", "attributes", "background", "bare", "foreground", "ground")

    def __init__(self, codes: Codes, ground: SgrStyle | None = None) -> None:
        self.attributes, self.foreground, self.background = codes
        self.ground = ground or self
        """The pen in which a blank of this look is drawn."""
        self.bare = ground_of(codes) == ("", "", self.background)
        """Whether its blanks show nothing but the background, not a line below them."""
        self._ways: dict[SgrStyle | None, str] = {}

    def after(self, before: SgrStyle | None) -> str:
        """Return the sequence that makes the terminal's look this one; None is any look."""
        way = self._ways.get(before)
        if way is None:
            way = self._ways[before] = self._way(before)
        return way

    def _way(self, before: SgrStyle | None) -> str:
        if before is self:
            return ""
        anew = _sequence(["0", self.attributes, self.foreground, self.background])
        if before is None:
            return anew
        old, new = set(_split(before.attributes)), set(_split(self.attributes))
        ends = {_ENDS[code] for code in old - new}
        # What ends bold ends dim as well.
        begins = {code for code in new if code not in old or _ENDS[code] in ends}
        parts = [*sorted(ends), *sorted(begins)]
        if before.foreground != self.foreground:
            parts.append(self.foreground or "39")
        if before.background != self.background:
            parts.append(self.background or "49")
        return min(_sequence(parts), anew, key=len)


Codes = tuple[str, str, str]
"""What SGR takes for attributes, foreground and background; empty for the terminal's own."""


def codes_of(style: Style | None, system: ColorSystem) -> Codes:
    """Return the codes of a style on a terminal with so many colours."""
    style = style or Style.null()
    attributes = ";".join(code for name, code in _ATTRIBUTES if getattr(style, name))
    return (
        attributes,
        _color(style, system, foreground=True),
        _color(style, system, foreground=False),
    )


def ground_of(codes: Codes) -> Codes:
    """Return what of a look can be seen on a blank: the background, or all with a line below."""
    attributes, _foreground, background = codes
    return codes if _SEEN_ON_BLANKS & set(_split(attributes)) else ("", "", background)


def _color(style: Style, system: ColorSystem, *, foreground: bool) -> str:
    color = style.color if foreground else style.bgcolor
    if color is None or color.is_default:
        return ""
    return ";".join(color.downgrade(system).get_ansi_codes(foreground))


def _sequence(parts: list[str]) -> str:
    return f"\x1b[{';'.join(part for part in parts if part)}m"


def _split(attributes: str) -> list[str]:
    return attributes.split(";") if attributes else []
