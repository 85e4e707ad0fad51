"""What part of all processes is on screen: the filter, how many it lets through, which are seen."""

from __future__ import annotations

from rich.segment import Segment

from gpudash.cells import cut
from gpudash.tui.listing import Listing
from gpudash.tui.renderables.line import Line
from gpudash.tui.theme import Theme

_MOST_FILTER = 3
"""The filter takes at most one of so many parts of the line."""


def position(listing: Listing, window: range, theme: Theme, cells: int) -> Line:
    """Return `/alice  3 of 20  2 tagged  1-10 of 40`, of this only what says something."""
    line: Line = []
    if listing.filter.text.strip():
        text = cut(listing.filter.text.strip(), max(1, cells // _MOST_FILTER))
        line.append(Segment(f" /{text} ", theme.mark))
    if listing.matching < len(listing.everything):
        line.append(Segment(f" {share(listing)} ", theme.sorted))
    if tagged := len(listing.tagged_rows):
        line.append(Segment(f" {tagged} tagged ", theme.mark))
    if len(window) < len(listing.rows):
        text = f" {window.start + 1}-{window.stop} of {len(listing.rows)} "
        line.append(Segment(text, theme.heading))
    return line


def share(listing: Listing) -> str:
    """Return `3 of 20`: how many processes fit, of all."""
    return f"{listing.matching} of {len(listing.everything)}"
