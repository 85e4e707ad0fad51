"""Every key in one table: bindings, footer, help screen, settings and README read it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from textual.binding import Binding


class Key(NamedTuple):
    """An action with the keys that start it, the first of which is shown."""

    id: str
    """What settings call it, to give it other keys."""
    keys: str
    shown: str
    action: str
    label: str
    """One word for the footer, empty for a key that only the help screen names."""
    help: str
    group: str
    signals: bool = False
    """Whether it may end a process: a read-only screen does without."""


def _key(
    id: str,
    keys: str,
    shown: str,
    action: str,
    help: str,
    *,
    label: str = "",
    signals: bool = False,
) -> Key:
    """Declare a key; the help screen's group is the first half of the id."""
    group = id.partition(".")[0].capitalize().replace("Gpus", "GPUs")
    return Key(id, keys, shown, action, label, help, group, signals)


def _under(group: str, *keys: Key) -> tuple[Key, ...]:
    """Put keys under another heading of the help screen."""
    return tuple(key._replace(group=group) for key in keys)


DIGITS = ",".join("0123456789")

OVERVIEW_KEYS: tuple[Key, ...] = (
    _key("screen.quit", "q,ctrl+c,f10", "q", "leave", "quit (also Ctrl-C, F10)", label="quit"),
    _key("screen.help", "h,question_mark,f1", "h", "help", "this list (also ?, F1)", label="help"),
    _key("screen.palette", "colon,ctrl+p", ":", "palette", "any action by its name (also ^P)"),
    _key("screen.theme", "f2", "F2", "choose_theme", "choose the colours"),
    _key("screen.mistakes", "exclamation_mark", "!", "mistakes", "mistakes in the settings"),
    _key("screen.redraw", "ctrl+l,f5", "^L", "redraw", "draw everything again (also F5)"),
    _key("screen.suspend", "ctrl+z", "^Z", "suspend_process", "suspend; fg brings it back"),
    _key("time.pause", "p", "p", "pause", "freeze the screen; sampling goes on", label="pause"),
    _key("time.back", "left_square_bracket", "[", "step(-1)", "the sample before, as it was"),
    _key("time.forward", "right_square_bracket", "]", "step(1)", "the sample after, or live again"),
    _key("time.back_far", "left_curly_bracket", "{", "step(-15)", "15 samples back"),
    _key("time.forward_far", "right_curly_bracket", "}", "step(15)", "15 samples forward"),
    _key("time.longer", "plus,equals_sign", "+", "interval(1)", "longer between two samples"),
    _key("time.shorter", "minus", "-", "interval(-1)", "shorter between two samples"),
    _key("driver.release", "X", "X", "release", "let go of the GPUs, for a reset; take them back"),
    _key("driver.wake", "W", "W", "wake", "look at GPUs that are left alone on battery"),
    _key(
        "view.device", "d", "d", "view_device", "everything about a GPU, with charts", label="GPU"
    ),
    _key("view.findings", "w", "w", "view_findings", "what is wrong, why, what to do", label="why"),
    _key("view.links", "m", "m", "view_links", "the links of the GPUs", label="links"),
    _key("view.users", "u", "u", "view_users", "who holds how much", label="users"),
    _key(
        "view.process",
        "enter",
        "⏎",
        "open",
        "the process or GPU under the cursor",
        label="open",
    ),
    _key("view.tree", "t", "t", "view_process('tree')", "its parents and children"),
    _key("view.environment", "e", "e", "view_process('environment')", "its environment"),
    _key("move.down", "down,j", "j ↓", "move(1)", "next process or GPU"),
    _key("move.up", "up,k", "k ↑", "move(-1)", "the one before"),
    _key("move.page_down", "pagedown", "PgDn", "page(1)", "as many down as are in view"),
    _key("move.page_up", "pageup", "PgUp", "page(-1)", "as many up"),
    _key("move.first", "home", "Home", "move_to(0)", "the first"),
    _key("move.last", "end", "End", "move_to(-1)", "the last"),
    _key(
        "move.turn", "tab,shift+tab", "Tab", "turn", "to the GPUs, or the processes", label="GPUs"
    ),
    _key("move.enlarge", "z", "z", "enlarge", "these alone, or all parts again"),
    _key(
        "move.devices_down",
        "right_parenthesis",
        ")",
        "scroll_devices(1)",
        "next GPUs, where not all fit",
    ),
    _key("move.devices_up", "left_parenthesis", "(", "scroll_devices(-1)", "previous GPUs"),
    _key("move.command_right", "right", "→", "scroll_command(1)", "more of the command lines"),
    _key("move.command_left", "left", "←", "scroll_command(-1)", "back towards their beginning"),
    _key(
        "move.command_start",
        "circumflex_accent,ctrl+a",
        "^",
        "scroll_command_to(0)",
        "their beginning (also ^A)",
    ),
    _key(
        "move.command_end",
        "dollar_sign,ctrl+e",
        "$",
        "scroll_command_to(-1)",
        "their end (also ^E)",
    ),
    _key("filter.open", "slash,f", "/", "filter", "filter the processes (also f)", label="filter"),
    _key("filter.clear", "escape", "Esc", "clear", "live again; then no tags, no filter, all GPUs"),
    _key("gpus.toggle", DIGITS, "0-9", "toggle_device({key})", "hide that GPU, or show it again"),
    _key("gpus.choose", "g", "g", "choose_devices", "choose which GPUs are shown"),
    _key("panels.host", "o", "o", "toggle_panel('host')", "the line of the host, or not"),
    _key("panels.history", "c", "c", "toggle_panel('history')", "the charts, or not"),
    _key("panels.sparklines", "v", "v", "toggle_panel('sparklines')", "the small curves, or not"),
    _key("panels.columns", "C", "C", "choose_columns", "choose the columns of the processes"),
    _key("sort.choose", "s,f6", "s", "choose_sort", "choose the column (also F6)", label="sort"),
    _key(
        "sort.next",
        "greater_than_sign,full_stop",
        ">",
        "sort(1)",
        "sort by the next column (also .)",
    ),
    _key(
        "sort.previous",
        "less_than_sign,comma",
        "<",
        "sort(-1)",
        "sort by the column before (also ,)",
    ),
    _key("sort.reverse", "r", "r", "reverse", "reverse the order"),
    _key("process.tag", "space", "Space", "tag", "tag it for what comes next, and go on"),
    _key("process.copy_pid", "y", "y", "copy_pid", "copy the PID"),
    _key("process.copy_command", "Y", "Y", "copy_command", "copy the command line"),
    _key(
        "process.kill",
        "K,f9",
        "K",
        "kill('KILL')",
        "kill it, or all that are tagged (also F9)",
        label="kill",
        signals=True,
    ),
    _key(
        "process.terminate", "T", "T", "kill('TERM')", "the same, with SIGTERM first", signals=True
    ),
    _key("process.interrupt", "I", "I", "kill('INT')", "the same, with SIGINT first", signals=True),
)
"""The keys of the overview, in the order of the help screen; the footer shows the labelled."""

