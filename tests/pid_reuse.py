"""A process that gets the PID of one that ended, as happens on a busy machine.

By clone3: /proc/sys/kernel/ns_last_pid would have what other tests start meanwhile reuse PIDs, too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType

import pytest

# A process of one thread, since what clone3 makes without the C library knows nothing of others.
_CLONE = """
import ctypes, os, signal, sys
CLONE3, CLONE_PARENT, SIGCHLD = 435, 0x8000, 17

class Arguments(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls",
        "set_tid", "set_tid_size", "cgroup")]

system = ctypes.PyDLL(None, use_errno=True)

def clone(pid, **how):
    wanted = (ctypes.c_int32 * 1)(pid)
    how = Arguments(set_tid=ctypes.addressof(wanted), set_tid_size=1, **how)
    made = system.syscall(CLONE3, ctypes.byref(how), ctypes.sizeof(how))
    return -ctypes.get_errno() if made < 0 else made
"""

_CLONER = (
    _CLONE
    + """
PR_SET_PDEATHSIG, cloner = 1, os.getpid()
for line in sys.stdin:
    pid = clone(int(line), exit_signal=SIGCHLD)
    if pid == 0:
        # It ends with the cloner, whatever ends that.
        system.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == cloner:
            signal.pause()
        os._exit(0)
    print(pid, flush=True)
    sys.stdin.readline()
    if pid > 0:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, signal.SIGTERM)
            status = os.waitpid(pid, 0)[1]
        print(os.waitstatus_to_exitcode(status), flush=True)
"""
)

_STARTER = (
    _CLONE
    + """
pid = clone(int(sys.argv[1]), flags=CLONE_PARENT)
if pid == 0:
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in range(3):
        os.dup2(nothing, each)
    os.execvp(sys.argv[2], sys.argv[2:])
print(pid, flush=True)
"""
)


class Cloner:
    """Starts innocent processes under PIDs of choice, at once and for sure."""

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
        _require(int(self._ask(pid)), pid)

    def end(self) -> int:
        """End it and return its exit status: -SIGTERM unless somebody else was faster."""
        return int(self._ask("end"))

    def _ask(self, line: object) -> str:
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


class Child:
    """A child of ours that has the PID of an earlier one."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None

    def poll(self) -> int | None:
        return self._wait(os.WNOHANG)

    def wait(self) -> int | None:
        return self._wait(0)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _wait(self, options: int) -> int | None:
        if self._status is None:
            ended, status = os.waitpid(self.pid, options)
            self._status = os.waitstatus_to_exitcode(status) if ended else None
        return self._status

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self.wait()


def start_as(pid: int, argv: Sequence[str]) -> Child:
    """Start `argv` under a PID that is free; skips the test where that needs more rights."""
    starter = (sys.executable, "-S", "-c", _STARTER, str(pid), *argv)
    run = subprocess.run(starter, stdout=subprocess.PIPE, check=True)
    _require(int(run.stdout), pid)
    return Child(pid)


def _require(pid: int, wanted: int) -> None:
    if pid < 0:
        pytest.skip(f"PIDs can not be chosen here: clone3 with set_tid: errno {-pid}")
    assert pid == wanted
