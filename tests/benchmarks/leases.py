"""Leases under contention: `python -m tests.benchmarks.leases`, as root, on the stand-in.

Rounds of eight concurrent `gpudash run -n 1` on eight GPUs must get eight distinct ones
each time; jobs of one to three GPUs that wait, half of them another user's where that user may run
this Python, must never overlap.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.e2e.leasing import finish, places, start
from tests.fakenvml.build import build

_NOBODY = 65534
_THEIRS = ("/usr/bin/python3", "-m", "gpudash")
_NOTE = "echo {event} $$ $CUDA_VISIBLE_DEVICES >> {log}"


def main() -> int:
    """Run both and return 1 if any lease overlapped."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.leases", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=32)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, places(build(Path(folder))) as environ:
        Path(folder).chmod(0o755)
        failures = _rounds(environ, options.rounds)
        overlaps = _jobs(environ, options.jobs, Path(folder))
    return 1 if failures or overlaps else 0


def _rounds(environ: dict[str, str], rounds: int) -> int:
    begin, failures = time.monotonic(), 0
    script = ("--for", "0", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES; exec sleep 600")
    for number in range(rounds):
        holders = [start(environ, "run", *script) for _ in range(8)]
        found = {_line(holder) for holder in holders}
        for holder in holders:
            holder.kill()
            holder.communicate()
        if len(found) != 8 or not all(each.startswith("GPU-") for each in found):
            failures += 1
            print(f"round {number}: {len(found)} distinct of 8")
    seconds = time.monotonic() - begin
    print(f"{rounds} rounds of 8: {failures} with fewer than 8 distinct GPUs, {seconds:.0f} s")
    return failures


def _jobs(environ: dict[str, str], jobs: int, folder: Path) -> int:
    log = folder / "log"
    log.touch()
    log.chmod(0o666)
    begun, ended = (_NOTE.format(event=event, log=log) for event in ("begin", "end"))
    script = f"{begun}; sleep 0.2; {ended}"
    other = _other_user(environ)
    begin = time.monotonic()
    running = [
        _as(other if number % 2 else None, environ, str(1 + number % 3), script)
        for number in range(jobs)
    ]
    results = [finish(job) for job in running]
    leases, overlaps = _overlaps(log.read_text().splitlines())
    failed = [errors for status, _, errors in results if status]
    users = "two users" if other else "one user: another may not run a Python with the packages"
    seconds = time.monotonic() - begin
    print(f"{jobs} jobs of {users}: {leases} leases, {overlaps} overlaps, {seconds:.0f} s")
    print(*failed, sep="", end="")
    return overlaps + len(failed)


def _other_user(environ: dict[str, str]) -> dict[str, str] | None:
    """Return an environment in which nobody may run gpudash, None if there is none."""
    packages = ":".join(path for path in sys.path if path)
    theirs = {**environ, "PYTHONPATH": packages}
    probe = [*_THEIRS, "--once", "--json"]
    try:
        found = subprocess.run(probe, env=theirs, user=_NOBODY, cwd="/", capture_output=True)
    except OSError:
        return None
    return theirs if found.returncode == 0 else None


def _as(
    other: dict[str, str] | None, environ: dict[str, str], count: str, script: str
) -> subprocess.Popen[str]:
    words = ["run", "--wait", "--for", "0", "-n", count, "--", "sh", "-c", script]
    if other is None:
        return start(environ, *words)
    return subprocess.Popen(
        [*_THEIRS, *words],
        env=other,
        user=_NOBODY,
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _overlaps(lines: list[str]) -> tuple[int, int]:
    """Return how many leases there were, and how many began while another held the device."""
    leases = overlaps = 0
    held: dict[str, str] = {}
    for line in lines:
        event, pid, devices = line.split()
        for device in devices.split(","):
            if event == "begin":
                leases += 1
                overlaps += device in held
                held[device] = pid
            else:
                held.pop(device, None)
    return leases, overlaps


def _line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


if __name__ == "__main__":
    sys.exit(main())
