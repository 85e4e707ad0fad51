"""Every key in one table, read by bindings, footer, help, palette, settings and README.

A key costs a line here and its action: `action_NAME` of the app, or of the page that has it.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

DIGITS = ",".join("0123456789")

_RENAMED = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Where Textual's names of keys differ from Unicode's."""


def key_name(character: str) -> str:
    """Return Textual's name of the key that types a character."""
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return _RENAMED.get(name, name)


WRITTEN = {
    **{key_name(chr(code)): chr(code) for code in range(33, 127)},
    **{"space": "Space", "enter": "⏎", "escape": "Esc", "backspace": "Backspace"},
    **{"delete": "Delete", "insert": "Insert", "tab": "Tab", "shift+tab": "S-Tab"},
    **{"home": "Home", "end": "End", "pageup": "PgUp", "pagedown": "PgDn"},
    **{"up": "↑", "down": "↓", "left": "←", "right": "→"},
}
"""Textual's names of keys, and how help and footer write them."""


class Key(NamedTuple):
    """An action with the keys that start it, the first of which is shown."""

    id: str
    """Its name in the settings, for remapping."""
    keys: str
    """Textual's names of the keys, separated by commas."""
    action: str
    help: str
    """What it does, understandable without its group."""
    label: str = ""
    """One word for the footer, empty for a key that only the help screen lists."""
    words: str = ""
    """Other words that find it in the palette."""
    heading: str = ""
    """Its heading on the help screen, empty for the first half of its id."""
    signals: bool = False
    """Whether it may end a process: a read-only screen lacks it."""
    only: str = ""
    """`live` or `recording` if it only works on such a screen."""
    recorded_help: str = ""
    """What it does on a recording, empty for the same."""
    recorded_label: str = ""
    written: str = ""
    """The text for its keys in help and footer, if not that of the first."""

    @property
    def shown(self) -> str:
        """The text for its key in help and footer: `^X`, `F9`, `?`."""
        first = self.keys.partition(",")[0]
        if self.written:
            return self.written
        if first.startswith("ctrl+"):
            return f"^{first.removeprefix('ctrl+').upper()}"
        if first[:1] == "f" and first[1:].isdecimal():
            return first.upper()
        return WRITTEN.get(first, first)

    @property
    def group(self) -> str:
        """Its heading on the help screen."""
        return self.heading or self.id.partition(".")[0].capitalize().replace("Gpus", "GPUs")


def _under(heading: str, *keys: Key) -> tuple[Key, ...]:
    """Return keys under another heading of the help screen."""
    return tuple(each._replace(heading=heading) for each in keys)


