"""Real processes that stand for GPU jobs: they sleep, and the stand-in library lists their PIDs."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path


class Holder:
    """A process that does nothing until it is ended."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.pid = self._process.pid
        # Its arguments and environment are there a little after the call that starts it.
        command_line, deadline = Path(f"/proc/{self.pid}/cmdline"), time.monotonic() + 60
        while self.alive and not command_line.read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.001)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        """Kill it and reap it, so that its PID is free."""
        self._process.kill()
        self._process.wait()


Holders = Callable[..., list[Holder]]
"""Starts so many processes of a command line, and ends them with the test."""


def hold(count: int, argv: Sequence[str] = ("sleep", "600")) -> list[Holder]:
    """Start `count` processes of one command line."""
    return [Holder(argv) for _ in range(count)]


def sleep_as(name: str, folder: Path) -> Path:
    """Return a program of that name in a folder, that does what sleep does."""
    return Path(shutil.copy(shutil.which("sleep") or "/bin/sleep", folder / name))


def open_device(command: str = "exec sleep 600") -> list[str]:
    """Return what runs a shell command with a node of the driver open, seen by itself alone."""
    nodes = "/dev/nvidia0 /dev/nvidia-uvm"
    node = f"mount -t tmpfs none /dev && touch {nodes} && exec 9</dev/nvidia0 8</dev/nvidia-uvm"
    return ["unshare", "--mount", "sh", "-c", f"{node} && {command}"]


def pid_list(holders: Iterable[Holder]) -> str:
    """Return their PIDs as the stand-in's PIDS setting wants them."""
    return ",".join(str(holder.pid) for holder in holders)
