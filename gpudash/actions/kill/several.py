"""Several processes at once, such as all that are tagged: each is pinned and answered for alone."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from gpudash.actions.kill.pin import pin
from gpudash.actions.kill.target import Target
from gpudash.model.errors import ActionError
from gpudash.model.process import Process
from gpudash.model.snapshot import Host


class Refusal(NamedTuple):
    """A process to which nothing was sent, and why."""

    process: Process
    reason: str


def pin_all(
    processes: Iterable[Process], host: Host
) -> tuple[tuple[Target, ...], tuple[Refusal, ...]]:
    """Pin those that can be; the targets are closed by the caller."""
    targets: list[Target] = []
    refusals: list[Refusal] = []
    for process in processes:
        try:
            targets.append(pin(process, host))
        except ActionError as error:
            refusals.append(Refusal(process, str(error)))
    return tuple(targets), tuple(refusals)


def send_all(targets: Iterable[Target], signal_number: int) -> tuple[Refusal, ...]:
    """Send a signal to each, and return those that did not get it."""
    refusals: list[Refusal] = []
    for target in targets:
        try:
            target.send(signal_number)
        except ActionError as error:
            refusals.append(Refusal(target.process, str(error)))
    return tuple(refusals)


def wait_all(targets: Iterable[Target], timeout_seconds: float) -> tuple[Target, ...]:
    """Wait until all have ended, so long at most, and return those that have not."""
    deadline = time.monotonic() + timeout_seconds
    waited = ((target, max(0.0, deadline - time.monotonic())) for target in targets)
    return tuple(target for target, seconds in waited if not target.wait(seconds))