FOOTER = (
    "screen.quit",
    "screen.help",
    "filter.open",
    "sort.choose",
    "process.kill",
    "view.process",
    "move.turn",
    "view.device",
    "view.findings",
    "view.links",
    "view.users",
    "time.pause",
)
"""What the overview's footer shows first; what has no room is left out from the end."""

VIEW_KEYS: tuple[Key, ...] = _under(
    "In all views",
    _key(
        "view.back",
        "escape,q,backspace",
        "q",
        "back",
        "back to the overview (also Esc)",
        label="back",
    ),
    _key("view.down", "down,j", "j ↓", "scroll_lines(1)", "down"),
    _key("view.up", "up,k", "k ↑", "scroll_lines(-1)", "up"),
    _key("view.page_down", "pagedown,space", "PgDn", "scroll_pages(1)", "a page down"),
    _key("view.page_up", "pageup", "PgUp", "scroll_pages(-1)", "a page up"),
    _key("view.top", "home", "Home", "scroll_ends(0)", "to the top"),
    _key("view.bottom", "end", "End", "scroll_ends(1)", "to the bottom"),
)
"""What all the other views share."""

FINDINGS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *_under(
        "Findings",
        _key("findings.open", "enter", "⏎", "open", "the process or GPU it is about", label="open"),
    ),
)
"""The keys of the view of the findings."""

LINKS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    _key("links.next", "tab", "Tab", "matrix(1)", "links, P2P read, write, ...", label="matrix"),
    _key("links.previous", "shift+tab", "S-Tab", "matrix(-1)", "the matrix before"),
    _key("links.right", "right", "→", "scroll_columns(8)", "later columns, where not all fit"),
    _key("links.left", "left", "←", "scroll_columns(-8)", "earlier columns"),
)
"""The keys of the view of the links."""

USERS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    _key("users.choose", "enter", "⏎", "choose", "only this user's processes", label="filter"),
    _key("users.next", "greater_than_sign,full_stop", ">", "sort(1)", "sort by the next column"),
    _key("users.previous", "less_than_sign,comma", "<", "sort(-1)", "sort by the one before"),
    _key("users.reverse", "r", "r", "reverse", "reverse the order", label="reverse"),
)
"""The keys of the view of the users."""

