"""What many who look at one host cost it, with and without `gpudash serve`."""

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.benchmarks.calls import counts
from tests.benchmarks.commands import Command, gpudash
from tests.benchmarks.process_tree import ProcessTree
from tests.benchmarks.pseudo_terminal import PseudoTerminal

Figures = dict[str, float]

_START_SECONDS = 12.0
_STAGGER_SECONDS = 0.5


@contextmanager
def service(env: Mapping[str, str]) -> Iterator[tuple[dict[str, str], int]]:
    """Serve samples; yield the environment in which viewers attach, and the server's PID."""
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/gpudash.sock"
        argv = gpudash("serve", "--listen", "127.0.0.1:0", "--socket", socket)
        server = subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL)
        try:
            while not os.path.exists(socket):
                time.sleep(0.01)
            # Its first sample, and the one that gives rates.
            time.sleep(3)
            yield {**env, "GPUDASH_SOCKET": socket}, server.pid
        finally:
            server.kill()
            server.wait()


def measure(
    command: Command,
    count: int,
    env: Mapping[str, str],
    size: tuple[int, int],
    seconds: float,
    *,
    attached: bool,
) -> Figures:
    """Run as many screens and return what all processes cost: calls, CPU, memory."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        env = {**env, "FAKENVML_COUNT": f"{folder}/%p"}
        trees = []
        if attached:
            env, pid = stack.enter_context(service(env))
            trees.append(ProcessTree(pid))
        screens = []
        for _ in range(count):
            screens.append(PseudoTerminal(command.argv, env, size))
            stack.callback(screens[-1].close)
            _watch(screens, _STAGGER_SECONDS)
        trees += [ProcessTree(screen.pid) for screen in screens]
        _watch(screens, _START_SECONDS)
        made, cpu = counts(Path(folder)), [tree.cpu_seconds() for tree in trees]
        start = time.monotonic()
        _watch(screens, seconds)
        passed = time.monotonic() - start
        made = counts(Path(folder)) - made
        used = sum(tree.cpu_seconds() for tree in trees) - sum(cpu)
        return {
            "calls_per_s": sum(n for name, n in made.items() if name.startswith("nvml")) / passed,
            "cpu_percent": 100 * used / passed,
            "viewer_mib": sum(trees[-1].resident_mib()),
        }


def _watch(screens: list[PseudoTerminal], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for screen in screens:
            if not screen.drain(min(end, time.monotonic() + 0.002)):
                raise RuntimeError(f"it has ended: {screen.last!r}")
