"""What the collector costs: CPU while it streams, memory over many ticks."""

import os
import subprocess
import time
from collections.abc import Mapping

from tests.benchmarks.commands import gpudash
from tests.benchmarks.process_tree import ProcessTree

_WARM_SECONDS = 2.0


def cpu_percent(env: Mapping[str, str], seconds: float) -> float:
    """Return the share of one core that `gpudash --json --interval 1` takes."""
    process = subprocess.Popen(
        gpudash("--json", "--interval", "1"), env=dict(env), stdout=subprocess.DEVNULL
    )
    tree = ProcessTree(process.pid)
    try:
        time.sleep(_WARM_SECONDS)
        before, start = tree.cpu_seconds(), time.monotonic()
        time.sleep(seconds)
        used, passed = tree.cpu_seconds() - before, time.monotonic() - start
        if process.poll() is not None:
            raise RuntimeError(f"the collector ended with status {process.returncode}")
    finally:
        process.kill()
        process.wait()
    return 100 * used / passed


_LOOP = """
import sys
from gpudash.model import wire
from gpudash.collect.local import open_source

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])

source = open_source(None)
for tick in range(1, int(sys.argv[1]) + 1):
    wire.encode(source.sample())
    if tick in (int(sys.argv[1]) // 10, int(sys.argv[1])):
        print(resident(), flush=True)
"""


def resident_mib(python: str, env: Mapping[str, str], ticks: int) -> tuple[float, float]:
    """Return resident memory after a tenth of the ticks and after all, sampled without pause."""
    run = subprocess.run(
        [python, "-c", _LOOP, str(ticks)], env=dict(env), capture_output=True, text=True, check=True
    )
    early, late = (int(pages) * os.sysconf("SC_PAGE_SIZE") / 2**20 for pages in run.stdout.split())
    return early, late
