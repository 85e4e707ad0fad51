"""The keys of the overview, and which of them its footer shows."""

from __future__ import annotations

from collections.abc import Iterable

from gpudash.tui.keymap.key import DIGITS, Key, key

OVERVIEW_KEYS: tuple[Key, ...] = (
    key("screen.quit", "q,ctrl+c,f10", "q", "leave", "quit (also Ctrl-C, F10)", label="quit"),
    key("screen.help", "h,question_mark,f1", "h", "help", "this list (also ?, F1)", label="help"),
    key("screen.palette", "colon,ctrl+p", ":", "palette", "any action by its name (also ^P)"),
    key("screen.theme", "f2", "F2", "choose_theme", "choose the colours"),
    key("screen.mistakes", "exclamation_mark", "!", "mistakes", "mistakes in the settings"),
    key("screen.redraw", "ctrl+l,f5", "^L", "redraw", "draw everything again (also F5)"),
    key("screen.suspend", "ctrl+z", "^Z", "suspend_process", "suspend; fg brings it back"),
    key("time.pause", "p", "p", "pause", "freeze the screen; sampling goes on", label="pause"),
    key("time.back", "left_square_bracket", "[", "step(-1)", "the sample before, as it was"),
    key("time.forward", "right_square_bracket", "]", "step(1)", "the sample after, or live again"),
    key("time.back_far", "left_curly_bracket", "{", "step(-15)", "15 samples back"),
    key("time.forward_far", "right_curly_bracket", "}", "step(15)", "15 samples forward"),
    key("time.longer", "plus,equals_sign", "+", "interval(1)", "a longer interval between samples"),
    key("time.shorter", "minus", "-", "interval(-1)", "a shorter interval between samples"),
    key("time.seek", "at", "@", "seek", "another time of a recording", label="time"),
    key("driver.release", "X", "X", "release", "let go of the GPUs, for a reset; take them back"),
    key("driver.wake", "W", "W", "wake", "look at GPUs that are left alone on battery"),
    key("view.device", "d", "d", "view_device", "everything about a GPU, with charts", label="GPU"),
    key("view.findings", "w", "w", "view_findings", "what is wrong, why, what to do", label="why"),
    key("view.links", "m", "m", "view_links", "the links of the GPUs, and P2P", label="links"),
    key("view.users", "u", "u", "view_users", "who holds how much", label="users"),
    key(
        "view.process",
        "enter",
        "⏎",
        "open",
        "the process or GPU under the cursor",
        label="open",
    ),
    key("view.tree", "t", "t", "view_process('tree')", "the parents and children of a process"),
    key(
        "view.environment", "e", "e", "view_process('environment')", "the environment of a process"
    ),
    key("move.down", "down,j", "j ↓", "move(1)", "next process or GPU"),
    key("move.up", "up,k", "k ↑", "move(-1)", "the process or GPU before"),
    key("move.page_down", "pagedown", "PgDn", "page(1)", "a page of them down"),
    key("move.page_up", "pageup", "PgUp", "page(-1)", "a page of them up"),
    key("move.first", "home", "Home", "move_to(0)", "to the first"),
    key("move.last", "end", "End", "move_to(-1)", "to the last"),
    key("move.turn", "tab,shift+tab", "Tab", "turn", "to the GPUs, or the processes", label="GPUs"),
    key("move.enlarge", "z", "z", "enlarge", "GPUs or processes alone, or all again"),
    key(
        "move.devices_down",
        "right_parenthesis",
        ")",
        "scroll_devices(1)",
        "next GPUs, where not all fit",
    ),
    key("move.devices_up", "left_parenthesis", "(", "scroll_devices(-1)", "previous GPUs"),
    key(
        "move.command_right", "right", "→", "scroll_command(1)", "later parts of the command lines"
    ),
    key(
        "move.command_left", "left", "←", "scroll_command(-1)", "earlier parts of the command lines"
    ),
    key(
        "move.command_start",
        "circumflex_accent,ctrl+a",
        "^",
        "scroll_command_to(0)",
        "the start of the command lines (also ^A)",
    ),
    key(
        "move.command_end",
        "dollar_sign,ctrl+e",
        "$",
        "scroll_command_to(-1)",
        "the end of the command lines (also ^E)",
    ),
    key("filter.open", "slash,f", "/", "filter", "filter the processes (also f)", label="filter"),
    key("filter.clear", "escape", "Esc", "clear", "live again; then no tags, no filter, all GPUs"),
    key("gpus.toggle", DIGITS, "0-9", "toggle_device({key})", "hide that GPU, or show it again"),
    key("gpus.choose", "g", "g", "choose_devices", "choose which GPUs are shown"),
    key("panels.host", "o", "o", "toggle_panel('host')", "the line of the host, or not"),
    key("panels.history", "c", "c", "toggle_panel('history')", "the charts, or not"),
    key("panels.sparklines", "v", "v", "toggle_panel('sparklines')", "the small curves, or not"),
    key("panels.columns", "C", "C", "choose_columns", "choose the columns of the processes"),
    key("sort.choose", "s,f6", "s", "choose_sort", "choose the column (also F6)", label="sort"),
    key(
        "sort.next",
        "greater_than_sign,full_stop",
        ">",
        "sort(1)",
        "sort by the next column (also .)",
    ),
    key(
        "sort.previous",
        "less_than_sign,comma",
        "<",
        "sort(-1)",
        "sort by the column before (also ,)",
    ),
    key("sort.reverse", "r", "r", "reverse", "reverse the order"),
    key("process.tag", "space", "Space", "tag", "tag it for what comes next, and go on"),
    key("process.copy_pid", "y", "y", "copy_pid", "copy the PID"),
    key("process.copy_command", "Y", "Y", "copy_command", "copy the command line"),
    key(
        "process.kill",
        "K,f9",
        "K",
        "kill('KILL')",
        "kill it, or all that are tagged (also F9)",
        label="kill",
        signals=True,
    ),
    key("process.terminate", "T", "T", "kill('TERM')", "end it, with SIGTERM first", signals=True),
    key(
        "process.interrupt",
        "I",
        "I",
        "kill('INT')",
        "interrupt it, with SIGINT first",
        signals=True,
    ),
)
"""The keys of the overview, in the order of the help screen; the footer shows the labelled."""