PROCESS_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *_under(
        "In the view of a process",
        _key("process.tree", "t", "t", "to('tree')", "its parents and children", label="tree"),
        _key("process.environment", "e", "e", "to('environment')", "its environment", label="env"),
        _key("process.reveal", "x", "x", "reveal", "show secret values, or hide", label="secrets"),
    ),
)
"""The keys of the view of a process."""

DEVICE_KEYS: tuple[Key, ...] = (
    *VIEW_KEYS,
    *_under(
        "In the view of a GPU",
        _key("device.next", "right,n", "→", "turn(1)", "the next GPU (also n)", label="next"),
        _key("device.previous", "left,b", "←", "turn(-1)", "the GPU before (also b)"),
        _key("device.metric", "tab", "Tab", "metric(1)", "chart the next metric", label="metric"),
        _key("device.metric_before", "shift+tab", "S-Tab", "metric(-1)", "chart the metric before"),
        _key("device.list", "l", "l", "list_metrics", "choose the metric by name", label="list"),
        _key("device.range", "r", "r", "range", "the last 1, 5 or 30 minutes", label="range"),
        _key("device.zoom_in", "plus,equals_sign", "+", "zoom(-1)", "a shorter time", label="zoom"),
        _key("device.zoom_out", "minus", "-", "zoom(1)", "a longer time"),
        _key("device.all", "a", "a", "overlay_all", "the curves of all GPUs, or one", label="all"),
        _key("device.shared", "o", "o", "overlay_shared", "all GPUs that its processes use"),
        _key("device.toggle", DIGITS, "0-9", "overlay({key})", "the curve of that GPU as well"),
        _key("device.fit", "v", "v", "fit", "the values that occur, or the whole scale"),
        _key("device.large", "z", "z", "large", "the chart alone", label="large"),
        _key("device.explain", "x", "x", "explain", "what each metric means", label="explain"),
    ),
)
"""The keys of the view of a device."""

KILL_KEYS: tuple[Key, ...] = tuple(
    key._replace(signals=True)
    for key in (
        _key("kill.answer", "y", "y", "answer", "send the signal"),
        _key("kill.cancel", "escape,n,q,ctrl+c", "n", "cancel", "send nothing (also Esc, q)"),
        _key("kill.press", "enter", "⏎", "press", "press the button in focus, at first Cancel"),
        _key("kill.turn", "tab,shift+tab", "Tab", "turn", "the other button"),
        _key("kill.next", "right,l", "→", "next_signal(1)", "the next signal"),
        _key("kill.previous", "left,h", "←", "next_signal(-1)", "the signal before"),
        _key("kill.signal", "s", "s", "choose_signal", "any signal, by name or number"),
        _key("kill.tree", "t", "t", "tree", "with its children, or without"),
        _key("kill.down", "down,j", "j ↓", "scroll_lines(1)", "more of a long command"),
        _key("kill.up", "up,k", "k ↑", "scroll_lines(-1)", "less of it"),
        _key("kill.page_down", "pagedown,space", "PgDn", "scroll_pages(1)", "a page of it down"),
        _key("kill.page_up", "pageup", "PgUp", "scroll_pages(-1)", "a page of it up"),
    )
)
"""The keys of the question before a signal."""

SCREENS: tuple[tuple[Key, ...], ...] = (
    OVERVIEW_KEYS,
    VIEW_KEYS,
    DEVICE_KEYS,
    FINDINGS_KEYS,
    LINKS_KEYS,
    USERS_KEYS,
    PROCESS_KEYS,
    KILL_KEYS,
)
"""The keys of each screen."""

KEYS: tuple[Key, ...] = tuple(dict.fromkeys(key for keys in SCREENS for key in keys))
"""Every key there is."""


def labelled(keys: Iterable[Key]) -> list[Key]:
    """Return the keys of a footer, the most important first."""
    shown = [key for key in keys if key.label]
    rank = {name: place for place, name in enumerate(FOOTER)}
    return sorted(shown, key=lambda key: rank.get(key.id, len(rank)))


def bindings(keys: Iterable[Key]) -> list[Binding]:
    """Return Textual's bindings for keys; `{key}` in an action is the key that was pressed."""
    from textual.binding import Binding

    found: list[Binding] = []
    for key in keys:
        if "{key}" in key.action:
            each = [(name, key.action.format(key=name)) for name in key.keys.split(",")]
            found += [Binding(name, action, key.help, show=False) for name, action in each]
        else:
            found.append(Binding(key.keys, key.action, key.help, show=False, id=key.id))
    return found
