"""The page about one process: all that is known of it, in one column or two."""

from __future__ import annotations

from itertools import zip_longest
from typing import NamedTuple

from rich.segment import Segment

from gpudash.model.text import fold
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line, fitted, joined
from gpudash.tui.draw.process_page.cuda import cuda
from gpudash.tui.draw.process_page.environment import environment
from gpudash.tui.draw.process_page.family import family
from gpudash.tui.draw.process_page.graphs import graphs
from gpudash.tui.draw.process_page.head import Sight, command_is_cut, head, span_of
from gpudash.tui.draw.process_page.shares import shares
from gpudash.tui.theme import Theme, faded

__all__ = ["Page", "Sight", "page", "span_of"]

_WIDE = 150
"""Cells from which family and environment stand beside the rest."""

_GAP = 3
_LEAST_GRAPH, _MOST_GRAPH = 3, 14
_TITLE_AND_AXIS = 2
"""Lines of a graph beside its height."""


class Page(NamedTuple):
    """All lines of the page, and where two of its parts begin."""

    lines: list[Line]
    tree: int
    environment: int


def page(sight: Sight, theme: Theme, cells: int, height: int) -> Page:
    """Return the page in lines of `cells`; the graphs are as high as `height` permits."""
    look = faded(theme) if sight.mark else theme
    if cells < _WIDE:
        main = _main(sight, look, cells, height, stacked=False)
        tree, rest = _kin(sight, look, theme, cells)
        return Page([*main, *tree, *rest], len(main), len(main) + len(tree))
    left = (cells - _GAP) // 2
    main = _main(sight, look, left, height, stacked=True)
    tree, rest = _kin(sight, look, theme, cells - left - _GAP)
    return Page(_columns(main, [*tree, *rest], left, theme), 0, len(tree))


def _columns(left: list[Line], right: list[Line], cells: int, theme: Theme) -> list[Line]:
    """Return lines side by side, the left ones in `cells` and a gap."""
    gap = Segment(" " * _GAP, theme.base)
    return [
        joined([*fitted(one or [], cells, theme.base), gap, *(other or [])])
        for one, other in zip_longest(left, right)
    ]


def _main(sight: Sight, theme: Theme, cells: int, height: int, *, stacked: bool) -> list[Line]:
    """Return what changes, the head, the devices and the graphs; and what CUDA sees."""
    above = _spaced(head(sight, theme, cells), shares(sight, theme, cells))
    below = _spaced(cuda(sight, theme, cells), _command(sight, theme, cells))
    spare = height - len(above) - len(below)
    # Graphs side by side leave room for the beginning of what follows.
    room = (spare - 1) // 3 - _TITLE_AND_AXIS if stacked else spare // 3
    graph_height = max(_LEAST_GRAPH, min(room, _MOST_GRAPH))
    return [*above, *_spaced(graphs(sight, theme, cells, graph_height, stacked=stacked)), *below]


def _spaced(*parts: list[Line]) -> list[Line]:
    """Return the lines of all parts, a blank one after each that has any."""
    return [line for part in parts if part for line in [*part, []]]


def _kin(sight: Sight, theme: Theme, plain: Theme, cells: int) -> tuple[list[Line], list[Line]]:
    """Return the tree and the environment, or why they are not to be seen."""
    seen = sight.inspection
    tree = family(sight, theme, cells)
    tree = [*tree, []] if tree else []
    if seen is None:
        return tree, [_said("FAMILY AND ENVIRONMENT", sight.waiting + plain.glyphs.ellipsis, plain)]
    if seen.environment is None:
        title = "ENVIRONMENT" if tree else "FAMILY AND ENVIRONMENT"
        return tree, _reason(title, seen.reason or "", plain, cells)
    return tree, environment(seen.environment, sight, theme, cells)


def _command(sight: Sight, theme: Theme, cells: int) -> list[Line]:
    """Return the whole command line where the head shows only its beginning."""
    if not command_is_cut(sight, cells):
        return []
    texts = fold(sight.command(sight.row.process), cells - 2 * MARGIN)
    title = [Segment(" " * MARGIN + "COMMAND LINE", theme.heading)]
    return [title, *([Segment(" " * MARGIN + text, theme.base)] for text in texts)]


def _said(title: str, text: str, theme: Theme) -> Line:
    return [
        Segment(" " * MARGIN + title, theme.heading),
        Segment(f"  {text}", theme.dim),
    ]


def _reason(title: str, reason: str, theme: Theme, cells: int) -> list[Line]:
    texts = fold(reason, max(1, cells - 2 * MARGIN))
    heading = [Segment(" " * MARGIN + title, theme.heading)]
    return [heading, *([Segment(" " * MARGIN + text, theme.dim)] for text in texts)]