# fmt: off
OVERVIEW_KEYS: tuple[Key, ...] = (
    Key("screen.quit", "q,ctrl+c,f10", "app.leave", "quit (also Ctrl-C, F10)", "quit"),
    Key("screen.help", "h,question_mark,f1", "app.help", "show all keys (also ?, F1)", "help"),
    Key("screen.palette", "colon,ctrl+p", "app.palette", "choose an action by name (also ^P)"),
    Key("screen.theme", "f2", "app.choose_theme", "choose the colour theme",
        words="theme colors appearance"),
    Key("screen.save", "f12", "app.save_settings", "save this arrangement as the default",
        words="keep preferences config order panels"),
    Key("screen.picture", "S", "app.save_screen", "save a picture of the screen (SVG)",
        words="screenshot image export"),
    Key("screen.mistakes", "exclamation_mark", "app.mistakes", "show mistakes in the settings"),
    Key("screen.redraw", "ctrl+l,f5", "app.redraw", "redraw the screen (also F5)", words="refresh"),
    Key("screen.suspend", "ctrl+z", "app.suspend_process", "suspend gpudash; fg resumes it"),
    Key("time.pause", "p", "pause", "freeze the screen; sampling goes on", "pause", "stop",
        recorded_help="stop playing, or play on", recorded_label="stop"),
    Key("time.back", "left_square_bracket", "step(-1)", "show the previous sample",
        words="history past rewind", recorded_label="back"),
    Key("time.forward", "right_square_bracket", "step(1)", "show the next sample, or the present",
        recorded_help="show the next sample", recorded_label="next"),
    Key("time.back_far", "left_curly_bracket", "step(-15)", "go 15 samples back"),
    Key("time.forward_far", "right_curly_bracket", "step(15)", "go 15 samples forward"),
    Key("time.longer", "plus,equals_sign", "interval(1)", "lengthen the interval between samples",
        recorded_help="play faster", recorded_label="faster"),
    Key("time.shorter", "minus", "interval(-1)", "shorten the interval between samples",
        recorded_help="play slower"),
    Key("time.seek", "at", "seek", "go to another time", words="history past recording",
        recorded_label="time"),
    Key("driver.release", "X", "release", "detach from the driver (for a GPU reset), or reattach",
        only="live"),
    Key("driver.wake", "W", "wake", "read GPUs that are left alone on battery", only="live"),
    Key("view.device", "d", "view('device')", "show everything about a GPU, with charts", "GPU",
        "details metrics"),
    Key("view.gpu", DIGITS, "view_gpu({key})", "show everything about that GPU", written="0-9"),
    Key("view.findings", "w", "view('findings')", "show what is wrong, why, what to do", "findings",
        "problems warnings"),
    Key("view.links", "m", "view('links')", "show the links of the GPUs, and P2P", "links",
        "topology nvlink pcie numa"),
    Key("view.users", "u", "view('users')", "show how much each user holds", "users", "who"),
    Key("view.events", "E", "view('events')", "list what happened", "events", "log history"),
    Key("view.report", "U", "view('report')", "report what GPUs were used for",
        words="hours held idle energy cost"),
    Key("view.process", "enter", "open", "open the process or GPU under the cursor", "open"),
    Key("view.tree", "t", "view_process('tree')", "show parents and children of a process"),
    Key("view.environment", "e", "view_process('environment')",
        "show the environment of a process"),
    Key("move.down", "down,j", "move(1)", "go to the next process or GPU", written="j ↓"),
    Key("move.up", "up,k", "move(-1)", "go to the previous process or GPU", written="k ↑"),
    Key("move.page_down", "pagedown", "page(1)", "go a page down"),
    Key("move.page_up", "pageup", "page(-1)", "go a page up"),
    Key("move.first", "home", "move_to(0)", "go to the first process or GPU"),
    Key("move.last", "end", "move_to(-1)", "go to the last process or GPU"),
    Key("move.turn", "tab,shift+tab", "turn", "switch between GPUs and processes", "GPUs", "focus"),
    Key("move.enlarge", "z", "enlarge", "show GPUs or processes alone, or all again"),
    Key("move.command_right", "right", "scroll_command(1)", "scroll the command lines right"),
    Key("move.command_left", "left", "scroll_command(-1)", "scroll the command lines left"),
    Key("move.command_start", "circumflex_accent,ctrl+a", "scroll_command_to(0)",
        "scroll to the start of the commands (also ^A)"),
    Key("move.command_end", "dollar_sign,ctrl+e", "scroll_command_to(-1)",
        "scroll to the end of the commands (also ^E)"),
    Key("filter.open", "slash,f", "filter", "filter the processes (also f)", "filter",
        words="search find"),
    Key("filter.clear", "escape", "clear", "resume; then clear tags, filter, GPU selection",
        recorded_help="clear tags, then filter, then GPU selection"),
    Key("gpus.choose", "g", "choose_devices", "choose which GPUs are shown", words="devices hide"),
    Key("panels.host", "H", "toggle_panel('host')", "show or hide the line of the host"),
    Key("panels.history", "c", "toggle_panel('history')", "show or hide the charts"),
    Key("panels.metric", "M", "choose_metric", "choose what the charts show", words="chart"),
    Key("panels.sparklines", "v", "toggle_panel('sparklines')", "show or hide the sparklines"),
    Key("panels.columns", "C", "choose_columns", "choose the columns of the processes"),
    Key("sort.choose", "s,f6", "choose_sort",
        "sort by a column, grouped by GPU, or as a tree (also F6)", "sort", words="group by gpu"),
    Key("sort.letter", "o", "choose_order", "sort by a letter: oc CPU, oC turned around"),
    Key("sort.next", "greater_than_sign,full_stop", "sort(1)", "sort by the next column (also .)"),
    Key("sort.previous", "less_than_sign,comma", "sort(-1)",
        "sort by the previous column (also ,)"),
    Key("sort.reverse", "r", "reverse", "reverse the sort order"),
    Key("sort.per_gpu", "x", "per_gpu", "show a process once for each of its GPUs",
        words="expand open"),
    Key("process.tag", "space", "tag", "tag the process, and go to the next"),
    Key("process.copy_pid", "y", "copy_pid", "copy the PID"),
    Key("process.copy_command", "Y", "copy_command", "copy the command line"),
    Key("process.kill", "K,f9", "kill('KILL')", "kill the process, or all tagged ones (also F9)",
        "kill", "sigkill signal end", signals=True),
    Key("process.terminate", "T", "kill('TERM')", "end it, with SIGTERM first",
        words="signal terminate process", signals=True),
    Key("process.interrupt", "I", "kill('INT')", "interrupt it, with SIGINT first",
        words="signal process", signals=True),
)
# fmt: on
"""The keys of the overview, in the order of the help screen; the footer has the labelled."""

