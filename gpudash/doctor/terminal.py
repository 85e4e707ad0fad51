"""What the terminal can show, as far as it tells by its environment: it is never asked."""

from __future__ import annotations

from collections.abc import Mapping

from gpudash.doctor.check import Check, failed, passed, warned
from gpudash.model.text import clean

_LEAST_COLUMNS, _LEAST_LINES = 80, 24


def checks(
    environ: Mapping[str, str], size: tuple[int, int] | None, *, colors: str, utf8: bool
) -> list[Check]:
    """Return how a terminal of `size` columns and lines stands, None if it is none."""
    if size is None:
        return [passed("terminal", "none here; the screen needs one, gpudash --once does not")]
    return [_screen(environ, *size), _colors(environ, colors), _characters(environ, utf8)]


def _screen(environ: Mapping[str, str], columns: int, lines: int) -> Check:
    topic = "terminal"
    name = clean(environ.get("TERM", ""))
    if name in ("", "dumb"):
        advice = "export TERM=xterm-256color, or use gpudash --once"
        return failed(topic, f"TERM={name!r} cannot show a screen", advice)
    finding = f"{name}, {columns}x{lines}{_around(environ)}"
    if columns < _LEAST_COLUMNS or lines < _LEAST_LINES:
        advice = f"make it {_LEAST_COLUMNS}x{_LEAST_LINES} to see everything"
        return warned(topic, finding, advice)
    return passed(topic, finding)


def _around(environ: Mapping[str, str]) -> str:
    around = {"TMUX": "tmux", "STY": "screen", "SSH_CONNECTION": "ssh"}
    inside = [word for name, word in around.items() if environ.get(name)]
    return f", in {' over '.join(inside)}" if inside else ""


def _colors(environ: Mapping[str, str], colors: str) -> Check:
    if "NO_COLOR" in environ:
        return passed("colours", "none: NO_COLOR is set")
    if colors == "16":
        advice = "export TERM=xterm-256color, or COLORTERM=truecolor, if the terminal can"
        return warned("colours", "16: themes are reduced to them", advice)
    return passed("colours", colors)


def _characters(environ: Mapping[str, str], utf8: bool) -> Check:
    if environ.get("TERM") == "linux":
        return passed("characters", "ASCII: the console's font has no blocks and braille")
    if not utf8:
        advice = "export LC_ALL=C.UTF-8"
        return warned("characters", "ASCII: the locale is not UTF-8", advice)
    return passed("characters", "UTF-8")
