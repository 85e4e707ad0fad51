"""The pictures in screenshots/, from the simulated hosts: python -m tests.documents.screenshots."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.documents.picture import svg
from tests.e2e.terminal import Terminal

FOLDER = Path(__file__).parents[2] / "screenshots"
INSTANT = "1800000000"
"""The moment at which the clocks of the simulated hosts stand still."""


class Shot(NamedTuple):
    """One picture: what is run, at which size, which keys are sent, and what must be seen."""

    name: str
    arguments: tuple[str, ...]
    columns: int
    rows: int
    keys: tuple[str, ...]
    awaited: str


SHOTS = (
    Shot("overview", ("--demo=dgx-h100",), 120, 30, (), "train.py"),
    Shot("overview-80x24", ("--demo=pcie-1080ti",), 80, 24, (), "train_resnet"),
    Shot("kill", ("--demo=pcie-1080ti",), 100, 28, ("K",), "refused"),
    Shot("help", ("--demo=dgx-h100",), 100, 30, ("h",), "reverse the order"),
    Shot("mig", ("--demo=mig",), 100, 20, (), "finetune"),
    Shot("lost", ("--demo=lost",), 100, 20, (), "fell off the bus"),
    Shot("once", ("--demo=dgx-h100", "--once"), 100, 26, (), "vllm"),
    Shot("topo", ("--demo=pcie-1080ti", "topo"), 86, 18, (), "Affinity"),
)


def take(shot: Shot) -> str:
    """Run gpudash in a terminal and return the picture of what it shows."""
    argv = [sys.executable, "-m", "gpudash", *shot.arguments]
    env = {**os.environ, "GPUDASH_DEMO_TIME": INSTANT, "TZ": "UTC"}
    size = {"columns": shot.columns, "rows": shot.rows}
    with Terminal(argv, env=env, truecolor=True, **size) as terminal:
        for key in shot.keys:
            terminal.wait_for("GPU")
            terminal.settle()
            terminal.send(key)
        terminal.wait_for(shot.awaited)
        terminal.settle()
        command = " ".join(("gpudash", *shot.arguments))
        return svg(terminal.screen, command)


def main() -> Iterator[Path]:
    """Take all pictures, or those named on the command line, and yield their files."""
    FOLDER.mkdir(exist_ok=True)
    for shot in SHOTS:
        if not sys.argv[1:] or shot.name in sys.argv[1:]:
            path = FOLDER / f"{shot.name}.svg"
            path.write_text(take(shot), encoding="utf-8")
            yield path


if __name__ == "__main__":
    for written in main():
        print(written)
