"""The views that cover the overview, each in one place: its screen, its CSS and its drawing.

A view is a file here and its keys in the keymap. The file `users.py` holds the class `UsersView`,
and the action `view('users')` opens it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudash.tui.views.view import View


def view_class(name: str) -> type[View]:
    """Return the class of a view by the name of its module, which is imported only now."""
    module = import_module(f"{__name__}.{name}")
    found: type[View] = getattr(module, f"{name.capitalize()}View")
    return found