_OF_LISTS = frozenset({"Move", "Sort", "Filter", "GPUs", "Panels"})


def _is_of_lists(key: Key) -> bool:
    return key.group in _OF_LISTS or key.id in ("process.tag", "view.process")


SCREEN_KEYS = tuple(k for k in OVERVIEW_KEYS if k.group == "Screen" and k.id != "screen.save")
"""The keys of every page."""
HOST_KEYS = tuple(k for k in OVERVIEW_KEYS if k not in SCREEN_KEYS and not _is_of_lists(k))
"""The additional keys of every page of one host."""
LIST_KEYS = tuple(k for k in OVERVIEW_KEYS if _is_of_lists(k))
"""The keys of the overview alone: their effect would not be visible elsewhere."""

# fmt: off
VIEW_KEYS: tuple[Key, ...] = _under(
    "In all views",
    Key("view.back", "q,escape,backspace", "back", "go back (also Esc, Backspace)", "back",
        "overview"),
    Key("view.down", "down,j", "move(1)", "scroll down", written="j ↓"),
    Key("view.up", "up,k", "move(-1)", "scroll up", written="k ↑"),
    Key("view.page_down", "pagedown,space", "page(1)", "scroll a page down"),
    Key("view.page_up", "pageup", "page(-1)", "scroll a page up"),
    Key("view.top", "home", "move_to(0)", "scroll to the top"),
    Key("view.bottom", "end", "move_to(-1)", "scroll to the bottom"),
)
"""The common keys of all views above the overview."""

DEVICE_KEYS: tuple[Key, ...] = (
    *_under(
        "In the view of a GPU",
        Key("device.next", "right,n", "turn(1)", "show the next GPU (also n)", "next"),
        Key("device.previous", "left,b", "turn(-1)", "show the previous GPU (also b)"),
        Key("device.metric", "tab", "metric(1)", "chart the next metric", "metric"),
        Key("device.metric_before", "shift+tab", "metric(-1)", "chart the previous metric"),
        Key("device.list", "l", "list_metrics", "choose the metric by name", "list"),
        Key("device.compare", "c", "compare", "chart another GPU beside it", "compare"),
        Key("device.range", "r", "range", "chart the last 1, 5 or 30 minutes, or hours", "range"),
        Key("device.zoom_in", "plus,equals_sign", "zoom(-1)", "chart a shorter time", "zoom"),
        Key("device.zoom_out", "minus", "zoom(1)", "chart a longer time"),
        Key("device.all", "a", "overlay_all", "chart all GPUs (the 8 highest), or one", "all"),
        Key("device.large", "z", "large", "show the chart alone, or all again", "large"),
        Key("device.explain", "x", "explain", "explain each metric, or not", "explain"),
    ),
    *VIEW_KEYS,
)

