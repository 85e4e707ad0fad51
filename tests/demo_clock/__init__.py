"""Simulated hosts whose time a test sets, in the processes that it starts.

The environment returned here has Python import `site/sitecustomize.py` at its start, which gives
the simulated hosts their clock.
"""

import os
from pathlib import Path

_FOLDERS = (Path(__file__).parent / "site", Path(__file__).parents[2])


def demo_clock(start: float, step: float = 0.0, until: float | None = None) -> dict[str, str]:
    """Return the variables that start the clock of simulated hosts at a Unix time.

    It stands still, or goes on by `step` seconds after each sample, up to `until`.
    """
    folders = [*map(str, _FOLDERS), os.environ.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, folders)),
        "DEMO_CLOCK": f"{start} {step} {'inf' if until is None else until}",
    }
