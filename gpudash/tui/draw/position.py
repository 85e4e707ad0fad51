"""What part of all processes is on screen: the filter, how many it lets through, which are seen."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.model.text import cut, width
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.listing import Listing
from gpudash.tui.theme import Theme

_LEAST_FILTER = 10
"""Cells of the filter below which less important parts are left out."""


def position(listing: Listing, window: range, theme: Theme, cells: int) -> Line:
    """Return `/alice  3 of 20  2 tagged  1-10 of 40`, of this what says something and fits."""
    parts: Line = []
    if listing.matching < len(listing.everything):
        parts.append(Segment(f" {share(listing)} ", theme.sorted))
    if tagged := len(listing.tagged_rows):
        parts.append(Segment(f" {tagged} tagged ", theme.mark))
    if len(window) < len(listing.rows):
        text = f" {window.start + 1}-{window.stop} of {len(listing.rows)} "
        parts.append(Segment(text, theme.heading))
    typed = listing.filter.text.strip()
    needed = min(width(typed), _LEAST_FILTER) + 3 if typed else 0
    while parts and cells_of(parts) + needed > cells:
        parts.pop()
    if typed:
        text = cut(typed, max(1, cells - cells_of(parts) - 3), mark=theme.glyphs.ellipsis)
        parts.insert(0, Segment(f" /{text} ", theme.mark))
    return parts


def share(listing: Listing) -> str:
    """Return `3 of 20`: how many processes fit, of all."""
    return f"{listing.matching} of {len(listing.everything)}"
