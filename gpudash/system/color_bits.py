"""How many colours a terminal has, by what its environment says."""

from __future__ import annotations

from collections.abc import Mapping


def color_bits(environ: Mapping[str, str]) -> int:
    """Return the bits of a colour, 24, 8 or 4, as Textual will find too."""
    if environ.get("COLORTERM", "").strip().lower() in {"truecolor", "24bit"}:
        return 24
    colors = environ.get("TERM", "").strip().lower().rpartition("-")[2]
    return 8 if colors in {"256color", "kitty"} else 4
