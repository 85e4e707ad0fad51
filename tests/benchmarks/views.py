"""What a terminal is sent when a view or a dialog opens, and when it closes."""

from collections.abc import Mapping

from tests.benchmarks.commands import gpudash
from tests.e2e.terminal import Terminal

Figures = dict[str, float]

OPENED = {
    "device": "d",
    "device, all charted": ("d", "a"),
    "findings": "w",
    "links": "m",
    "users": "u",
    "process": "enter",
    "process tree": "t",
    "environment": "e",
    "help": "h",
    "palette": ":",
    "themes": "f2",
    "sort": "s",
    "GPUs": "g",
    "metric": "M",
    "columns": "C",
    "filter": "/",
    "kill": "K",
}
"""The keys that open each from the overview, the last of which is measured."""
_QUIET_SECONDS = 1.2
"""Longer than a view that is opened waits for what it reads, and for what draws charts."""


def measure(env: Mapping[str, str], size: tuple[int, int]) -> dict[str, list[Figures]]:
    """Open everything once, from a process that is selected; no sample comes meanwhile."""
    argv = gpudash("--no-config", "--interval", "3600")
    figures: dict[str, list[Figures]] = {}
    with Terminal(argv, env=env, columns=size[0], rows=size[1], truecolor=True) as terminal:
        terminal.wait_for("sleep")
        _sent(terminal, "down")
        for name, keys in OPENED.items():
            *before, last = keys if isinstance(keys, tuple) else (keys,)
            for key in before:
                _sent(terminal, key)
            opened = _sent(terminal, last)
            # Once is enough for all: a dialog is a screen, and so is a view.
            figures[name] = [{"open_bytes": opened, "close_bytes": _sent(terminal, "escape")}]
    return figures


def _sent(terminal: Terminal, key: str) -> float:
    """Return the bytes that answer a key."""
    before = len(terminal.raw)
    terminal.send(key)
    terminal.settle(_QUIET_SECONDS)
    return len(terminal.raw) - before
