"""A child that goes on from where we are, which is faster than to start a Python of its own."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from gpudash.errors import ExitStatus
from gpudash.prctl import end_with_parent, take_name

_GIVEN_UP = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


class Forked:
    """A call in a session of its own with pipes, to be handled as a subprocess.Popen is.

    It reads nothing; it inherits no signal handler and no blocked signal. Call it before there
    are threads, and before anything is open that it should not hold. Raises OSError.
    """

    def __init__(self, call: Callable[[], object], name: str) -> None:
        pipes: list[int] = []
        try:
            pipes += os.pipe()
            pipes += os.pipe()
            self.pid = os.fork()
        except OSError:
            for descriptor in pipes:
                os.close(descriptor)
            raise
        out, its_out, err, its_err = pipes
        if self.pid == 0:
            for descriptor in (out, err):
                os.close(descriptor)
            _go_on(call, name, its_out, its_err)
        for descriptor in (its_out, its_err):
            os.close(descriptor)
        self.stdout, self.stderr = os.fdopen(out, "rb", 0), os.fdopen(err, "rb", 0)
        self._status: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal, None while it runs."""
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._status = os.waitstatus_to_exitcode(status)
        return self._status

    def wait(self, timeout: float) -> int:
        """Return the exit status; raises TimeoutExpired."""
        with suppress(OSError):
            ending = os.pidfd_open(self.pid)
            poll = select.poll()
            poll.register(ending, select.POLLIN)
            poll.poll(timeout * 1000)
            os.close(ending)
        status = self.poll()
        if status is None:
            from subprocess import TimeoutExpired

            raise TimeoutExpired("", timeout)
        return status

    def kill(self) -> None:
        """Kill it, if it is alive."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


def _go_on(call: Callable[[], object], name: str, out: int, err: int) -> NoReturn:
    """Be a process of our own, and end with the call."""
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for descriptor, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(descriptor, target)
            os.close(descriptor)
        for number in _GIVEN_UP:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        end_with_parent()
        take_name(name)
        call()
    finally:
        os._exit(ExitStatus.FAILURE)
