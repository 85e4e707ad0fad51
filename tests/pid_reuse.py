"""A process that gets the PID of one that ended, as happens on a busy machine."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

# CONFIG_CHECKPOINT_RESTORE and CAP_CHECKPOINT_RESTORE: the next fork takes the number after it.
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_ATTEMPTS = 50


def start_as(pid: int, argv: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start `argv` under a PID that is free; skips the test where that needs more rights."""
    for _ in range(_ATTEMPTS):
        try:
            _LAST_PID.write_text(str(pid - 1))
        except OSError as error:
            pytest.skip(f"a PID can not be chosen here: {_LAST_PID}: {error.strerror}")
        process = subprocess.Popen(argv)
        if process.pid == pid:
            return process
        process.kill()
        process.wait()
    pytest.skip(f"others forked first in {_ATTEMPTS} attempts to reuse a PID")
