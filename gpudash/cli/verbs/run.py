"""`gpudash run`: a command on free GPUs that are leased until it ends."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from gpudash.actions.lease.acquire import Leased, Waiting, guard, lease, require_possible, turn
from gpudash.actions.lease.choose import Wish
from gpudash.cli.verbs.pick import value
from gpudash.feed.sampler import Sampler, open_sampler
from gpudash.feed.supervisor import CollectorError
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.text import clean

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def run(
    collector: Sequence[str],
    wish: Wish,
    argv: Sequence[str],
    *,
    window: float,
    wait: bool,
    timeout: float | None,
) -> int:
    """Become the command, with the GPUs leased and named in its environment.

    Returns 75 when there are too few; with `wait` they are waited for, `timeout` seconds at most.
    """
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        raise UsageError("gpudash run needs a command: gpudash run -n 2 -- python train.py")
    waiting = Waiting(timeout if wait else 0, since=time.monotonic())
    if wait:
        found = _wait(collector, wish, window, waiting)
    else:
        with closing(open_sampler(collector, window)) as sampler:
            sampler.fill()
            found = _leased(lease(sampler, wish), waiting)
    if found is None:
        return ExitStatus.TOO_FEW_GPUS
    waiting.end()
    return _become(command, found)


def _wait(collector: Sequence[str], wish: Wish, window: float, waiting: Waiting) -> Leased | None:
    """Wait for a turn, then for the GPUs; only who is first in line asks the driver."""
    with closing(open_sampler(collector, 0)) as glance:
        glance.fill()
        require_possible(glance.samples[-1], wish)
    with turn(waiting) as is_first:
        if not is_first:
            waiting.goes_on(f"{wish.count} GPUs wanted, and others were first in line")
            return None
        with closing(open_sampler(collector, window)) as sampler:
            sampler.fill()
            while True:
                found = _leased_in_time(sampler, wish)
                if isinstance(found, Leased):
                    return found
                if not waiting.goes_on(found) or not sampler.next_sample_or_retry(waiting.goes_on):
                    return None


def _leased_in_time(sampler: Sampler, wish: Wish) -> Leased | str:
    """Lease GPUs; a driver that is silent or gone meanwhile is one more thing to wait for."""
    try:
        return lease(sampler, wish)
    except CollectorError as error:
        return str(error)


def _leased(found: Leased | str, waiting: Waiting) -> Leased | None:
    if isinstance(found, Leased):
        return found
    waiting.goes_on(found)
    return None


def _become(command: Sequence[str], leased: Leased) -> NoReturn:
    """Put the command in the place of this process: signals, terminal and status are its own."""
    guard(leased)
    for descriptor in leased.descriptors:
        os.set_inheritable(descriptor, True)
    named = value(leased.devices)
    environ = {
        **os.environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": named,
        "GPUDASH_LEASE": named,
    }
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environ)
    except OSError as error:
        failure = GpudashError(f"{clean(command[0])}: {error.strerror}")
        missing = isinstance(error, FileNotFoundError)
        failure.exit_status = _NOT_FOUND if missing else _NOT_EXECUTABLE
        raise failure from None
