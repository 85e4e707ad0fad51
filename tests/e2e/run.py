"""Runs gpudash in a process of its own, on the stand-in library or without any."""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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


LOADED = """
import json, os, sys
import gpudash.actions.lease.acquire, gpudash.actions.lease.queue
import gpudash.analysis.health.engine, gpudash.cli.oneshot, gpudash.cli.query, gpudash.cli.smi
import gpudash.cli.arguments, gpudash.cli.modes, gpudash.cli.parser, gpudash.cli.smi_verbs
import gpudash.collect.holders, gpudash.collect.host, gpudash.collect.local
import gpudash.doctor.bundle, gpudash.feed.recording, gpudash.feed.supervisor
import gpudash.output.matrix, gpudash.output.smi_details, gpudash.output.smi_xml
import gpudash.output.table, gpudash.system.fork, pynvml
from gpudash import cli
"""
"""What a process loads once that forks for command lines."""

_FORKS = f"""{LOADED}
for line in sys.stdin:
    program, words, environ, folder = json.loads(line)
    files = os.memfd_create("out"), os.memfd_create("err")
    pid = os.fork()
    if pid == 0:
        sys.argv = [program, *words]
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(files[0], 1)
        os.dup2(files[1], 2)
        cli.main()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    texts = [os.pread(file, 1 << 24, 0).decode("latin-1") for file in files]
    os.close(files[0])
    os.close(files[1])
    print(json.dumps([status, *texts]), flush=True)
"""


class _Forker:
    """A process that has loaded the program, and forks for command lines until we end.

    Loading is most of what a run costs. How a process starts by itself is what streams, screens
    and all that is killed are about, which are started as users do.
    """

    def __init__(self, library: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _FORKS],
            env=environment(library),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self.end)

    def end(self) -> None:
        """End it with all that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def run(self, program: str, words: Sequence[str], environ: Mapping[str, str]) -> Result:
        """Run a command line to its end; one that lasts too long ends all."""
        job = json.dumps([program, words, environ, os.getcwd()]).encode()
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        start = time.monotonic()
        stdin.write(job + b"\n")
        stdin.flush()
        if not select.select([stdout], [], [], LIMIT_SECONDS)[0]:
            _forker.cache_clear()
            self.end()
            raise subprocess.TimeoutExpired([program, *words], LIMIT_SECONDS)
        status, out, err = json.loads(stdout.readline())
        seconds = time.monotonic() - start
        return Result(status, out.encode("latin-1"), err.encode("latin-1").decode(), seconds)


@cache
def _forker(library: Path) -> _Forker:
    return _Forker(library)


def gpudash(*arguments: str, library: Path, **settings: object) -> Result:
    """Run gpudash to its end; `settings` are settings of the stand-in (DEVICES=8).

    Raises subprocess.TimeoutExpired, after killing it, when it never ends.
    """
    return _forker(library).run("gpudash", arguments, environment(library, **settings))


Line = tuple[str, Mapping[str, object]]
"""A command line, and settings of the stand-in for it."""


def each_of(
    lines: Sequence[Line],
    library: Path,
    program: str = "gpudash",
    variables: Mapping[str, str] = {},
    **settings: object,
) -> list[tuple[int, str, str]]:
    """Run many command lines one after the other; status, stdout and stderr of each."""
    found = []
    for words, more in lines:
        environ = {**environment(library, **{**settings, **more}), **variables}
        run = _forker(library).run(program, words.split(), environ)
        found.append((run.status, run.text, run.stderr))
    return found


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
