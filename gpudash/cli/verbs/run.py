"""`gpudash run`: a command on free GPUs that are leased until it ends."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import NoReturn

from gpudash.actions.lease.acquire import Leased, hold_until_exit, lease
from gpudash.actions.lease.choose import choose, require_soon
from gpudash.actions.lease.queue import (
    TIMING,
    Timing,
    Waiting,
    kept_for_others,
    lease_when_free,
)
from gpudash.cli.arguments import add_shared
from gpudash.cli.options import collector_command
from gpudash.cli.values import span, visible_devices
from gpudash.cli.verbs import Verb
from gpudash.cli.verbs.pick import add_hosts, add_request, gpu_request, has_hosts
from gpudash.feed.sampler import open_sampler
from gpudash.fleet.sources import DEMO_OF_ONE
from gpudash.model.errors import ExitStatus, GpudashError, UsageError
from gpudash.model.text import clean
from gpudash.system import terminal

_NOT_EXECUTABLE, _NOT_FOUND = 126, 127


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash run` takes."""
    add_request(parser)
    text = (
        "wait for them, first come, first served: after 10 minutes what becomes free is kept for "
        "the first in line; otherwise exit with 75 if too few are free"
    )
    parser.add_argument("--wait", action="store_true", help=text)
    text = "with --wait: give up after this time: 2h"
    parser.add_argument("--timeout", type=span, dest="give_up", metavar="T", help=text)
    add_hosts(parser)
    add_shared(parser, "demo", demo=f"{DEMO_OF_ONE}, whose GPUs need no lease")
    text = "the command to run, and its arguments"
    parser.add_argument("argv", nargs=argparse.REMAINDER, metavar="COMMAND", help=text)
    parser.usage = "gpudash run [options] -- COMMAND ..."


def run(options: argparse.Namespace, timing: Timing = TIMING) -> int:
    """Become the command, with the GPUs leased and given in its environment.

    Return 75 if there are too few; with --wait, wait for them.
    """
    argv = options.argv
    command = list(argv[1:] if argv[:1] == ["--"] else argv)
    if not command:
        raise UsageError("gpudash run needs a command: gpudash run -n 2 -- python train.py")
    wait, timeout, window = options.wait, options.give_up, options.window
    if timeout is not None and not wait:
        raise UsageError("--timeout goes with --wait: without it nothing is waited for")
    if wait and options.demo is not None:
        raise UsageError("--wait does not go with --demo: simulated GPUs are not waited for")
    if has_hosts(options):
        from gpudash.cli.fleet_lease import run_there

        return run_there(options, gpu_request(options), _words(options), command)
    request, waiting = gpu_request(options), Waiting(timeout, since=time.monotonic())
    sampling = partial(open_sampler, collector_command(options), window)
    found: Leased | str | None
    if wait:
        found = lease_when_free(sampling, request, waiting, timing)
    else:
        with closing(sampling()) as sampler:
            require_soon(sampler, request)
            if options.demo is None:
                found = lease(sampler, request, kept_for_others(sampler.samples[-1], timing))
            else:
                choice = choose(tuple(sampler.samples), request, os.environ)
                found = choice.shortage or Leased(choice.devices, ())
        if isinstance(found, str):
            terminal.write_message(f"gpudash: {found}\n")
    if not isinstance(found, Leased):
        return ExitStatus.TOO_FEW_GPUS
    waiting.end()
    return _become(command, found)


def _words(options: argparse.Namespace) -> list[str]:
    """Return the options of the same request for another host."""
    words = ["-n", str(options.count), "--min-free", f"{options.min_free >> 20}MiB"]
    words += ["--max-util", f"{options.max_util:g}", "--for", f"{options.window:g}s"]
    if options.model is not None:
        words += [f"--model={options.model}"]
    return words + [f"--{name}" for name in ("linked", "share") if getattr(options, name)]


def _become(command: Sequence[str], leased: Leased) -> NoReturn:
    """Replace this process by the command: signals, terminal and status are its own."""
    hold_until_exit(leased)
    for descriptor in leased.descriptors:
        os.set_inheritable(descriptor, True)
    named = visible_devices(leased.devices)
    environ = {
        **os.environ,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": named,
        "GPUDASH_LEASE": named,
    }
    # Python ignores both, and the command would inherit that.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], list(command), environ)
    except OSError as error:
        failure = GpudashError(f"{clean(command[0])}: {error.strerror}")
        missing = isinstance(error, FileNotFoundError)
        failure.exit_status = _NOT_FOUND if missing else _NOT_EXECUTABLE
        raise failure from None


VERB = Verb(
    "run a command on free GPUs, leased until it ends: run -n 2 -- CMD",
    add_arguments,
    run,
    "With --wait, no GPU stays idle that another command can use before the first in line has "
    "waited for 10 minutes; what becomes free is then kept for it until it has enough. "
    "With --host it runs on the first host that has them, in its home folder; the lease is taken "
    "there, and where another was faster (75) the next host is tried. A command that itself exits "
    "with 75 is reported as 1.",
)
