"""gpudash with a collector that samples ten times as often as the screen believes: a past, soon."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudash.cli import main
from gpudash.cli.verbs import stream

TIMES = 10

_run = stream.run


def _run_fast(*, interval: Callable[[], float], **other: Any) -> int:
    return _run(interval=lambda: interval() / TIMES, **other)


if __name__ == "__main__":
    # The screen's first collector goes on from its own process, and so finds this one.
    stream.run = _run_fast
    main()