FINDINGS_KEYS: tuple[Key, ...] = (
    *_under(
        "Findings",
        Key("findings.open", "enter", "open", "open the process or GPU of the finding", "open"),
        Key("findings.acknowledge", "a", "acknowledge", "acknowledge the finding", "ack"),
    ),
    *VIEW_KEYS,
)

REPORT_KEYS: tuple[Key, ...] = (
    *_under(
        "Report",
        Key("report.longer", "minus", "zoom(1)", "report a longer time", "longer"),
        Key("report.shorter", "plus,equals_sign", "zoom(-1)", "report a shorter time"),
        Key("report.by", "b", "group_by", "report by the next: users, GPUs, jobs", "group"),
    ),
    *VIEW_KEYS,
)

LINKS_KEYS: tuple[Key, ...] = (
    Key("links.next", "tab", "matrix(1)", "show links, P2P read, write, ...", "matrix"),
    Key("links.previous", "shift+tab", "matrix(-1)", "show the previous matrix"),
    Key("links.right", "right", "scroll_columns(8)", "scroll the matrix right"),
    Key("links.left", "left", "scroll_columns(-8)", "scroll the matrix left"),
    *VIEW_KEYS,
)

USERS_KEYS: tuple[Key, ...] = (
    Key("users.choose", "enter", "open", "show only this user's processes", "filter"),
    Key("users.next", "greater_than_sign,full_stop", "sort(1)", "sort users by the next column",
        "sort"),
    Key("users.previous", "less_than_sign,comma", "sort(-1)", "sort users by the previous column"),
    Key("users.reverse", "r", "reverse", "reverse the sort order of users", "reverse"),
    *VIEW_KEYS,
)

PROCESS_KEYS: tuple[Key, ...] = (
    *_under(
        "In the view of a process",
        Key("process.tree", "t", "to('tree')", "go to its parents and children", "tree"),
        Key("process.environment", "e", "to('environment')", "go to its environment", "env"),
        Key("process.reveal", "x", "reveal", "show or hide secret values", "secrets"),
    ),
    *VIEW_KEYS,
)

KILL_KEYS: tuple[Key, ...] = tuple(
    each._replace(signals=True)
    for each in (
        Key("kill.answer", "y", "answer", "send the signal"),
        Key("kill.cancel", "n,escape,q,ctrl+c", "cancel", "send nothing (also Esc, q)"),
        Key("kill.press", "enter", "press", "press the button in focus, at first Cancel"),
        Key("kill.turn", "tab,shift+tab", "turn", "focus the other button"),
        Key("kill.left", "left", "focus_button('left')", "focus the left button, Cancel"),
        Key("kill.right", "right", "focus_button('right')", "focus the right button"),
        Key("kill.next", "down", "next_signal(1)", "choose the next signal"),
        Key("kill.previous", "up", "next_signal(-1)", "choose the previous signal"),
        Key("kill.signal", "s", "choose_signal", "choose any signal, by name or number"),
        Key("kill.tree", "t", "tree", "include its children, or not"),
        Key("kill.down", "j", "scroll_lines(1)", "scroll a long command down"),
        Key("kill.up", "k", "scroll_lines(-1)", "scroll a long command up"),
        Key("kill.page_down", "pagedown,space", "scroll_pages(1)", "scroll a page down"),
        Key("kill.page_up", "pageup", "scroll_pages(-1)", "scroll a page up"),
    )
)
"""The keys of the question before a signal."""

