"""`gpudash --json` as a running process whose lines are read with a deadline."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import psutil

from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import decode
from tests.e2e.forking import GPUDASH, Process, start
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS, until

DEADLINE = LIMIT_SECONDS

NO_VARIABLES: Mapping[str, str] = MappingProxyType({})


class Stream:
    """A running `gpudash --json` whose lines are read with a deadline."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self._pending = b""

    def next(self, timeout: float = DEADLINE) -> Snapshot:
        """Return the next snapshot; AssertionError when none comes in time."""
        deadline = time.monotonic() + timeout
        out = self.process.stdout
        while b"\n" not in self._pending:
            ready, _, _ = select.select([out], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "no line came in time"
            chunk = os.read(out.fileno(), 1 << 16)
            assert chunk, f"the stream ended: {self.process.stderr.read()!r}"
            self._pending += chunk
        line, _, self._pending = self._pending.partition(b"\n")
        return decode(line)

    def has_more(self, timeout: float) -> bool:
        """Whether something comes within `timeout` seconds, or has come already."""
        return bool(self._pending or select.select([self.process.stdout], [], [], timeout)[0])

    def until(self, condition: Callable[[Snapshot], object]) -> Snapshot:
        """Return the first snapshot of which something holds."""
        deadline = time.monotonic() + DEADLINE
        while True:
            snapshot = self.next(deadline - time.monotonic())
            if condition(snapshot):
                return snapshot


@contextmanager
def streaming(
    library: Path,
    *arguments: str,
    stdin: int = subprocess.DEVNULL,
    variables: Mapping[str, str] = NO_VARIABLES,
    **told: object,
) -> Iterator[Stream]:
    process = start(
        [*GPUDASH, "--json", "--interval", "0.1", *arguments],
        {**environment(library, **told), **variables},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Stream(process)
    finally:
        process.kill()
        process.communicate()


def drain(stream: Stream, device: Path, process: psutil.Process) -> None:
    """Read what is printed until the GPUs are let go of and nothing comes any more."""

    def is_drained() -> bool:
        if stream.has_more(0.5):
            stream.next()
            return False
        # One that waits for a CPU may still print.
        return not uses(device, process) and process.status() == psutil.STATUS_SLEEPING

    until(is_drained)


def uses(file: Path, *processes: psutil.Process) -> list[int]:
    """Return which of these processes have a file open."""
    found = []
    for process in processes:
        links: list[Path] = []
        # A process may end and a file be closed at any time, and a pipe has no path.
        with suppress(OSError):
            links = list(Path(f"/proc/{process.pid}/fd").iterdir())
        for link in links:
            with suppress(OSError):
                if os.path.samefile(link, file):
                    found.append(process.pid)
    return found
