"""Runs gpudash in a process of its own, on the stand-in library or without any."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpudash.model.device import Device
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode
from tests.e2e.forking import GPUDASH, run
from tests.fakenvml.build import LIBRARY, environment


@dataclass(frozen=True)
class Result:
    status: int
    stdout: bytes
    stderr: str
    seconds: float

    @property
    def snapshot(self) -> Snapshot:
        return decode(self.stdout)

    @property
    def document(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.stdout)
        return parsed

    @property
    def text(self) -> str:
        return self.stdout.decode()


def gpudash(*arguments: str, library: Path, **settings: object) -> Result:
    """Run gpudash to its end; `settings` are settings of the stand-in (DEVICES=8).

    Raises subprocess.TimeoutExpired, after killing it, when it never ends.
    """
    start = time.monotonic()
    done = run([*GPUDASH, *arguments], environment(library, **settings), text=False)
    seconds = time.monotonic() - start
    return Result(done.returncode, done.stdout, done.stderr.decode(), seconds)


Line = tuple[str, Mapping[str, object]]
"""A command line, and settings of the stand-in for it."""


def each_of(
    lines: Sequence[Line],
    library: Path,
    program: str | None = None,
    variables: Mapping[str, str] = {},
    **settings: object,
) -> list[tuple[int, str, str]]:
    """Run many command lines one after the other; status, stdout and stderr of each."""
    found = []
    for words, more in lines:
        environ = {**environment(library, **{**settings, **more}), **variables}
        done = run([*([program] if program else GPUDASH), *words.split()], environ)
        found.append((done.returncode, done.stdout, done.stderr))
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
