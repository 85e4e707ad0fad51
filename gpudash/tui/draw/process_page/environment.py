"""The environment that a process was started with, by name, secrets hidden until asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment

from gpudash.analysis.inspection import Variable
from gpudash.model.text import cut, fold, pad, width
from gpudash.tui.draw.grid import MARGIN
from gpudash.tui.draw.line import Line
from gpudash.tui.draw.process_page.head import Sight
from gpudash.tui.theme import Theme

_LEAST_NAME, _MOST_NAME = 12, 28
_TELLING = ("CUDA_", "NVIDIA_", "NCCL_")
"""Names that begin so have to do with GPUs and stand out."""


def environment(
    variables: Sequence[Variable], sight: Sight, theme: Theme, cells: int
) -> list[Line]:
    """Return a title and all variables, their values whole."""
    secret = sum(variable.is_secret for variable in variables)
    note = f"  {len(variables)} variables"
    if secret:
        effect = "hides" if sight.shows_secrets else "shows"
        note += f", {secret} secret: {sight.reveal_key} {effect} them"
    title = [Segment(" " * MARGIN + "ENVIRONMENT", theme.heading), Segment(note, theme.dim)]
    return [title, *_listed(tuple(variables), theme, cells, sight.shows_secrets)]


@lru_cache(maxsize=2)
def _listed(
    variables: tuple[Variable, ...], theme: Theme, cells: int, shows_secrets: bool
) -> list[Line]:
    """Return the lines of the variables, which are the same for as long as it runs."""
    ordered = sorted(variables, key=lambda variable: variable.name)
    widest = max((width(variable.name) for variable in ordered), default=0)
    name_cells = max(_LEAST_NAME, min(widest, _MOST_NAME, cells // 3))
    return [
        line
        for variable in ordered
        for line in _variable(variable, theme, (name_cells, cells), shows_secrets)
    ]


def _variable(
    variable: Variable, theme: Theme, cells: tuple[int, int], shows_secrets: bool
) -> list[Line]:
    name_cells, room = cells
    hidden = variable.is_secret and not shows_secrets
    role = theme.title if variable.name.startswith(_TELLING) else theme.dim
    value = theme.glyphs.secret if hidden else variable.value
    style = theme.warn if variable.is_secret else theme.base
    texts = fold(value, max(1, room - 2 * MARGIN - name_cells - 1))
    name = pad(variable.name, name_cells, mark=theme.glyphs.ellipsis)
    return [
        [
            Segment(" " * MARGIN, theme.base),
            Segment(cut("" if number else name, name_cells, mark="").ljust(name_cells + 1), role),
            Segment(text, style),
        ]
        for number, text in enumerate(texts)
    ]
