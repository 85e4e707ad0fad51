"""What commands cost that run once and exit: wall time, CPU time and peak memory, in turns."""

import os
import time
from collections.abc import Mapping, Sequence

from tests.benchmarks.commands import Command

Figures = dict[str, float]


def measure(
    commands: Sequence[Command], env: Mapping[str, str], rounds: int
) -> dict[str, list[Figures]]:
    """Run the commands A B C A B C ..., after one round to warm up; figures per name and round."""
    runs: dict[str, list[Figures]] = {command.name: [] for command in commands}
    for number in range(rounds + 1):
        for command in commands:
            figures = _run(command, env)
            if number:
                runs[command.name].append(figures)
    return runs


def _run(command: Command, env: Mapping[str, str]) -> Figures:
    """Spawn and reap one command; CPU is user and system time of all that it waited for.

    Raises RuntimeError when it fails: a failure is no measurement.
    """
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    start = time.perf_counter()
    pid = os.posix_spawn(command.argv[0], command.argv, env, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command.argv)}: exit status {code}")
    return {
        "wall_ms": wall * 1e3,
        "cpu_ms": (used.ru_utime + used.ru_stime) * 1e3,
        # A child cannot read below the peak of the process that spawned it.
        "peak_mib": used.ru_maxrss / 1024,
    }
