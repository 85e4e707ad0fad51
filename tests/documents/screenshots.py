"""Takes the pictures in screenshots/, from the simulated hosts, or only those that are named.

python -m tests.documents.screenshots [NAME ...]
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

from tests.demo_clock import demo_clock
from tests.documents.lab import Lab, jobs, lease, recording, settings
from tests.documents.picture import svg
from tests.e2e.forking import GPUDASH
from tests.e2e.terminal import Terminal

FOLDER = Path(__file__).parents[2] / "screenshots"
INSTANT = 1800000000
"""The moment at which the clocks of the simulated hosts stand still."""

_CLOCK = "08:00:00"
"""The same as the header shows it."""
_STEP = 2.0
"""Seconds that pass between two samples of a host that has a past."""
_MISTAKEN = """theme = "purple"
intervall = 2
[keys]
"process.kill" = "q"
"""
_SLOWLY = ("--interval", "5")
_FAST = (sys.executable, "-m", "tests.documents.fast")
_QUIET = 0.5
"""Seconds for which nothing is drawn before a key is sent: a new dialog ignores early ones."""


class Shot(NamedTuple):
    """One picture: what is run, at which size, which keys are sent, and what must be seen."""

    name: str
    arguments: tuple[str, ...]
    columns: int
    rows: int
    keys: tuple[str, ...]
    awaited: str
    past: int = 0
    """Seconds that the simulated host is watched before the first key, in fast motion."""
    lab: Callable[[], AbstractContextManager[Lab]] | None = None
    """The host with real processes that it is run on."""


SHOTS = (
    Shot("overview", ("--demo=dgx-h100",), 120, 40, (), "train.py", 300),
    Shot("overview-80x24", ("--demo=pcie-1080ti",), 80, 24, (), "train_resnet", 300),
    Shot("overview-200x60", ("--demo=dgx-h100",), 200, 60, (), "train.py", 460),
    Shot("many", ("--demo=many",), 200, 60, (), "GPU", 300),
    Shot("many-80x24", ("--demo=many",), 80, 24, ("tab", "down"), "500", 60),
    Shot("past", ("--demo=dgx-h100",), 100, 24, ("{", "{"), "AGO", 300),
    Shot(
        "replay",
        ("replay", "node7.jsonl"),
        100,
        24,
        ("p", *["}"] * 7),
        "REPLAY",
        lab=lambda: recording(_passing(300)),
    ),
    Shot("sort", ("--demo=dgx-h100",), 100, 24, ("s",), "Sort by", 300),
    Shot("gpus", ("--demo=dgx-h100",), 100, 24, ("g",), "Space on or off", 300),
    Shot("themes", ("--demo=dgx-h100",), 100, 24, ("f2",), "Theme", 300),
    Shot("kill", _SLOWLY, 100, 28, ("K",), "Kill PID", lab=jobs),
    Shot("signals", _SLOWLY, 100, 28, ("K", "s"), "USR1", lab=jobs),
    Shot("refused", ("--demo=pcie-1080ti",), 100, 28, ("K",), "cannot be signalled"),
    Shot("tree", _SLOWLY, 100, 28, ("enter", "t"), "run.sh", lab=jobs),
    Shot("lease", (), 100, 28, ("d",), "for 10 s", lab=lease),
    Shot("findings", ("--demo=dgx-h100",), 100, 28, ("w",), "Idle 5 min", 300),
    Shot("mistakes", ("--demo",), 100, 16, ("!",), "config.toml", lab=lambda: settings(_MISTAKEN)),
    Shot("filter", ("--demo=dgx-h100",), 110, 30, ("/", "user:alice gpu:0-1 idle<5x"), "^^", 480),
    Shot("palette", ("--demo=dgx-h100",), 100, 30, (":", "copy"), "Copy the PID", 300),
    Shot("help", ("--demo=dgx-h100",), 140, 50, ("h",), "reverse the sort order"),
    Shot("mig", ("--demo=mig",), 100, 20, (), "finetune"),
    Shot("device", ("--demo=dgx-h100",), 120, 40, ("d", "a"), "GPU  0", 300),
    Shot("device-80x24", ("--demo=pcie-1080ti",), 80, 24, ("d",), "Utilization", 300),
    Shot("links", ("--demo=pcie-1080ti",), 110, 24, ("m",), "GPU 0-3 and 4-7", 300),
    Shot("users", ("--demo=dgx-h100",), 100, 16, ("u",), "IDLE-MEM", 300),
    Shot(
        "process", ("--demo=dgx-h100",), 100, 24, ("/", "bob", "enter", "enter"), "ipykernel", 300
    ),
    Shot("cluster", ("--demo=fleet",), 80, 24, ("down", "right"), "a cell is", 0),
    Shot("hosts", ("--demo=fleet",), 120, 40, ("2",), "STATUS", 0),
    Shot("lost", ("--demo=lost",), 100, 20, (), "fell off the bus"),
    Shot("once", ("--demo=dgx-h100", "--once"), 100, 28, (), "vllm"),
    Shot("once-findings", ("--demo=pcie-1080ti", "--once"), 100, 24, (), "no P2P between"),
    Shot("doctor", ("doctor",), 100, 24, (), "2 FAIL"),
    Shot("topo", ("--demo=pcie-1080ti", "topo"), 86, 18, (), "Affinity"),
)


def take(shot: Shot) -> str:
    """Run gpudash in a terminal and return the picture of what it shows."""
    with ExitStack() as stack:
        before: list[str] = []
        env = {**os.environ, **demo_clock(INSTANT), "TZ": "UTC"}
        if shot.lab is not None:
            lab = stack.enter_context(shot.lab())
            before, env = lab.before, {**env, **lab.env}
        config = [] if "GPUDASH_CONFIG" in env else ["--no-config"]
        argv = [*before, *(_FAST if shot.past else GPUDASH), *config, *shot.arguments]
        if shot.past:
            env |= _passing(shot.past)
        size = {"columns": shot.columns, "rows": shot.rows}
        terminal = stack.enter_context(Terminal(argv, env=env, truecolor=True, **size))
        return _picture(shot, terminal)


def _passing(seconds: int) -> dict[str, str]:
    """Let so much time pass on a simulated host, up to the moment of the pictures."""
    return demo_clock(INSTANT - seconds, _STEP, INSTANT)


def _picture(shot: Shot, terminal: Terminal) -> str:
    if shot.past:
        terminal.wait_for(_CLOCK, timeout=60)
    for key in shot.keys:
        terminal.wait_for("GPU")
        terminal.settle(_QUIET)
        terminal.send(key)
    terminal.wait_for(shot.awaited)
    terminal.settle(_QUIET)
    return svg(terminal.screen, " ".join(("gpudash", *shot.arguments)))


def main() -> Iterator[Path]:
    """Take all pictures, or those named on the command line, and yield their files."""
    parser = argparse.ArgumentParser(prog="python -m tests.documents.screenshots")
    names = [shot.name for shot in SHOTS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    wanted = parser.parse_args().names or names
    if unknown := set(wanted) - set(names):
        parser.error(f"no picture is called {', '.join(sorted(unknown))}")
    FOLDER.mkdir(exist_ok=True)
    for shot in SHOTS:
        if shot.name in wanted:
            path = FOLDER / f"{shot.name}.svg"
            path.write_text(take(shot), encoding="utf-8")
            yield path


if __name__ == "__main__":
    for written in main():
        print(written)
