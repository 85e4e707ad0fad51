"""Asks the stand-in library through real pynvml in a process of its own."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS

PRELUDE = """
import os
import pynvml as N

def configure(**settings):
    path = os.environ["FAKENVML_CONTROL"]
    with open(path + ".new", "w") as file:
        file.writelines(f"{key}={value}\\n" for key, value in settings.items())
    os.replace(path + ".new", path)
"""
DEVICES = """
N.nvmlInit()
D = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]
"""


def ask(library: Path, expressions: str, *, prelude: str = DEVICES, **settings: object) -> Any:
    """Evaluate expressions, one a line, in one process; statements start with a bang."""
    lines = [line.strip() for line in expressions.strip().splitlines()]
    body = "\n".join(
        line[1:] if line.startswith("!") else f"out.append(({line}))" for line in lines
    )
    script = f"{PRELUDE}{prelude}\nout = []\n{body}\nprint(repr(out))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(library, **settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
    )
    assert run.returncode == 0, run.stderr
    return eval(run.stdout)
