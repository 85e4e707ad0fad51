"""gpudash from Python: only the names in `import gpudash` are public."""

from __future__ import annotations

import os
import signal
import subprocess
from argparse import ArgumentTypeError, Namespace
from collections.abc import Generator, Iterable
from contextlib import closing
from typing import TYPE_CHECKING

from gpudash.cli.options import DEFAULT_TIMEOUT, collector_command
from gpudash.model import wire
from gpudash.model.errors import ExitStatus, GpudashError

if TYPE_CHECKING:
    from gpudash.model.snapshot import Snapshot

Gpus = int | str | Iterable[int | str] | None
"""GPUs: `0`, `"0,2-3"`, or a list of indices, UUID prefixes and PCI bus ids; None for all."""

_WAIT_SECONDS = 1.0
_WINDOW_SECONDS = 2.0


def snapshot(
    demo: str | None = None, gpus: Gpus = None, timeout: float = DEFAULT_TIMEOUT
) -> Snapshot:
    """Return the state of this host's GPUs and their processes, as `gpudash --once --json` does.

    A child reads it: a driver that hangs costs `timeout` seconds of silence, and a GPU that does
    not answer is in the result with that state. `demo` names a simulated host. Raises GpudashError,
    with an `exit_status`, if there is no answer at all.
    """
    command = [*_command(demo, gpus), "--once", "--timeout", f"{timeout:g}"]
    # With this variable, gpudash would show many hosts.
    environ = {name: text for name, text in os.environ.items() if name != "GPUDASH_PROMETHEUS"}
    # Killed if a signal handler raises; one that is just starting ends by its timeout.
    child = subprocess.run(
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if child.stdout:
        return wire.decode(child.stdout)
    raise _error(child.stderr.decode(errors="backslashreplace"), child.returncode)


def stream(
    interval: float = 1.0, demo: str | None = None, gpus: Gpus = None
) -> Generator[Snapshot, None, None]:
    """Yield a snapshot every `interval` seconds, like the lines of `gpudash --json`.

    The collector, a child, ends with the iterator; if it ends or hangs earlier, it is replaced, and
    nothing is yielded meanwhile. Raises GpudashError if it never sends a snapshot.
    """
    from gpudash.feed.sampler import LineStream

    with closing(LineStream(_command(demo, gpus, shared=True), interval, wire.decode)) as lines:
        while True:
            lines.wait(_WAIT_SECONDS)
            for sample in lines.take():
                yield sample.snapshot


def pick(
    count: int = 1,
    min_free: int | str = 0,
    max_util: float = 4.0,
    model: str | None = None,
    linked: bool = False,
    gpus: Gpus = None,
    demo: str | None = None,
) -> tuple[str, ...]:
    """Return the UUIDs of `count` free GPUs, by samples over two seconds as in `gpudash pick`.

    `min_free` is free memory in bytes or as `"20GiB"`, `max_util` a percentage, `model` part of the
    product name; `linked` GPUs are all connected by NVLink. It takes no lease: another program may
    pick the same. Raises GpudashError, `exit_status` 75, if there are too few.
    """
    from gpudash.actions.lease.acquire import own_leases
    from gpudash.actions.lease.choose import choose, require_soon
    from gpudash.actions.lease.request import GpuRequest
    from gpudash.cli.values import size
    from gpudash.feed.sampler import open_sampler

    if count < 1:
        raise ValueError(f"count: {count} is not 1 or more")
    try:
        min_free_bytes = size(min_free) if isinstance(min_free, str) else min_free
    except ArgumentTypeError as error:
        raise ValueError(f"min_free: {error}") from None
    request = GpuRequest(
        count=count,
        min_free_bytes=min_free_bytes,
        max_utilization_percent=max_util,
        model=model,
        linked=linked,
        share=False,
    )
    with closing(open_sampler(_command(demo, gpus), _WINDOW_SECONDS)) as sampler:
        require_soon(sampler, request)
        samples = tuple(sampler.samples)
    choice = choose(samples, request, os.environ, own=own_leases(samples[-1]))
    if not choice.devices:
        shortage = GpudashError(choice.shortage)
        shortage.exit_status = ExitStatus.TOO_FEW_GPUS
        raise shortage
    return tuple(device.uuid or "" for device in choice.devices)


def load(path: str | os.PathLike[str]) -> Generator[Snapshot, None, None]:
    """Yield the snapshots of a recording, oldest first, skipping invalid lines.

    Raises GpudashError if the file is unreadable or has none.
    """
    from gpudash.feed.recording.reader import Recording

    recording = Recording(os.fspath(path))
    yield recording.first.snapshot()
    for sample in recording.after(recording.first):
        yield sample.snapshot()


def _command(demo: str | None, gpus: Gpus, *, shared: bool = False) -> list[str]:
    """Return the command that prints snapshots; with `shared`, maybe those of `gpudash serve`."""
    if isinstance(gpus, Iterable) and not isinstance(gpus, str):
        gpus = ",".join(map(str, gpus))
    chosen = None if gpus is None else str(gpus)
    options = Namespace(
        demo=demo,
        gpu=chosen,
        no_config=False,
        show_secrets=False,
        pcie_throughput=False,
        fresh=False,
    )
    return collector_command(options, shared=shared)


def _error(text: str, status: int) -> GpudashError:
    """Return the error for a child's exit status, negative for a signal."""
    message = text.strip().rpartition("\n")[2].removeprefix("gpudash: ")
    if status < 0:
        message = message or f"the child ended by {signal.Signals(-status).name}"
    error = GpudashError(message or f"the child ended with status {status}")
    error.exit_status = status if status > 0 else 128 - status
    return error
