"""What keys do with the processes: scroll, sort, tag, copy and signal them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudash.analysis.labels import command
from gpudash.model.units import ABSENT
from gpudash.tui.bindings import shown_key
from gpudash.tui.listing import starts_largest

if TYPE_CHECKING:
    from gpudash.tui.app import GpudashApp

_COMMAND_STEP, _END = 8, 1 << 20

NONE_SELECTED = "no process is selected"


def scroll_command(app: GpudashApp, steps: int) -> None:
    """Show later or earlier parts of the command lines; move between columns of devices."""
    layout = app.dashboard.layout
    if app.dashboard.devices.focused and layout.across > 1:
        app.action_move(steps * layout.device_lines)
        return
    app.panels.scroll_command(steps * _COMMAND_STEP)


def scroll_command_to(app: GpudashApp, end: int) -> None:
    """Show the beginning of the command lines (0), or the end of the longest (-1)."""
    app.panels.scroll_command(_END if end else -_END)


def sort(app: GpudashApp, step: int) -> None:
    """Sort by a neighbour of the column in force."""
    app.dashboard.listing.sort_beside(app.panels.process_table.sortable, step)
    _try_out_order(app)


def reverse(app: GpudashApp) -> None:
    """Turn the order around."""
    sort_by(app, app.dashboard.listing.sort_key)


def sort_by(app: GpudashApp, key: str) -> None:
    """Sort by a column; the column in force turns around."""
    app.dashboard.listing.sort_by(key)
    _try_out_order(app)


def _try_out_order(app: GpudashApp) -> None:
    listing = app.dashboard.listing
    reverse = listing.descending is not starts_largest(listing.sort_key)
    app.preferences.try_out(sort=listing.sort_key, reverse=reverse)


def tag(app: GpudashApp) -> None:
    """Tag the selected process, or take its tag back, and go on to the next."""
    listing = app.dashboard.listing
    if app.dashboard.devices.focused:
        _tell_not_in_focus(app)
        return
    listing.tag()
    listing.move(1)
    if not listing.rows:
        app.show_message(NONE_SELECTED)


def copy_pid(app: GpudashApp) -> None:
    """Copy the PID of the selected process."""
    row = app.dashboard.listing.selected
    _copy(app, "PID", str(row.process.pid) if row else "")


def copy_command(app: GpudashApp) -> None:
    """Copy the command line of the selected process as a shell would take it."""
    row = app.dashboard.listing.selected
    _copy(app, "command line", command(row.process) if row and row.process.command_line else "")


def _copy(app: GpudashApp, what: str, text: str) -> None:
    if app.dashboard.listing.selected is None:
        app.show_message(NONE_SELECTED)
    elif not text or text == ABSENT:
        app.show_message(f"there is no {what} to copy")
    else:
        app.copy_to_clipboard(text)
        app.show_message(f"copied the {what}, if the terminal takes it (OSC 52): {text}")


def _tell_not_in_focus(app: GpudashApp) -> None:
    key = shown_key(app.dashboard.keys, "move.turn")
    app.show_message(f"{key} goes back to the processes, to choose which")


def kill(app: GpudashApp, signal_name: str) -> None:
    """Ask whether to signal what is tagged, or else what is selected."""
    if app.dashboard.recorded:
        app.show_message("this is a recording: none of its processes can be signalled")
    elif app.dashboard.read_only:
        app.show_message("read-only: nothing is sent")
    elif app.dashboard.devices.focused:
        _tell_not_in_focus(app)
    elif app.feed.remote is not None:
        from gpudash.tui.actions.remote import kill_there

        kill_there(app, app.feed.remote, signal_name)
    else:
        # A read-only screen must not even load what can signal.
        from gpudash.tui.actions.kill import ask

        ask(app, signal_name)
