"""The first pixels of the screen: what stands there until the first snapshot is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from gpudash.system.terminal import color_bits

# The style of a word, and of the header's name, in the default theme by the bits of the colours
# that the terminal has: importing the themes would cost the first pixels.
_LOOKS = {
    24: ("0;38;2;118;131;154;48;2;16;20;27", "0;1;38;2;127;178;255;48;2;26;33;44"),
    8: ("0;38;5;102;48;5;233", "0;1;38;5;111;48;5;235"),
    4: ("0;90", "0;1;36"),
}
_WITHOUT_COLORS = "0;2", "0;1"


def skeleton(cells: int, environ: Mapping[str, str], *, ascii: bool) -> str:
    """Return the ground, the header line of so many cells and a word of patience."""
    word, bar = _WITHOUT_COLORS if "NO_COLOR" in environ else _LOOKS[color_bits(environ)]
    name = " gpudash"[:cells].ljust(cells)
    patience = f" reading GPUs{'...' if ascii else '…'}"[:cells]
    return f"\x1b[{word}m\x1b[2J\x1b[H\x1b[{bar}m{name}\x1b[{word}m\x1b[3;1H{patience}\x1b[0m"
