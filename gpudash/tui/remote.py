"""A kill on another host: gpudash asks, checks the identity, signals and records there."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from textual.app import SuspendNotSupported

from gpudash.analysis.table import ProcessRow
from gpudash.feed.protocol import RemoteHost
from gpudash.model.errors import GpudashError
from gpudash.system import terminal
from gpudash.tui.app import GpudashApp

_NOT_FOUND, _NO_SSH = 127, 255
_RESULTS = {
    0: "signalled on {host}",
    1: "not all ended on {host}, or it was declined there",
    _NOT_FOUND: "{host} has no gpudash, which checks what is signalled: nothing was sent",
    _NO_SSH: "ssh {host} failed: cannot tell whether anything was sent",
}


def kill_there(
    app: GpudashApp, host: RemoteHost, rows: Sequence[ProcessRow], signal_name: str
) -> str:
    """Run `gpudash kill` on the host, in the terminal; return the result.

    Each process is given by its PID and start time, so that a reused PID is not hit.
    """
    names = [
        f"{row.process.pid}:{row.process.start_ticks}" for row in rows if row.process.start_ticks
    ]
    if len(names) < len(rows):
        return f"{host.name} does not report when a process started: nothing was sent"
    try:
        command = host.run(["kill", "-s", signal_name, *names])
        with app.suspend():
            print(f"gpudash: {host.name}", flush=True)
            status = subprocess.call(command)
            if status:
                # The terminal shows the reason, which the screen is about to cover.
                terminal.ask("Press Enter to return to the screen ")
    except SuspendNotSupported:
        return "this terminal cannot be handed to ssh: nothing was sent"
    except (OSError, GpudashError) as error:
        return f"ssh {host.name}: {error}; nothing was sent"
    text = _RESULTS.get(status, f"gpudash kill on {{host}} ended with status {status}")
    app.forget_frame()
    return text.format(host=host.name)
