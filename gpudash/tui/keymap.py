"""Every key in one table: bindings, footer, help screen and README read it."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """An action with the keys that start it, the first of which is shown."""

    keys: str
    shown: str
    action: str
    label: str
    """One word for the footer, empty for a key that only the help screen names."""
    help: str
    group: str


KEYS: tuple[Key, ...] = (
    Key("q,ctrl+c,f10", "q", "leave", "quit", "quit (also Ctrl-C, F10)", "Screen"),
    Key("h,question_mark,f1", "h", "help", "help", "this list (also ?, F1)", "Screen"),
    Key("p", "p", "pause", "pause", "freeze the screen; sampling goes on", "Screen"),
    Key("ctrl+l,f5", "^L", "redraw", "", "draw everything again (also F5)", "Screen"),
    Key("ctrl+z", "^Z", "suspend_process", "", "suspend; fg brings it back", "Screen"),
    Key("down,j", "j ↓", "move(1)", "", "next process", "Move"),
    Key("up,k", "k ↑", "move(-1)", "", "previous process", "Move"),
    Key("pagedown", "PgDn", "page(1)", "", "a screen of processes down", "Move"),
    Key("pageup", "PgUp", "page(-1)", "", "a screen of processes up", "Move"),
    Key("home", "Home", "move_to(0)", "", "first process", "Move"),
    Key("end", "End", "move_to(-1)", "", "last process", "Move"),
    Key(
        "right_square_bracket", "]", "scroll_devices(1)", "", "next GPUs, where not all fit", "Move"
    ),
    Key("left_square_bracket", "[", "scroll_devices(-1)", "", "previous GPUs", "Move"),
    Key(
        "greater_than_sign,full_stop",
        ">",
        "sort(1)",
        "sort",
        "sort by the next column (also .)",
        "Sort",
    ),
    Key(
        "less_than_sign,comma",
        "<",
        "sort(-1)",
        "",
        "sort by the column before (also ,)",
        "Sort",
    ),
    Key("r", "r", "reverse", "reverse", "reverse the order", "Sort"),
    Key("K,f9", "K", "kill", "kill", "kill the selected process (also F9)", "Act"),
)
"""All keys of the main screen, in the order of the help screen; the footer shows the labelled."""
