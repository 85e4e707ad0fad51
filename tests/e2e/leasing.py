"""A stand-in of idle GPUs and a folder with a place for the lease of each."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from gpudash.actions.lease.queue import Timing
from tests.e2e import forking
from tests.e2e.forking import GPUDASH, Process
from tests.e2e.run import gpudash
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS


@cache
def _uuids(library: Path, devices: int) -> list[str]:
    snapshot = gpudash("--once", "--json", library=library, DEVICES=devices).snapshot
    return [device.uuid or "" for device in snapshot.devices]


@contextmanager
def places(library: Path, devices: int = 8) -> Iterator[dict[str, str]]:
    """Yield an environment in which idle GPUs can be leased; only root can make the places."""
    settings = {"DEVICES": devices, "LOAD": "idle", "TOPO": "islands"}
    with tempfile.TemporaryDirectory(prefix="leases-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        for uuid in _uuids(library, devices):
            Path(folder, uuid).touch()
        yield {**environment(library, **settings), "GPUDASH_LOCK_DIR": folder}


_RUN = """
import sys
from functools import partial
from gpudash import cli
from gpudash.actions.lease.queue import Timing
from gpudash.cli.verbs import run
run.VERB = run.VERB._replace(run=partial(run.run, timing=Timing{timing}))
cli.main(["run", *sys.argv[1:]])
"""


def start_with(timing: Timing, environ: dict[str, str], *words: str) -> Process:
    """Start `gpudash run` with these words with this timing of the queue."""
    return _start(environ, [sys.executable, "-c", _RUN.format(timing=tuple(timing)), *words])


def start(environ: dict[str, str], *words: str) -> Process:
    """Start gpudash with these words; its output can be read."""
    return _start(environ, [*GPUDASH, *words])


def _start(environ: dict[str, str], argv: list[str]) -> Process:
    return forking.start(
        argv,
        environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: Process) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=3 * LIMIT_SECONDS)
    return process.returncode, out, err
