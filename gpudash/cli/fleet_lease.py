"""`pick` and `run` over many hosts: those with free GPUs, and a lease taken there.

GPUs are free by the same rules as on this host. Between `pick` and a later start, another user may
take the same; `run` cannot lose that race, since the lease is taken on the host itself.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gpudash.actions.lease.choose import choose
from gpudash.actions.lease.request import NONE, GpuRequest
from gpudash.cli.options import settings
from gpudash.cli.values import visible_devices
from gpudash.feed.sampler import sampling
from gpudash.feed.supervisor import Limits, Supervisor, wait
from gpudash.fleet import ssh
from gpudash.fleet.ssh_source import hosts_of
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus
from gpudash.model.snapshot import Snapshot
from gpudash.system import terminal

_ANSWER_SECONDS, _MAX_WAIT_SECONDS = 15.0, 1.0
# A 75 of the command itself must not start it again on another host.
_ONCE = '"$@"; s=$?; [ "$s" -eq 75 ] && exit 1; exit "$s"'


class Offer(NamedTuple):
    """Free GPUs of a host."""

    host: str
    devices: Sequence[Device]
    left: int
    """How many more are free there."""


def offers(options: argparse.Namespace, request: GpuRequest) -> list[Offer]:
    """Return the hosts that have the GPUs, those with the fewest other free ones first.

    That keeps whole hosts for users who need them. Why the others have none is printed to stderr.
    """
    found: list[Offer] = []
    answers = list(_ask(options))
    for asked in answers:
        now = asked.samples[-1] if asked.samples else None
        if now is None:
            why = asked.why
        else:
            choice = choose(tuple(asked.samples), request, NONE)
            if choice.devices:
                found.append(Offer(asked.host, choice.devices, choice.fit - request.count))
                continue
            # Holders of GPUs on many hosts would fill a page: ask one host for its own.
            why = choice.shortage if len(answers) == 1 else choice.shortage.partition(": ")[0]
        terminal.write_message(f"gpudash: {asked.host}: {why}\n")
    return sorted(found, key=lambda offer: offer.left)


def print_offers(options: argparse.Namespace, request: GpuRequest) -> int:
    """Print a line per host with its GPUs, the best first; return 75 if there is none."""
    found = offers(options, request)
    for offer in found:
        terminal.write_text(f"{offer.host} {visible_devices(offer.devices, options.names)}\n")
    return ExitStatus.OK if found else ExitStatus.TOO_FEW_GPUS


def run_there(
    options: argparse.Namespace, request: GpuRequest, words: Sequence[str], command: Sequence[str]
) -> int:
    """Run a command on the best host that still has the GPUs, and return its status.

    `words` are the options of `gpudash run` there.
    """
    is_terminal = os.isatty(0) and os.isatty(1)
    path = settings(options).fleet.remote
    for offer in offers(options, request):
        argv = ssh.gpudash_command(
            offer.host,
            *("run", *words, "--", "sh", "-c", _ONCE, "sh", *command),
            config=options.ssh_config,
            gpudash=path,
            terminal=is_terminal,
        )
        terminal.write_message(f"gpudash: running on {offer.host}\n")
        status = subprocess.call(argv)
        if status != ExitStatus.TOO_FEW_GPUS:
            return status if status >= 0 else 128 - status
    return ExitStatus.TOO_FEW_GPUS


class _Asked(Supervisor[Snapshot]):
    """A host, and its answers so far."""

    def __init__(self, host: str, argv: Sequence[str], interval: float, keep: int) -> None:
        limits = Limits(retry=_ANSWER_SECONDS)
        super().__init__(argv, interval, ssh.decode_line, limits=limits)
        self.host = host
        self.samples: deque[Snapshot] = deque(maxlen=keep)
        self.why = f"no answer within {_ANSWER_SECONDS:.0f} s"
        self.is_over = False

    def take(self) -> None:
        """Read what has arrived; finish after enough samples, an error or the time limit."""
        self.samples.extend(each.snapshot for each in self.advance())
        if self.failure is not None and not self.is_running:
            self.why = str(self.failure)
            self.samples.clear()
            self.is_over = True
        late = time.monotonic() - self.started_at > _ANSWER_SECONDS
        self.is_over |= late or len(self.samples) == self.samples.maxlen
        if self.is_over:
            self.close()


def _ask(options: argparse.Namespace) -> Iterator[_Asked]:
    """Yield every host with its samples, or why there are none, in the given order."""
    known = settings(options).fleet
    interval, keep = sampling(options.window)
    asked = []
    for host in hosts_of(options, known):
        argv = ssh.stream_command(host, config=options.ssh_config, gpudash=known.remote, fresh=True)
        asked.append(_Asked(host, argv, interval, keep))
    new, started = deque(asked), list[_Asked]()
    try:
        while new or started:
            connecting = sum(not each.samples for each in started)
            while new and connecting < ssh.HANDSHAKES:
                started.append(new.popleft())
                started[-1].start()
                connecting += 1
            seconds = min([_MAX_WAIT_SECONDS, *(each.due_in() for each in started)])
            wait(seconds, *(each.descriptor for each in started))
            for each in started:
                each.take()
            started = [each for each in started if not each.is_over]
    finally:
        for each in asked:
            each.close()
    yield from asked
