"""The views above the main screen, each of which is imported when it is first opened."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from gpudash.tui.actions.processes import NONE_SELECTED
from gpudash.tui.views.view import put_above

if TYPE_CHECKING:
    from gpudash.tui.app import GpudashApp
    from gpudash.tui.base import BaseApp
    from gpudash.tui.views.view import View


def show_view(app: GpudashApp, view: View) -> None:
    """Show a view above the one that it was opened from; of each kind there is one at most."""
    while any(type(screen) is type(view) for screen in app.screen_stack):
        app.pop_screen()
    put_above(app, view)


def view_class(name: str) -> type[View]:
    """Return the class of a view by the name of its module, which is imported only now."""
    module = import_module(f"gpudash.tui.views.{name}")
    found: type[View] = getattr(module, f"{name.capitalize()}View")
    return found


def open_selected(app: GpudashApp) -> None:
    """Show what is under the cursor."""
    if app.dashboard.devices.focused:
        open_view(app, "device")
    else:
        open_process(app)


def open_view(app: GpudashApp, name: str) -> None:
    """Open a view by the name of its module, such as `users`."""
    show_view(app, view_class(name)(app.dashboard))


def open_process(app: GpudashApp, section: str = "") -> None:
    """Show the selected process, from its `tree` or its `environment` on."""
    row = app.dashboard.listing.selected
    if row is None:
        app.show_message(NONE_SELECTED)
        return
    from gpudash.tui.views.process import ProcessView

    app.dashboard.listing.hold()
    show_view(app, ProcessView(app.dashboard, row, section=section))


def open_mistakes(app: BaseApp) -> None:
    """Show all that is wrong in the file of settings."""
    from gpudash.tui.dialogs.text import MistakesScreen

    if app.preferences.mistakes:
        screen = MistakesScreen(app.dashboard.theme, app.preferences.mistakes)
        put_above(app, screen)
    else:
        app.show_message("there is no mistake in the settings")
