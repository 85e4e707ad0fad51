"""`gpudash leases`: which GPUs are leased by `gpudash run`, and whether they are used."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from gpudash.actions.lease.acquire import blocked, require_lock_files
from gpudash.cli.arguments import add_shared
from gpudash.cli.oneshot import write_json
from gpudash.cli.options import collector_command, has_color
from gpudash.cli.verbs import Verb
from gpudash.collect.leases import LeaseTable
from gpudash.feed.sampler import open_sampler
from gpudash.model.errors import ExitStatus
from gpudash.model.snapshot import Snapshot
from gpudash.system import locks, terminal


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what `gpudash leases` takes."""
    add_shared(parser, "json", "gpu", "demo")


def run(options: argparse.Namespace) -> int:
    """Print a line for each lease, or all of them as JSON."""
    with closing(open_sampler(collector_command(options), 0)) as sampler:
        sampler.fill()
        snapshot = sampler.samples[-1]
    if not snapshot.host.simulated:
        require_lock_files(snapshot.devices)
        _report_blocked(snapshot)
    if options.json:
        write_json(snapshot.leases)
    else:
        from gpudash.output.table import render_leases

        text = render_leases(snapshot, width=terminal.width(), color=has_color())
        terminal.write_text(text)
    return ExitStatus.OK


def _report_blocked(snapshot: Snapshot) -> None:
    """Report unleased GPUs that cannot be leased."""
    table = LeaseTable(time.monotonic)
    table.listed = locks.listed()
    found = blocked(snapshot, table)
    for device in snapshot.devices:
        if device.uuid in found:
            terminal.write_message(f"gpudash: GPU {device.index} {found[device.uuid]}\n")


VERB = Verb("list GPUs leased by gpudash run, and whether they are used", add_arguments, run)
