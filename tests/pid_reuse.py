"""A process that gets the PID of one that ended, as happens on a busy machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import pytest

# CONFIG_CHECKPOINT_RESTORE and CAP_CHECKPOINT_RESTORE: the next fork takes the number after it.
_LAST_PID = Path("/proc/sys/kernel/ns_last_pid")
_ATTEMPTS = 50

# A process of one thread, since what clone3 makes without the C library knows nothing of others.
_CLONER = """
import ctypes, os, signal, sys, time
CLONE3, SIGCHLD = 435, 17

class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls",
        "set_tid", "set_tid_size", "cgroup")]

system = ctypes.PyDLL(None, use_errno=True)
for line in sys.stdin:
    wanted = (ctypes.c_int32 * 1)(int(line))
    how = Arguments(exit_signal=SIGCHLD, set_tid=ctypes.addressof(wanted), set_tid_size=1)
    pid = system.syscall(CLONE3, ctypes.byref(how), ctypes.sizeof(how))
    if pid == 0:
        signal.pause()
        os._exit(0)
    print(pid if pid > 0 else -ctypes.get_errno(), flush=True)
    sys.stdin.readline()
    if pid > 0:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, signal.SIGTERM)
            status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Cloner:
    """Starts innocent processes under PIDs of choice by clone3, at once and for sure."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            (sys.executable, "-c", _CLONER),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def start(self, pid: int) -> None:
        """Start one under a PID that is free; skips the test where that needs more rights."""
        answer = int(self._ask(pid))
        if answer < 0:
            pytest.skip(f"PIDs can not be chosen here: clone3 with set_tid: errno {-answer}")
        assert answer == pid

    def end(self) -> int:
        """End it and return its exit status: -SIGTERM unless somebody else was faster."""
        return int(self._ask("end"))

    def _ask(self, line: object) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        return self._process.stdout.readline()

    def __enter__(self) -> Cloner:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.kill()


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
