"""Runs gpudash in a process of its own, on the stand-in library or without any."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode
from tests.fakenvml.build import LIBRARY, environment
from tests.waiting import LIMIT_SECONDS

GPUDASH = (sys.executable, "-m", "gpudash")


@dataclass(frozen=True)
class Result:
    """What a run that ended left behind."""

    status: int
    stdout: bytes
    stderr: str
    seconds: float

    @property
    def snapshot(self) -> Snapshot:
        """Its output as a snapshot."""
        return decode(self.stdout)

    @property
    def document(self) -> dict[str, Any]:
        """Its output as plain JSON."""
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed

    @property
    def text(self) -> str:
        """Its output as text."""
        return self.stdout.decode()


def gpudash(
    *arguments: str,
    library: Path,
    timeout: float = LIMIT_SECONDS,
    **settings: object,
) -> Result:
    """Run gpudash to its end; `settings` are settings of the stand-in (DEVICES=8).

    Raises subprocess.TimeoutExpired, after killing it, when it takes longer than `timeout`.
    """
    start = time.monotonic()
    run = subprocess.run(
        [*GPUDASH, *arguments],
        env=environment(library, **settings),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
    )
    return Result(run.returncode, run.stdout, run.stderr.decode(), time.monotonic() - start)


LOADED = """
import json, os, sys
import gpudash.analysis.health.engine, gpudash.cli.oneshot, gpudash.cli.query, gpudash.cli.smi
import gpudash.collect.holders, gpudash.collect.host, gpudash.collect.local
import gpudash.feed.supervisor, gpudash.output.smi_details, gpudash.output.table, pynvml
from gpudash import cli
"""
"""What a process loads once that forks for command lines."""

_FORKS = f"""{LOADED}
program, runs = json.load(sys.stdin)
sys.argv, ended = [program], []
for words, environ in runs:
    files = os.memfd_create("out"), os.memfd_create("err")
    pid = os.fork()
    if pid == 0:
        os.environ.clear()
        os.environ.update(environ)
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        cli.main(words)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    ended.append((status, *(os.pread(file, 1 << 24, 0).decode() for file in files)))
    os.close(files[0])
    os.close(files[1])
json.dump(ended, sys.stdout)
"""

Line = tuple[str, Mapping[str, object]]
"""A command line, and settings of the stand-in for it."""


def each_of(
    lines: Sequence[Line],
    library: Path,
    program: str = "gpudash",
    variables: Mapping[str, str] = {},
    **settings: object,
) -> list[tuple[int, str, str]]:
    """Run many command lines one after the other; status, stdout and stderr of each.

    The program is loaded once for all of them, which is most of what a run costs.
    """
    jobs = [
        (words.split(), {**environment(library, **{**settings, **more}), **variables})
        for words, more in lines
    ]
    run = subprocess.run(
        [sys.executable, "-c", _FORKS],
        env=environment(library),
        input=json.dumps([program, jobs]).encode(),
        stdout=subprocess.PIPE,
        timeout=LIMIT_SECONDS,
        check=True,
    )
    return [(status, out, err) for status, out, err in json.loads(run.stdout)]


def complete(device: Device) -> bool:
    """Whether a device of the stand-in was read completely."""
    values = (
        device.uuid,
        device.memory_used_bytes,
        device.gpu_utilization_percent,
        device.temperature_celsius,
        device.power_usage_mw,
        device.sm_clock_mhz,
        device.performance_state,
    )
    return device.state == "ok" and None not in values


def no_library(directory: Path) -> Path:
    """Return a library that cannot be loaded and hides the machine's own: an empty file."""
    library = directory / LIBRARY
    library.touch()
    return library


def tell(control: Path, **settings: object) -> None:
    """Give the stand-in other settings while its clients run (CONTROL=control)."""
    lines = [f"{key}={value}\n" for key, value in settings.items()]
    fresh = control.with_suffix(".new")
    fresh.write_text("".join(lines))
    fresh.replace(control)
