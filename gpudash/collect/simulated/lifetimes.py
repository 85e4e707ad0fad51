"""When a simulated host booted and its programs started: functions of the time now.

Both repeat in fixed cycles, so a second simulation of the same host at the same time, in
another process, tells the same start times, and a run time is never years.
"""

from __future__ import annotations

from math import floor

from gpudash.collect.simulated.noise import unit
from gpudash.collect.simulated.scene import DAY, Program

LEAST_UPTIME = 3 * DAY
_BETWEEN_BOOTS = 60 * DAY
_INIT = 1


def boot_time(now: float) -> float:
    """Return when the host booted, Unix time: from 3 up to 63 days ago."""
    return floor(now / _BETWEEN_BOOTS) * _BETWEEN_BOOTS - LEAST_UPTIME


def start_time(program: Program, now: float) -> float:
    """Return when a program started, children of one parent within a second of each other."""
    is_child = program.parent_pid > _INIT
    lifetime = program.lifetime
    offset = round(lifetime * unit(program.parent_pid if is_child else program.pid), 2)
    delay = program.pid % 10 / 10
    return floor((now - offset) / lifetime) * lifetime + offset - delay
