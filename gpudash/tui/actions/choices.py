"""What keys choose, most of it from lists: an action, the theme, columns, order, GPUs, panels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.history.metrics import device_metrics
from gpudash.tui.actions.processes import reverse, sort_by
from gpudash.tui.device_list import DeviceList
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.draw.main_charts import charted_fields
from gpudash.tui.keymap import Key
from gpudash.tui.listing import PROCESS_ORDERS, starts_largest
from gpudash.tui.theme import THEMES, Theme
from gpudash.tui.views.view import View, put_above

if TYPE_CHECKING:
    from gpudash.tui.app import GpudashApp
    from gpudash.tui.base import BaseApp

_NOT_LISTED = frozenset({"screen.palette"})


class PaletteEntry(NamedTuple):
    """An action and how it is listed."""

    action: str
    choice: Choice
    of_view: bool
    """Whether the view above the overview carries it out."""


def palette_entries(overview: Iterable[Key], view: Iterable[Key] = ()) -> dict[str, PaletteEntry]:
    """Return what can be called, by id: the view's own actions first."""
    found = {key.id: key for key in view}
    own = frozenset(found)
    for key in overview:
        found.setdefault(key.id, key)
    return {
        name: PaletteEntry(key.action, _palette_choice(key), name in own)
        for name, key in found.items()
        if name not in _NOT_LISTED and "{key}" not in key.action
    }


def _palette_choice(key: Key) -> Choice:
    """Return how an action is listed; its name in the settings finds it, too."""
    text = key.help.partition(" (")[0]
    words = f"{key.id} {key.group} {key.label} {key.words}"
    return Choice(key.id, text[:1].upper() + text[1:], key.shown, words=words)


def choose_action(app: BaseApp) -> None:
    """Choose any action by its name, and carry it out."""
    view = app.screen if isinstance(app.screen, View) else None
    found = palette_entries(app.dashboard.keys, view.keys if view else ())

    async def chosen(id: str | None) -> None:
        if id is not None:
            namespace = view if found[id].of_view else None
            await app.run_action(found[id].action, default_namespace=namespace)

    choices = [entry.choice for entry in found.values()]
    put_above(app, ChooseScreen("Actions", choices, app.dashboard.theme), chosen)


def choose_theme(app: BaseApp) -> None:
    """Choose the colours; meanwhile the screen has those of the entry under the cursor."""
    current = app.preferences.current.theme

    def preview(name: str) -> Theme:
        if name != app.preferences.current.theme:
            app.preferences.try_out(theme=name)
            app.apply_theme()
        return app.dashboard.theme

    def chosen(name: str | None) -> None:
        if name is None:
            preview(current)
            return
        app.prefer(theme=name)
        app.apply_theme()

    choices = [Choice(name, name, marked=name == current) for name in THEMES]
    theme = app.dashboard.theme
    put_above(
        app, ChooseScreen("Colours", choices, theme, current=current, pointed=preview), chosen
    )


def save_settings(app: GpudashApp) -> None:
    """Make settings of what keys changed: the order, the panels and the interval."""
    if not app.preferences.has_file:
        app.show_message("there is no settings file to save to")
        return
    current = app.preferences.current
    fields: dict[str, object] = {
        name: getattr(current, name) for name in ("sort", "reverse", "hidden_panels", "interval")
    }
    app.prefer(**fields)
    what = "the order, the panels and the interval"
    if app.preferences.is_saved:
        app.show_message(f"nothing to save: {what} have not changed")
    else:
        # Until it is written, which takes long where the folder hangs.
        app.show_message(f"saving {what}", stays=True)
        app.save_changes(f"saved: {what}")


def choose_sort(app: GpudashApp) -> None:
    """Choose the column to sort by from all, those that have no room on screen too."""
    current = app.dashboard.listing.sort_key

    def chosen(key: str | None) -> None:
        if key is not None and key != app.dashboard.listing.sort_key:
            sort_by(app, key)
            app.prefer(sort=key, reverse=app.preferences.current.reverse)

    choices = [
        Choice(
            column.key,
            column.key.replace("_", " "),
            column.header,
            column.key == current,
            _term_names(column.key),
        )
        for column in PROCESS_ORDERS
    ]
    put_above(app, ChooseScreen("Sort by", choices, app.dashboard.theme, current=current), chosen)


_BY_LETTER = {
    "g": "gpu_memory",
    "s": "utilization",
    "b": "memory_bandwidth",
    "c": "cpu",
    "m": "resident_memory",
    "t": "time",
    "i": "idle",
    "u": "user",
    "p": "pid",
    "n": "gpus",
    "f": "tree",
}
"""The columns by letters, those of nvitop behind its `o`."""


