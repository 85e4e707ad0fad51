"""Keys in force: as bound in Textual, as set by the user, as shown in the footer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudash.tui.keymap import FLEET_KEYS, KEYS, OVERVIEW_KEYS, PAGES, WRITTEN, Key, key_name

if TYPE_CHECKING:
    from textual.app import App
    from textual.binding import Binding


def bindings(keys: Iterable[Key], *, priority: bool = False) -> list[Binding]:
    """Return Textual's bindings for keys; `{key}` in an action is the key that was pressed.

    With `priority`, they come before their use in a text being typed.
    """
    from textual.binding import Binding

    found: list[Binding] = []
    for key in keys:
        if "{key}" in key.action:
            each = [(name, key.action.format(key=name)) for name in key.keys.split(",")]
            found += [Binding(name, action, key.help, show=False) for name, action in each]
        else:
            found.append(
                Binding(key.keys, key.action, key.help, show=False, id=key.id, priority=priority)
            )
    return found


def recorded_keys(keys: Iterable[Key]) -> list[Key]:
    """Return the keys of a recording, to whose processes nothing can be sent."""
    return [
        key._replace(help=key.recorded_help or key.help, label=key.recorded_label or key.label)
        for key in keys
        if key.only != "live" and not key.signals
    ]


def live_keys(keys: Iterable[Key]) -> list[Key]:
    """Return the keys of a live host."""
    return [key for key in keys if key.only != "recording"]


QUIT = "screen.quit"
_WAY_OUT = "ctrl+c"

UNBOUND = "unbound"
"""The binding of an action without keys: no key has this name."""

_WORDS = str.maketrans({"⏎": "Enter", "↓": "Down", "↑": "Up", "→": "Right", "←": "Left"})
"""Names of keys for an ASCII screen."""

Remapped = Mapping[str, Sequence[str]]
"""Ids of actions with the keys that replace their own."""


def actions() -> tuple[str, ...]:
    """Return the ids of the actions that can be given other keys."""
    keys = (*KEYS, *FLEET_KEYS)
    return tuple(dict.fromkeys(key.id for key in keys if "{key}" not in key.action))


def key_names() -> tuple[str, ...]:
    """Return names of keys that settings may use, besides single characters."""
    return (*(f"f{n}" for n in range(1, 25)), *(n for n in WRITTEN if len(n) > 1))


def keys_in_force(
    keys: Iterable[Key],
    remapped: Remapped,
    *,
    read_only: bool = False,
    ascii: bool = False,
    recorded: bool = False,
) -> tuple[Key, ...]:
    """Return the keys in force: remapped, and without those that may kill."""
    found = []
    for key in recorded_keys(keys) if recorded else live_keys(keys):
        if key.signals and read_only:
            continue
        given = remapped.get(key.id)
        if given is None:
            found.append(key)
        elif given:
            found.append(key._replace(keys=",".join(_names(given)), written=""))
    if ascii:
        found = [key._replace(written=key.shown.translate(_WORDS)) for key in found]
    return tuple(found)


def remap(app: App[int], remapped: Remapped) -> None:
    """Remap the bindings of an app and of its screens."""
    app.set_keymap({name: ",".join(_names(keys)) or UNBOUND for name, keys in remapped.items()})


def shown_key(keys: Iterable[Key], id: str) -> str:
    """Return the text for an action's key among those in force: `no key` without one."""
    return next((key.shown for key in keys if key.id == id), "no key")


def clashes(remapped: Remapped) -> list[str]:
    """Return a line for each action that loses a key to another one."""
    lines: list[str] = []
    for keys in PAGES:
        ids = {key.id for key in keys}
        given = {
            key: action
            for action, given_keys in remapped.items()
            if action in ids
            for key in _names(given_keys)
        }
        for key in keys:
            taken = [name for name in key.keys.split(",") if given.get(name, key.id) != key.id]
            if key.id not in remapped:
                lines += [f"{given[name]} takes the key {name} from {key.id}" for name in taken]
    return list(dict.fromkeys(lines))


def with_way_out(remapped: Remapped) -> Remapped:
    """Return the keys, with Ctrl-C to quit if there is no other key for it."""
    own = next(key.keys.split(",") for key in KEYS if key.id == QUIT)
    given = {action: _names(keys) for action, keys in remapped.items()}
    taken = {key for action, keys in given.items() if action != QUIT for key in keys}
    if set(given.get(QUIT, own)) - taken:
        return remapped
    others = {
        action: tuple(key for key in keys if key != _WAY_OUT) for action, keys in remapped.items()
    }
    return {**others, QUIT: (_WAY_OUT,)}


def _names(keys: Sequence[str]) -> list[str]:
    """Return Textual's names of keys, which may be given as the characters that they type."""
    return [key_name(key) if len(key) == 1 else key for key in keys]


SELECTION_ACTIONS = frozenset(
    key.action.partition("(")[0]
    for key in OVERVIEW_KEYS
    if key.signals or key.action.startswith(("copy", "view_process"))
)
"""Actions on the process that is selected in the overview."""


_FOOTER = (
    "view.back",
    "screen.quit",
    "screen.help",
    "filter.open",
    "move.enlarge",
    "fleet.enter",
    "fleet.paint",
    "fleet.group_by",
    "fleet.zoom_out",
    "fleet.cluster",
    "fleet.hosts",
    "fleet.gpus",
    "fleet.users",
    "fleet.jobs",
    "fleet.findings",
    "fleet.groups",
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
"""Footer entries by priority; those that do not fit are dropped from the end."""

_PAUSED_FOOTER = (*_FOOTER[:3], "time.pause", *_FOOTER[3:-1])
"""The same while time stands still, which one key ends."""

_RECORDED_FOOTER = (
    *_PAUSED_FOOTER[:4],
    "time.back",
    "time.forward",
    "time.seek",
    "time.longer",
    *_FOOTER[3:-1],
)
"""The first footer entries of a recording."""

_LIVE = "live"
"""The label of the key that stops time, while it stands still."""


def labelled(keys: Iterable[Key]) -> list[Key]:
    """Return the keys of a footer, the most important first."""
    shown = [each for each in keys if each.label]
    paused = any(each.label == _LIVE for each in shown)
    order = _RECORDED_FOOTER if _are_of_recording(shown) else _PAUSED_FOOTER if paused else _FOOTER
    rank = {name: index for index, name in enumerate(order)}
    return sorted(shown, key=lambda each: rank.get(each.id, len(rank)))


def keys_on_devices(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return the footer's keys while the GPUs have the focus: none that needs a process."""
    turned = (each._replace(label="processes") if each.id == "move.turn" else each for each in keys)
    return tuple(each for each in turned if not each.signals)


def keys_while_enlarged(keys: Iterable[Key]) -> tuple[Key, ...]:
    """Return the footer's keys while one part is enlarged, which one key ends."""
    ids = ("move.enlarge", "device.large")
    return tuple(each._replace(label="all") if each.id in ids else each for each in keys)


def keys_while_stopped(keys: tuple[Key, ...]) -> tuple[Key, ...]:
    """Return the footer's keys while time stands still, which one key ends."""
    on = "play" if _are_of_recording(keys) else _LIVE
    return tuple(each._replace(label=on) if each.id == "time.pause" else each for each in keys)


def _are_of_recording(keys: Iterable[Key]) -> bool:
    """Whether the footer offers to seek, which recordings do."""
    return any(each.id == "time.seek" and each.label for each in keys)
