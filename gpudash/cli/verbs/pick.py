"""`gpudash pick`: the GPUs that are free, as a value for CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import closing
from typing import Literal

from gpudash.actions.lease.acquire import Waiting, require_possible
from gpudash.actions.lease.choose import Wish, choose
from gpudash.feed.sampler import open_sampler
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus
from gpudash.model.snapshot import Snapshot
from gpudash.system import terminal as stdout
from gpudash.system.process_tree import ancestor_pids

Format = Literal["uuid", "index"]


def run(
    collector: Sequence[str],
    wish: Wish,
    *,
    window: float,
    format: Format,
    wait: bool = False,
    timeout: float | None = None,
) -> int:
    """Print GPUs that fit the wish, nothing and exit status 75 when there are too few.

    With `wait` that is told while they are waited for, `timeout` seconds at most.
    """
    waiting = Waiting(timeout if wait else 0, since=time.monotonic())
    lineage = {os.getpid(), *ancestor_pids(os.getpid())}
    with closing(open_sampler(collector, window)) as sampler:
        sampler.fill()
        while True:
            samples = tuple(sampler.samples)
            choice = choose(samples, wish, os.environ, own=_own(samples[-1], lineage))
            if choice.devices:
                waiting.end()
                stdout.write(f"{value(choice.devices, format)}\n".encode())
                return ExitStatus.OK
            if wait:
                require_possible(sampler.samples[-1], wish)
            if not waiting.goes_on(choice.lack) or not sampler.next_sample_or_retry(
                waiting.goes_on
            ):
                return ExitStatus.TOO_FEW_GPUS


def _own(now: Snapshot, lineage: Collection[int]) -> set[str]:
    """Return the GPUs that are leased for what asks: `gpudash run` is an ancestor of it."""
    return {lease.uuid for lease in now.leases if lease.pid in lineage}


def value(devices: Sequence[Device], format: Format = "uuid") -> str:
    """Return a value for CUDA_VISIBLE_DEVICES."""
    if format == "uuid" or any(device.is_mig for device in devices):
        return ",".join(device.uuid or "" for device in devices)
    return ",".join(str(device.index) for device in devices)
