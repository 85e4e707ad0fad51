"""`gpudash pick`: free GPUs, as a value for CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import closing

from gpudash.actions.lease.acquire import own_leases
from gpudash.actions.lease.choose import choose, require_soon
from gpudash.actions.lease.queue import Waiting
from gpudash.actions.lease.request import DEFAULT_MAX_UTILIZATION, GpuRequest
from gpudash.cli.arguments import add_shared
from gpudash.cli.options import collector_command, refuse
from gpudash.cli.values import count, percentage, size, visible_devices, window
from gpudash.cli.verbs import Verb
from gpudash.feed.sampler import open_sampler
from gpudash.model.errors import ExitStatus
from gpudash.system import terminal

_MAX_GPUS = 1024


def add_request(parser: argparse.ArgumentParser) -> None:
    """Declare the request for GPUs, common to `pick`, `wait` and `run`."""
    add = parser.add_argument
    add("-n", "--count", type=count(_MAX_GPUS), default=1, metavar="N", help="number of GPUs (1)")
    add(
        "--min-free",
        type=size,
        default=0,
        metavar="SIZE",
        help="minimum free memory of each: 20GiB",
    )
    add(
        "--max-util",
        type=percentage,
        default=DEFAULT_MAX_UTILIZATION,
        metavar="P",
        help=f"maximum utilization in percent ({DEFAULT_MAX_UTILIZATION:g})",
    )
    add("--model", metavar="TEXT", help="part of the product name: H100")
    add("--linked", action="store_true", help="only GPUs that are all connected by NVLink")
    add("--share", action="store_true", help="also GPUs on which others compute")
    text = "time over which utilization is measured (2s)"
    add("--for", type=window, default=2.0, dest="window", metavar="T", help=text)
    add_shared(parser, "gpu")


def gpu_request(options: argparse.Namespace) -> GpuRequest:
    """Return the requested GPUs."""
    return GpuRequest(
        count=options.count,
        min_free_bytes=options.min_free,
        max_utilization_percent=options.max_util,
        model=options.model,
        linked=options.linked,
        share=options.share,
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Declare the choice on this host and its output, common to `pick` and `wait`."""
    add_request(parser)
    formats = ("uuid", "index")
    parser.add_argument(
        "--format",
        choices=formats,
        default="uuid",
        dest="names",
        help="print UUIDs or indices (uuid)",
    )
    add_shared(parser, "demo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash pick` takes."""
    add_choice(parser)
    add_hosts(parser)


def add_hosts(parser: argparse.ArgumentParser) -> None:
    """Declare other hosts in place of this one, common to `pick` and `run`."""
    add_shared(parser, "host", "hosts-file", "ssh-config")


def has_hosts(options: argparse.Namespace) -> bool:
    """Whether to ask other hosts; raises UsageError for options about this one."""
    if options.host is None and options.hosts_file is None:
        return False
    refuse(options, ("gpu", "demo", "wait"), "--host")
    return True


def run(options: argparse.Namespace) -> int:
    """Print GPUs that meet the request; 75 and nothing on stdout if there are too few."""
    if has_hosts(options):
        from gpudash.cli.fleet_lease import print_offers

        return print_offers(options, gpu_request(options))
    return print_free(options, timeout=0)


def print_free(options: argparse.Namespace, *, timeout: float | None) -> int:
    """Print GPUs that meet the request, waiting for `timeout` seconds (None: forever).

    Raises GpudashError for a request that can never be met.
    """
    request, waiting = gpu_request(options), Waiting(timeout, since=time.monotonic())
    with closing(open_sampler(collector_command(options), options.window)) as sampler:
        require_soon(sampler, request)
        while True:
            samples = tuple(sampler.samples)
            choice = choose(samples, request, os.environ, own=own_leases(samples[-1]))
            if choice.devices:
                waiting.end()
                terminal.write_text(f"{visible_devices(choice.devices, options.names)}\n")
                return ExitStatus.OK
            if not waiting.within_deadline(choice.shortage) or not sampler.next_sample_or_retry(
                waiting.within_deadline
            ):
                return ExitStatus.TOO_FEW_GPUS


VERB = Verb(
    "print free GPUs: CUDA_VISIBLE_DEVICES=$(gpudash pick)",
    add_arguments,
    run,
    "With --host, a line for each host that has them: its name and the GPUs, first the host with "
    "the fewest others free. It takes no lease: another may take the same; gpudash run --host "
    "takes one on the host.",
)
