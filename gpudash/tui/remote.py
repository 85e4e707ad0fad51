"""A kill on another host: gpudash asks, checks the identity, signals and records there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

from textual.app import SuspendNotSupported

from gpudash.feed.protocol import RemoteHost
from gpudash.model.errors import GpudashError
from gpudash.system import terminal
from gpudash.tui.host import NONE_SELECTED, HostPage

_NOT_FOUND, _NO_SSH = 127, 255
_RESULTS = {
    0: "signalled on {host}",
    1: "not all ended on {host}, or it was declined there",
    _NOT_FOUND: "{host} has no gpudash, which checks what is signalled: nothing was sent",
    _NO_SSH: "ssh {host} failed: cannot tell whether anything was sent",
}


def kill_there(
    page: HostPage,
    host: RemoteHost,
    signal_name: str,
    call: Callable[[Sequence[str]], int] = subprocess.call,
) -> None:
    """Run `gpudash kill` on the host, in the terminal, for what is tagged or else selected.

    Each is named by its PID and start time, so that a PID that was reused is not hit.
    """
    rows = page.chosen_rows
    names = [
        f"{row.process.pid}:{row.process.start_ticks}" for row in rows if row.process.start_ticks
    ]
    if not rows:
        page.show_message(NONE_SELECTED)
        return
    if len(names) < len(rows):
        page.show_message(f"{host.name} does not report when a process started: nothing was sent")
        return
    try:
        command = host.run(["kill", "-s", signal_name, *names])
        with page.app.suspend():
            print(f"gpudash: {host.name}", flush=True)
            status = call(command)
            if status:
                # Why stands on the terminal, which the screen is about to cover.
                terminal.ask("Press Enter to return to the screen ")
    except SuspendNotSupported:
        page.show_message("this terminal cannot be handed to ssh: nothing was sent")
        return
    except (OSError, GpudashError) as error:
        page.show_message(f"ssh {host.name}: {error}; nothing was sent")
        return
    text = _RESULTS.get(status, f"gpudash kill on {{host}} ended with status {status}")
    page.app.forget_frame()
    page.show_message(text.format(host=host.name))
