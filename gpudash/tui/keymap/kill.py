"""The keys of the question before a signal."""

from __future__ import annotations

from gpudash.tui.keymap.key import Key, key

KILL_KEYS: tuple[Key, ...] = tuple(
    each._replace(signals=True)
    for each in (
        key("kill.answer", "y", "y", "answer", "send the signal"),
        key("kill.cancel", "escape,n,q,ctrl+c", "n", "cancel", "send nothing (also Esc, q)"),
        key("kill.press", "enter", "⏎", "press", "press the button in focus, at first Cancel"),
        key("kill.turn", "tab,shift+tab", "Tab", "turn", "the other button"),
        key("kill.next", "right,l", "→", "next_signal(1)", "the next signal"),
        key("kill.previous", "left,h", "←", "next_signal(-1)", "the signal before"),
        key("kill.signal", "s", "s", "choose_signal", "any signal, by name or number"),
        key("kill.tree", "t", "t", "tree", "with its children, or without"),
        key("kill.down", "down,j", "j ↓", "scroll_lines(1)", "more of a long command"),
        key("kill.up", "up,k", "k ↑", "scroll_lines(-1)", "less of it"),
        key("kill.page_down", "pagedown,space", "PgDn", "scroll_pages(1)", "a page of it down"),
        key("kill.page_up", "pageup", "PgUp", "scroll_pages(-1)", "a page of it up"),
    )
)
"""The keys of the question before a signal."""
