"""A child that goes on from where we are, which is faster than to start a Python of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NoReturn

from gpudash.model.errors import ExitStatus
from gpudash.system.prctl import end_with_parent


class Forked:
    """A call in a session of its own with pipes, to be handled as a subprocess.Popen is.

    It inherits neither a handler of a signal nor an open file, and ends with us. There must be no
    other thread yet. Raises OSError where the system gives no file or process.
    """

    def __init__(self, call: Callable[[], object]) -> None:
        pipes: list[int] = []
        parent = os.getpid()
        # A handler of ours must not run in the child, and raise there.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            for _ in range(3):
                pipes += os.pipe()
            self.pid = os.fork()
            if self.pid == 0:
                _go_on(call, parent, pipes, held)
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        its_in, into, out, its_out, err, its_err = pipes
        for descriptor in (its_in, its_out, its_err):
            os.close(descriptor)
        self.stdin = os.fdopen(into, "wb", 0)
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(err, "rb", 0)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs.

        0 where nobody can know: the kernel keeps no status where we ignore the end of children.
        """
        if self._status is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                pid, status = self.pid, 0
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def kill(self) -> None:
        """Kill it, if it is alive."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _go_on(
    call: Callable[[], object], parent: int, pipes: Sequence[int], mask: Collection[int]
) -> NoReturn:
    """Be a process of our own on these pipes, and end with the call, loudly if it raises."""
    try:
        os.setsid()
        its_in, _, _, its_out, _, its_err = pipes
        for target, descriptor in enumerate((its_in, its_out, its_err)):
            os.dup2(descriptor, target)
        _close_all_but_standard(pipes)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        end_with_parent(parent)
        call()
    except BaseException:
        from traceback import format_exc

        os.write(2, format_exc().encode(errors="replace"))
        raise
    finally:
        os._exit(ExitStatus.FAILURE)


def _close_all_but_standard(ours: Sequence[int]) -> None:
    """Close what is open, or our own where /proc does not tell what is."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = [*ours]
    for descriptor in found:
        if descriptor > 2:
            # That by which they were listed is closed already.
            with suppress(OSError):
                os.close(descriptor)
