"""`gpudash run`: a command on free GPUs that are leased until it ends."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from typing import NoReturn

from gpudash.actions.lease.acquire import Leased, hold_until_exit, lease
from gpudash.actions.lease.choose import require_possible
from gpudash.actions.lease.queue import Waiting, wait_in_queue
from gpudash.actions.lease.request import GpuRequest
from gpudash.cli.options import collector_command
from gpudash.cli.values import span
from gpudash.cli.verbs import Verb
from gpudash.cli.verbs.pick import add_request, gpu_request, value
from gpudash.feed.sampler import Sampler, open_sampler
from gpudash.feed.supervisor import CollectorError
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.text import clean

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash run` takes."""
    add_request(parser)
    waits = parser.add_mutually_exclusive_group().add_argument
    waits("--wait", action="store_true", help="wait for them in a queue with others")
    waits(
        "--no-wait",
        action="store_false",
        dest="wait",
        help="exit with 75 if too few are free (default)",
    )
    text = "with --wait: give up after this time: 2h"
    parser.add_argument("--timeout", type=span, dest="give_up", metavar="T", help=text)
    text = "the command to run"
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- COMMAND", help=text)


def run(options: argparse.Namespace) -> int:
    """Become the command, with the GPUs leased and named in its environment.

    Returns 75 when there are too few; with --wait they are waited for.
    """
    argv = options.argv
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        raise UsageError("gpudash run needs a command: gpudash run -n 2 -- python train.py")
    wait, timeout, window = options.wait, options.give_up, options.window
    if timeout is not None and not wait:
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    collector, request = collector_command(options), gpu_request(options)
    waiting = Waiting(timeout if wait else 0, since=time.monotonic())
    if wait:
        found = _wait(collector, request, window, waiting)
    else:
        with closing(open_sampler(collector, window)) as sampler:
            sampler.fill()
            found = _leased(lease(sampler, request), waiting)
    if found is None:
        return ExitStatus.TOO_FEW_GPUS
    waiting.end()
    return _become(command, found)


def _wait(
    collector: Sequence[str], request: GpuRequest, window: float, waiting: Waiting
) -> Leased | None:
    """Wait in the queue, then for the GPUs; only the first in the queue queries the driver."""
    with closing(open_sampler(collector, 0)) as sampler:
        sampler.fill()
        require_possible(sampler.samples[-1], request)
    with wait_in_queue(waiting) as is_first:
        if not is_first:
            waiting.within_deadline(
                f"{request.count} GPUs wanted, but others are first in the queue"
            )
            return None
        with closing(open_sampler(collector, window)) as sampler:
            sampler.fill()
            while True:
                found = _leased_in_time(sampler, request)
                if isinstance(found, Leased):
                    return found
                if not waiting.within_deadline(found) or not sampler.next_sample_or_retry(
                    waiting.within_deadline
                ):
                    return None


def _leased_in_time(sampler: Sampler, request: GpuRequest) -> Leased | str:
    """Lease GPUs; a driver that is silent or gone meanwhile is one more thing to wait for."""
    try:
        return lease(sampler, request)
    except CollectorError as error:
        return str(error)


def _leased(found: Leased | str, waiting: Waiting) -> Leased | None:
    if isinstance(found, Leased):
        return found
    waiting.within_deadline(found)
    return None


def _become(command: Sequence[str], leased: Leased) -> NoReturn:
    """Replace this process by the command: signals, terminal and status are its own."""
    hold_until_exit(leased)
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


VERB = Verb("run a command on free GPUs, leased until it ends: run -n 2 -- CMD", add_arguments, run)
