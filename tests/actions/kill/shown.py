"""Real processes as a snapshot of this host would show them."""

import os

import psutil

from gpudash.actions.kill.pin import Target, pin
from gpudash.model.process import Process
from gpudash.model.text import clean
from gpudash.system import processes as proc_stat
from tests import waiting
from tests.factories import make_host, make_process

HERE = make_host(hostname=clean(os.uname().nodename))
WAIT_SECONDS = waiting.LIMIT_SECONDS


def shown(pid: int, **overrides: object) -> Process:
    """The process of that PID, with alice's training in its other fields."""
    stat = proc_stat.read_stat(pid)
    times = {"create_time": psutil.Process(pid).create_time(), "start_ticks": stat.start_ticks}
    return make_process(**{"pid": pid, **times, **overrides})


def pinned(pid: int, **overrides: object) -> Target:
    return pin(shown(pid, **overrides), HERE)


def wait_for_end(*targets: Target) -> None:
    waiting.until(lambda: not any(target.alive() for target in targets))