CHOOSE_KEYS: tuple[Key, ...] = _under(
    "In a list",
    Key("choose.take", "enter", "take", "choose what is under the cursor"),
    Key("choose.mark", "space", "mark", "switch it on or off, where several can be"),
    Key("choose.cancel", "escape,ctrl+c,f10", "cancel", "close it (also Ctrl-C, F10)"),
    Key("choose.down", "down,tab,ctrl+n", "move('cursor_down')", "go down (also Tab, Ctrl-N)"),
    Key("choose.up", "up,shift+tab,ctrl+p", "move('cursor_up')", "go up (also Ctrl-P)"),
    Key("choose.page_down", "pagedown", "move('page_down')", "go a page down"),
    Key("choose.page_up", "pageup", "move('page_up')", "go a page up"),
    Key("choose.first", "home", "move('first')", "go to the first entry"),
    Key("choose.last", "end", "move('last')", "go to the last entry"),
)
"""The keys of the lists to choose from, which take letters as text; F1 is help there."""

_SHARED = {key.id: key for key in OVERVIEW_KEYS}

FLEET_KEYS: tuple[Key, ...] = (
    *(
        _SHARED[name]
        for name in (
            *("screen.quit", "screen.help", "screen.palette", "screen.theme", "screen.picture"),
            *("screen.mistakes", "screen.redraw", "screen.suspend", "time.pause"),
        )
    ),
    _SHARED["time.back"]._replace(help="show the cluster as it was one sample before"),
    _SHARED["time.forward"],
    _SHARED["time.back_far"],
    _SHARED["time.forward_far"],
    _SHARED["time.seek"],
    *_under(
        "Chart",
        Key("fleet.zoom_in", "plus,equals_sign", "zoom(-1)", "chart a shorter time", "zoom"),
        Key("fleet.zoom_out", "minus", "zoom(1)", "chart, list or report a longer time"),
        Key("fleet.metric", "tab", "metric(1)", "chart the next metric", "metric"),
        Key("fleet.metric_before", "shift+tab", "metric(-1)", "chart the previous metric"),
    ),
    *_under(
        "Pages",
        Key("fleet.cluster", "1", "open_page('map.MapPage')", "show the map of all", "map"),
        Key("fleet.hosts", "2", "open_page('tables.HostsPage')", "list the hosts", "hosts"),
        Key("fleet.gpus", "3", "open_page('tables.GpusPage')", "list the GPUs of all hosts",
            "GPUs"),
        Key("fleet.users", "4,u", "open_page('tables.UsersPage')", "list the users (also u)",
            "users"),
        Key("fleet.jobs", "5", "open_page('tables.JobsPage')",
            "list the jobs; / and its number opens one", "jobs"),
        Key("fleet.findings", "w,6", "open_page('findings.FindingsPage')",
            "show what is wrong (also 6)", "findings"),
        Key("fleet.groups", "7,g", "open_page('tables.GroupsPage')",
            "add hosts up by rack, model or cluster (also g)", "groups"),
        Key("fleet.events", "e,8,E", "open_page('events.EventsPage')",
            "list what happened (also 8, E)", "events", "log history"),
        Key("fleet.report", "9,U", "open_page('report.ReportPage')",
            "report what GPUs were used for (also U)", words="hours held idle energy cost"),
        Key("fleet.enter", "enter", "open", "go into what is under the cursor", "open"),
        Key("fleet.acknowledge", "a", "acknowledge", "acknowledge what is wrong there", "ack"),
        Key("fleet.retry", "R", "retry", "connect again where ssh failed", "retry"),
        Key("fleet.back", "escape,backspace", "go_back", "resume; then clear the filter"),
    ),
    *_under(
        "Map",
        Key("fleet.paint", "c", "paint(1)", "colour the map by the next value", "paint"),
        Key("fleet.paint_before", "C", "paint(-1)", "colour it by the previous value"),
        Key("fleet.right", "right,l", "aside(1)", "go to the next host"),
        Key("fleet.left", "left", "aside(-1)", "go to the previous host"),
    ),
    *_under(
        "Groups",
        Key("fleet.group_by", "b", "group_by", "group by the next: rack, model, cluster", "by"),
    ),
    *_under(
        "Events",
        Key("fleet.event_jobs", "x", "jobs", "list jobs, too, or only with a filter", "jobs"),
    ),
    _SHARED["move.down"]._replace(help="go to the next row"),
    _SHARED["move.up"]._replace(help="go to the previous row"),
    *(_SHARED[name] for name in ("move.page_down", "move.page_up")),
    _SHARED["move.first"]._replace(help="go to the first row"),
    _SHARED["move.last"]._replace(help="go to the last row"),
    _SHARED["filter.open"]._replace(help="filter the GPUs (also f)"),
    _SHARED["sort.choose"]._replace(help="sort by a column (also F6)"),
    *(_SHARED[name] for name in ("sort.next", "sort.previous", "sort.reverse")),
)
# fmt: on
"""The keys of many hosts, in the order of the help screen."""

