"""How many calls a screen makes to the driver, and how long they keep it."""

import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks.commands import Command
from tests.benchmarks.pseudo_terminal import PseudoTerminal

Figures = dict[str, float]

_START_SECONDS = 8.0
_USUAL_MICROSECONDS = 22
_MICROSECONDS: Mapping[str, float] = {
    "nvmlDeviceGetBAR1MemoryInfo": 250,
    "nvmlDeviceGetComputeRunningProcesses": 121,
    "nvmlDeviceGetCurrPcieLinkWidth": 94,
    "nvmlDeviceGetDisplayActive": 268,
    "nvmlDeviceGetDisplayMode": 248,
    "nvmlDeviceGetEccMode": 360,
    "nvmlDeviceGetFanSpeed": 290,
    "nvmlDeviceGetFieldValues": 40,
    "nvmlDeviceGetMarginTemperature": 750,
    "nvmlDeviceGetMemoryInfo": 46,
    "nvmlDeviceGetMigMode": 231,
    "nvmlDeviceGetPcieReplayCounter": 239,
    "nvmlDeviceGetPcieThroughput": 20668,
    "nvmlDeviceGetPersistenceMode": 51,
    "nvmlDeviceGetPowerManagementLimit": 211,
    "nvmlDeviceGetProcessUtilization": 1442,
    "nvmlEventSetWait": 46,
    "FieldValue:83": 2560,
    "FieldValue:226": 190,
    "FieldValue:227": 190,
    "FieldValue:270": 300,
    "FieldValue:271": 300,
}
"""Medians on an H200 with a job, driver 580.159; other calls take about what is usual, and other
field values nothing beside the call that reads them."""


def measure(
    command: Command, env: Mapping[str, str], size: tuple[int, int], seconds: float
) -> Figures:
    """Watch a screen and return what it asks a second: calls, lists of processes, driver's time."""
    with TemporaryDirectory() as folder:
        counting = {**env, "FAKENVML_COUNT": f"{folder}/%p"}
        terminal = PseudoTerminal(command.argv, counting, size)
        try:
            _watch(terminal, _START_SECONDS)
            before, start = counts(Path(folder)), time.monotonic()
            _watch(terminal, seconds)
            passed = time.monotonic() - start
            made = counts(Path(folder)) - before
        finally:
            terminal.close()
    calls = Counter({name: count for name, count in made.items() if name.startswith("nvml")})
    lists = sum(count for name, count in calls.items() if "RunningProcesses" in name)
    milliseconds = sum(count * _cost(name) for name, count in made.items()) / 1000
    return {
        "calls_per_s": calls.total() / passed,
        "lists_per_s": lists / passed,
        "driver_ms_per_s": milliseconds / passed,
    }


def _watch(terminal: PseudoTerminal, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not terminal.drain(end):
            raise RuntimeError(f"it has ended: {terminal.last!r}")


def _cost(name: str) -> float:
    usual = _USUAL_MICROSECONDS if name.startswith("nvml") else 0
    return _MICROSECONDS.get(name.partition("_v")[0], usual)


def counts(folder: Path) -> Counter[str]:
    """Return how often each function was called, and each field value read, by all processes."""
    counts: Counter[str] = Counter()
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            name, count = line.split()
            counts[name] += int(count)
    return counts
