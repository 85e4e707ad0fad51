"""A process that dies no more than one that the kernel holds in a system call of a driver.

The signal that kills it arrives, but whoever traces it keeps it just before its end, with all
that it has open.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_TRACER = """
import ctypes, sys

SEIZE, STOP_AT_EXIT = 0x4206, 0x40
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long] * 4
libc.ptrace.restype = ctypes.c_long
failed = libc.ptrace(SEIZE, int(sys.argv[1]), 0, STOP_AT_EXIT)
print(ctypes.get_errno() if failed else 0, flush=True)
sys.stdin.read()
"""


@contextmanager
def undying(pid: int) -> Iterator[None]:
    """Let a process not end within the block; skips where processes may not be traced."""
    with subprocess.Popen(
        [sys.executable, "-S", "-c", _TRACER, str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as tracer:
        failure = int(tracer.stdout.readline() or -1)
        if failure:
            pytest.skip(f"a process may not be traced here (errno {failure})")
        yield
        # Leaving closes its stdin, whereupon it ends, and with it what it holds.
