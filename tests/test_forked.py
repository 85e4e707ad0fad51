import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from gpudash.forked import Forked

SECONDS = 10.0


def said(call: Callable[[], object]) -> tuple[bytes, bytes, int]:
    """Return what a call wrote to both its pipes, and how it ended."""
    forked = Forked(call, "collector")
    with forked.stdout, forked.stderr:
        out, err = forked.stdout.read(), forked.stderr.read()
    return out, err, forked.wait(SECONDS)


def test_it_writes_to_pipes_and_ends_with_the_call() -> None:
    def call() -> None:
        os.write(1, b"out")
        os.write(2, b"err")
        os._exit(7)

    assert said(call) == (b"out", b"err", 7)


def test_a_call_that_returns_or_raises_does_not_go_on_as_we() -> None:
    assert said(lambda: None) == (b"", b"", 1)
    assert said(lambda: 1 // 0)[2] == 1


def test_it_has_nothing_of_our_terminal_and_no_signal_is_blocked_or_handled() -> None:
    def call() -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        default = [signal.getsignal(number) is signal.SIG_DFL for number in given]
        name = Path("/proc/self/comm").read_text().strip()
        leads = os.getsid(0) == os.getpid()
        os.write(1, repr((os.read(0, 9), not mask, all(default), name, leads)).encode())

    given = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    before = [signal.signal(number, lambda *_: None) for number in given]
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, given)
    try:
        out, _, _ = said(call)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        for number, handler in zip(given, before, strict=True):
            signal.signal(number, handler)
    assert out == repr((b"", True, True, "collector", True)).encode()


def test_one_that_lives_can_be_waited_for_and_killed() -> None:
    forked = Forked(signal.pause, "collector")
    with forked.stdout, forked.stderr:
        assert forked.poll() is None
        with pytest.raises(TimeoutExpired):
            forked.wait(0.01)
        forked.kill()
        assert forked.wait(SECONDS) == -signal.SIGKILL
        assert forked.poll() == -signal.SIGKILL
        forked.kill()


def test_it_ends_with_us() -> None:
    def parent() -> None:
        # What it inherits of our pipe is open as long as it lives.
        inherited = os.dup(1)
        os.set_inheritable(inherited, True)
        os.write(1, str(Forked(signal.pause, "grandchild").pid).encode())

    out, _, _ = said(parent)
    assert int(out) > 0


def test_without_a_file_to_open_it_leaves_none_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (files + 2, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            Forked(signal.pause, "collector")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(os.listdir("/proc/self/fd")) == files