def choose_order(app: GpudashApp) -> None:
    """Choose the column to sort by with a letter, a capital for the opposite direction."""
    listing = app.dashboard.listing
    headers = {column.key: column.header for column in PROCESS_ORDERS}

    def chosen(letter: str | None) -> None:
        if letter is None:
            return
        key = _BY_LETTER[letter.lower()]
        if key != listing.sort_key:
            sort_by(app, key)
        # In a tree that of the siblings.
        column, descending = listing.leading
        if descending is not (starts_largest(column) is letter.islower()):
            reverse(app)

    choices = [
        Choice(letter, f"{letter}  {headers[key]}", "", key == listing.sort_key)
        for letter, key in _BY_LETTER.items()
    ]
    current = next((each.value for each in choices if each.marked), "")
    title = "Sort by letter, a capital reverses"
    theme = app.dashboard.theme
    put_above(app, ChooseScreen(title, choices, theme, current=current, by_letter=True), chosen)


def _term_names(key: str) -> str:
    """Return what the filter's term for a column is called: `mem` is GPU memory there, too."""
    return next((" ".join(term.names) for term in TERMS if key in term.names), "")


def choose_metric(app: GpudashApp) -> None:
    """Choose the metric that the charts show of all GPUs."""
    dashboard = app.dashboard
    fields = charted_fields(dashboard.snapshot.devices)
    current = dashboard.metric or device_metrics()[0]
    choices = [Choice(each.name, each.label, marked=each.name == current) for each in fields]

    def chosen(name: str | None) -> None:
        dashboard.metric = name or dashboard.metric

    put_above(app, ChooseScreen("Chart", choices, dashboard.theme, current=current), chosen)


def choose_columns(app: GpudashApp) -> None:
    """Choose the columns of the processes with the space bar; none is as good as all."""
    every = tuple(column.key for column in PROCESS_COLUMNS)

    def choices() -> list[Choice]:
        shown = app.preferences.current.columns or every
        return [
            Choice(column.key, column.key.replace("_", " "), column.header, column.key in shown)
            for column in PROCESS_COLUMNS
        ]

    def toggled(key: str) -> list[Choice]:
        shown = app.preferences.current.columns or every
        if key in shown:
            shown = tuple(each for each in shown if each != key)
        else:
            # In its usual order, as far as the others are in theirs.
            index = sum(every.index(each) < every.index(key) for each in shown)
            shown = (*shown[:index], key, *shown[index:])
        app.prefer(columns=() if shown == every else shown)
        app.panels.process_table.choose(app.preferences.current.columns)
        return choices()

    theme = app.dashboard.theme
    screen = ChooseScreen("Columns", choices(), theme, toggled=toggled, marks_only=True)
    put_above(app, screen)


_ALL = "all"


def choose_devices(app: GpudashApp) -> None:
    """Choose one GPU from a list, or some with the space bar: then the marks count."""
    dashboard = app.dashboard

    def choices() -> list[Choice]:
        hidden = dashboard.devices.hidden
        gpus = [
            Choice(str(device.index), f"GPU {device.index}", str(device.name or ""), shown)
            for device in dashboard.snapshot.devices
            if not device.is_mig
            for shown in (device.index not in hidden,)
        ]
        return [Choice(_ALL, "all", "", not hidden), *gpus]

    def toggled(value: str) -> list[Choice]:
        if value == _ALL:
            dashboard.hide_devices(DeviceList.show_all)
        else:
            toggle_device(app, int(value))
        app.outdated = True
        return choices()

    def chosen(value: str | None) -> None:
        if value == _ALL:
            dashboard.hide_devices(DeviceList.show_all)
        elif value is not None:
            dashboard.hide_devices(lambda devices: devices.only(int(value)))

    put_above(
        app, ChooseScreen("Show only GPU", choices(), dashboard.theme, toggled=toggled), chosen
    )


def toggle_device(app: GpudashApp, index: int) -> None:
    """Hide a GPU, or show it again."""
    if index not in app.dashboard.devices.indices:
        app.show_message(f"there is no GPU {index}")
        return
    app.dashboard.hide_devices(lambda devices: devices.toggle(index))


def toggle_panel(app: GpudashApp, panel: str) -> None:
    """Hide a panel, or show it again."""
    app.dashboard.toggle_panel(panel)
    app.preferences.try_out(hidden_panels=tuple(sorted(app.dashboard.hidden)))