FOOTER = (
    "view.back",
    "screen.quit",
    "screen.help",
    "filter.open",
    "sort.choose",
    "process.kill",
    "view.process",
    "view.device",
    "view.findings",
    "view.links",
    "view.users",
    "move.turn",
    "time.pause",
)
"""What a footer shows first; what has no room is left out from the end."""

_STOPPED_FOOTER = (*FOOTER[:3], "time.pause", *FOOTER[3:-1])
"""The same while time stands still, which one key ends."""

_RECORDED_FOOTER = (
    *_STOPPED_FOOTER[:4],
    "time.back",
    "time.forward",
    "time.seek",
    "time.longer",
    *FOOTER[3:-1],
)
"""What that of a recording shows first."""

_LIVE = "live"
"""What the key that stops time is called while it stands still."""


def labelled(keys: Iterable[Key]) -> list[Key]:
    """Return the keys of a footer, the most important first."""
    shown = [each for each in keys if each.label]
    recorded = any(each.id == "time.seek" for each in shown)
    stopped = any(each.label == _LIVE for each in shown)
    order = _RECORDED_FOOTER if recorded else _STOPPED_FOOTER if stopped else FOOTER
    rank = {name: place for place, name in enumerate(order)}
    return sorted(shown, key=lambda each: rank.get(each.id, len(rank)))


def keys_on_devices(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return the keys of a footer while the GPUs have the focus: nothing that needs a process."""
    turned = (each._replace(label="processes") if each.id == "move.turn" else each for each in keys)
    return tuple(each for each in turned if not each.signals)


def keys_while_stopped(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the keys of a footer while time stands still, where one key lets it go on."""
    on = "play" if any(each.id == "time.seek" for each in keys) else _LIVE
    return tuple(each._replace(label=on) if each.id == "time.pause" else each for each in keys)


def signalling_keys(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return those that signal a process, for a view of one to show and the app to carry out."""
    return tuple(each._replace(action=f"app.{each.action}") for each in keys if each.signals)