MAP_KEYS = tuple(
    key for key in FLEET_KEYS if key.group in ("Map", "Chart") or key.id == "fleet.back"
)
"""The keys of the map alone."""
INNER_KEYS = _under("Pages", VIEW_KEYS[0])
"""The keys of every page above the map, which the pages of a host have too."""
TABLE_KEYS = (*(key for key in FLEET_KEYS if key.group == "Sort"), *INNER_KEYS)
"""The keys of the tables alone."""
GROUP_KEYS = tuple(key for key in FLEET_KEYS if key.group == "Groups")
"""The keys of the groups alone."""
CHART_KEYS = tuple(key for key in FLEET_KEYS if key.group == "Chart")
"""The keys of the pages with a chart."""
EVENTS_KEYS = tuple(
    key for key in FLEET_KEYS if key.group == "Events" or key.action.startswith("zoom(")
)
"""The keys of the events alone."""
REPORT_PAGE_KEYS = (
    *(key for key in CHART_KEYS if key.action.startswith("zoom(")),
    *GROUP_KEYS,
)
"""The keys of the report alone."""
FLEET_PAGE_KEYS = tuple(
    key
    for key in FLEET_KEYS
    if key not in (*SCREEN_KEYS, *MAP_KEYS, *TABLE_KEYS, *GROUP_KEYS, *EVENTS_KEYS)
)
"""The additional keys of every page of many hosts."""

HOST_ONLY_KEYS = tuple(
    key._replace(action="explain_host")
    for key in OVERVIEW_KEYS
    if key.signals or key.id in ("sort.per_gpu", "driver.release")
)
"""Keys that only a host has; pages of many hosts answer them with an explanation."""

SCREENS: tuple[tuple[Key, ...], ...] = (
    OVERVIEW_KEYS,
    VIEW_KEYS,
    DEVICE_KEYS,
    FINDINGS_KEYS,
    REPORT_KEYS,
    LINKS_KEYS,
    USERS_KEYS,
    PROCESS_KEYS,
    KILL_KEYS,
    CHOOSE_KEYS,
    FLEET_KEYS,
)
"""The keys of each screen."""

PAGES = tuple(
    (*keys, *SCREEN_KEYS, *HOST_KEYS) if keys[-len(VIEW_KEYS) :] == VIEW_KEYS else keys
    for keys in SCREENS
)
"""The keys of each page, including those common to pages of a host."""

KEYS: tuple[Key, ...] = tuple(dict.fromkeys(key for keys in SCREENS[:-1] for key in keys))
"""Every key of the screens of one host."""
