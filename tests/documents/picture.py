"""A terminal's screen as an SVG that needs no font of its own."""

from xml.sax.saxutils import escape

import pyte
from pyte.screens import Char

from gpudash.tui.screenshot import FONT, words

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE = 8.4, 18, 14
_MARGIN, _TITLE = 10, 26
_FOREGROUND, _BACKGROUND, _FRAME = "#c9d1d9", "#0d1117", "#21262d"
_NAMED = {
    "black": "#484f58",
    "red": "#ff7b72",
    "green": "#3fb950",
    "brown": "#d29922",
    "blue": "#58a6ff",
    "magenta": "#bc8cff",
    "cyan": "#39c5cf",
    "white": "#b1bac4",
}


def svg(screen: pyte.Screen, title: str) -> str:
    width = screen.columns * CELL_WIDTH + 2 * _MARGIN
    height = screen.lines * CELL_HEIGHT + 2 * _MARGIN + _TITLE
    rows = "\n".join(_row(screen, y) for y in range(screen.lines))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}">\n'
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}" stroke="{_FRAME}"/>\n'
        f'<text x="{width / 2:g}" y="18" text-anchor="middle" font-family="sans-serif" '
        f'font-size="12" fill="#8b949e">{escape(title)}</text>\n'
        f'<g transform="translate({_MARGIN},{_MARGIN + _TITLE - 6})" font-family="{FONT}" '
        f'font-size="{FONT_SIZE}">\n{rows}\n</g>\n</svg>\n'
    )


def _row(screen: pyte.Screen, y: int) -> str:
    cells = [screen.buffer[y][x] for x in range(screen.columns)]
    runs: list[tuple[int, list[Char]]] = []
    for x, cell in enumerate(cells):
        if runs and _style(runs[-1][1][0]) == _style(cell):
            runs[-1][1].append(cell)
        else:
            runs.append((x, [cell]))
    return "".join(_run(x, y, run) for x, run in runs)


def _run(x: int, y: int, cells: list[Char]) -> str:
    foreground, background, bold = _style(cells[0])
    left, width = x * CELL_WIDTH, len(cells) * CELL_WIDTH
    out = ""
    if background != _BACKGROUND:
        out += (
            f'<rect x="{left:g}" y="{y * CELL_HEIGHT}" width="{width + 0.3:g}" '
            f'height="{CELL_HEIGHT + 0.3:g}" fill="{background}"/>'
        )
    text = "".join(cell.data for cell in cells)
    weight = ' font-weight="bold"' if bold else ""
    attributes = f'fill="{foreground}"{weight}'
    return out + words(text, left, y * CELL_HEIGHT + FONT_SIZE, CELL_WIDTH, attributes)


def _style(cell: Char) -> tuple[str, str, bool]:
    foreground = _color(cell.fg, _FOREGROUND)
    background = _color(cell.bg, _BACKGROUND)
    if cell.reverse:
        foreground, background = background, foreground
    return foreground, background, cell.bold


def _color(name: str, default: str) -> str:
    if name == "default":
        return default
    return _NAMED.get(name.removeprefix("bright"), f"#{name}")
