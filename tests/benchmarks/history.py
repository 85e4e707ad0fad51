"""What a day of `gpudash serve --history` takes: disk, time of a sample, time of a jump.

    python -m tests.benchmarks.history

The samples are those of the stand-in, in which all that moves on a busy host is drawn at random.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from gpudash.feed.history import KeptHistory
from gpudash.feed.recording.reader import Recording
from gpudash.feed.recording.samples import with_past
from gpudash.model import wire
from gpudash.model.device import Device
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from tests.benchmarks.commands import HOST, LARGE_HOST, gpudash
from tests.benchmarks.compare import stand_in

_START = datetime(2026, 11, 2, 9, 0, tzinfo=timezone.utc)
_SECONDS = 5
_WATCHED_HOURS = 2
"""How long a screen is attached in the end, which asks for a sample a second."""
_JUMPS = 50


def day(first: Snapshot, hours: float) -> Iterator[Snapshot]:
    """A busy host at the interval of a server that nobody watches, and then of one that is."""
    draw = random.Random(1)
    watched, end = int((hours - _WATCHED_HOURS) * 3600), int(hours * 3600)
    for passed in (*range(0, watched, _SECONDS), *range(watched, end)):
        yield replace(
            first,
            taken_at=_START + timedelta(seconds=passed, microseconds=draw.randrange(50_000)),
            host=replace(first.host, uptime_seconds=1e5 + passed, cpu_percent=draw.random() * 100),
            devices=tuple(_moved(each, draw) for each in first.devices),
            processes=tuple(_worked(each, draw) for each in first.processes),
        )


def _moved(device: Device, draw: random.Random) -> Device:
    busy = draw.randrange(40, 100)
    return replace(
        device,
        gpu_utilization_percent=busy,
        memory_utilization_percent=busy // 2,
        power_usage_mw=draw.randrange(200_000, 700_000),
        temperature_celsius=draw.randrange(50, 80),
        sm_clock_mhz=draw.randrange(1500, 1980, 15),
        memory_used_bytes=draw.randrange(1 << 12) << 24,
    )


def _worked(process: Process, draw: random.Random) -> Process:
    devices = (
        replace(each, sm_utilization_percent=draw.randrange(100)) for each in process.devices
    )
    return replace(
        process,
        devices=tuple(devices),
        cpu_percent=round(draw.random() * 400, 1),
        resident_memory_bytes=draw.randrange(1 << 20) << 12,
    )


def measure(name: str, first: Snapshot, hours: float) -> None:
    """Print what a day of this host takes."""
    with TemporaryDirectory() as folder:
        clock = [0.0]
        where = os.path.join(folder, "history")
        history = KeptHistory(
            where, 30 * 86400, 500 * 10**6, sys.stderr.write, clock=lambda: clock[0]
        )
        spent = []
        for snapshot in day(first, hours):
            clock[0] = (snapshot.taken_at - _START).total_seconds()
            line = wire.encode(snapshot)
            before, cpu = time.perf_counter(), time.process_time()
            history.take(snapshot, line)
            spent.append((time.perf_counter() - before, time.process_time() - cpu))
        history.close()
        written = sorted(spent)[len(spent) // 2 :]
        sizes = {
            period: sum(each.stat().st_size for each in Path(where).glob(f"*.{period}s.*"))
            for period in (1, 10, 60)
        }
        taken = ", ".join(f"{size / 1e6:.1f} MB at {period} s" for period, size in sizes.items())
        print(
            f"{name}: line {len(line)} bytes; {taken} for {hours:g} h; a sample that is kept: CPU "
            f"{sum(cpu for _, cpu in written) / len(written) * 1e3:.2f} ms, wall "
            f"{sum(wall for wall, _ in written) / len(written) * 1e3:.2f} ms, "
            f"longest {written[-1][0] * 1e3:.1f} ms"
        )
        _jump(where, hours)


def _jump(folder: str, hours: float) -> None:
    draw = random.Random(2)
    before = time.perf_counter()
    recording = Recording(folder)
    opened = time.perf_counter() - before
    found, past = [], []
    for number in range(_JUMPS):
        back = draw.random() * (hours if number % 2 else 1)
        moment = _START + timedelta(hours=hours - back)
        before = time.perf_counter()
        sample = recording.at(moment)
        found.append(time.perf_counter() - before)
        with_past(recording, sample)
        past.append(time.perf_counter() - before)
    found.sort()
    past.sort()
    middle = _JUMPS // 2
    print(
        f"  opened in {opened * 1e3:.0f} ms; a jump {found[middle] * 1e3:.0f} ms, longest "
        f"{found[-1] * 1e3:.0f}; with its past of ten minutes {past[middle] * 1e3:.0f} ms, "
        f"longest {past[-1] * 1e3:.0f}"
    )


def main() -> None:
    """Measure both hosts."""
    for name, host in (("8/32", HOST), ("64/500", LARGE_HOST)):
        with stand_in(host) as env:
            argv = gpudash("--once", "--json")
            line = subprocess.run(argv, env=env, check=True, capture_output=True).stdout
        measure(name, wire.decode(line.strip()), 24)


if __name__ == "__main__":
    main()
