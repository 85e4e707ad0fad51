"""The keys of the views that cover the overview."""

from __future__ import annotations

from gpudash.tui.keymap.key import Key, key, under

VIEW_KEYS: tuple[Key, ...] = under(
    "In all views",
    key(
        "view.back",
        "escape,q,backspace",
        "q",
        "back",
        "back to where this was opened (also Esc)",
        label="back",
    ),
    key("view.down", "down,j", "j ↓", "scroll_lines(1)", "down"),
    key("view.up", "up,k", "k ↑", "scroll_lines(-1)", "up"),
    key("view.page_down", "pagedown,space", "PgDn", "scroll_pages(1)", "a page down"),
    key("view.page_up", "pageup", "PgUp", "scroll_pages(-1)", "a page up"),
    key("view.top", "home", "Home", "scroll_ends(0)", "to the top"),
    key("view.bottom", "end", "End", "scroll_ends(1)", "to the bottom"),
)
"""What all the other views share."""

FINDINGS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *under(
        "Findings",
        key("findings.open", "enter", "⏎", "open", "the process or GPU it is about", label="open"),
    ),
)
"""The keys of the view of the findings."""

LINKS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    key("links.next", "tab", "Tab", "matrix(1)", "links, P2P read, write, ...", label="matrix"),
    key("links.previous", "shift+tab", "S-Tab", "matrix(-1)", "the matrix before"),
    key("links.right", "right", "→", "scroll_columns(8)", "later columns, where not all fit"),
    key("links.left", "left", "←", "scroll_columns(-8)", "earlier columns"),
)
"""The keys of the view of the links."""

USERS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    key("users.choose", "enter", "⏎", "choose", "only this user's processes", label="filter"),
    key("users.next", "greater_than_sign,full_stop", ">", "sort(1)", "sort by the next column"),
    key("users.previous", "less_than_sign,comma", "<", "sort(-1)", "sort by the one before"),
    key("users.reverse", "r", "r", "reverse", "reverse the order", label="reverse"),
)
"""The keys of the view of the users."""

PROCESS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *under(
        "In the view of a process",
        key("process.tree", "t", "t", "to('tree')", "its parents and children", label="tree"),
        key("process.environment", "e", "e", "to('environment')", "its environment", label="env"),
        key("process.reveal", "x", "x", "reveal", "show secret values, or hide", label="secrets"),
    ),
)
"""The keys of the view of a process."""
