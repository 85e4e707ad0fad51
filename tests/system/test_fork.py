import errno
import gc
import os
import resource
import select
import signal
import subprocess
import sys
import time
from ast import literal_eval
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from gpudash.model.errors import DriverError, GpudashError
from gpudash.system.fork import ForkedProcess, call_isolated, run_isolated

SECONDS = 60.0


def ended(forked: ForkedProcess) -> int:
    deadline = time.monotonic() + SECONDS
    while (status := forked.poll()) is None:
        assert time.monotonic() < deadline
    return status


def said(call: Callable[[], object]) -> tuple[bytes, bytes, int]:
    """Return what a call wrote to both its pipes, and how it ended."""
    forked = ForkedProcess(call)
    with forked.stdin, forked.stdout, forked.stderr:
        out, err = forked.stdout.read(), forked.stderr.read()
    return out, err, ended(forked)


def test_it_writes_to_pipes_and_ends_with_the_call() -> None:
    def call() -> None:
        os.write(1, b"out")
        os.write(2, b"err")
        os._exit(7)

    assert said(call) == (b"out", b"err", 7)


def test_it_reads_what_it_is_given() -> None:
    forked = ForkedProcess(lambda: os.write(1, os.read(0, 9)))
    with forked.stdin, forked.stdout, forked.stderr:
        forked.stdin.write(b"told")
        assert forked.stdout.read() == b"told"
    assert ended(forked) == 1


def test_a_call_that_returns_does_not_go_on_as_we() -> None:
    assert said(lambda: None) == (b"", b"", 1)


def test_a_call_that_raises_says_so() -> None:
    out, err, status = said(lambda: 1 // 0)
    assert (out, status) == (b"", 1)
    assert err.endswith(b"ZeroDivisionError: integer division or modulo by zero\n")


def test_it_has_no_handler_and_no_terminal_of_ours_and_the_signals_that_wait_wait() -> None:
    def call() -> None:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        handlers = [each for each in signal.valid_signals() if callable(signal.getsignal(each))]
        os.write(1, repr((mask, handlers, os.getsid(0) == os.getpid())).encode())

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
    before = [signal.signal(number, lambda *_: None) for number in numbers]
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        out, _, _ = said(call)
        assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert out == repr((masked | {signal.SIGUSR1}, [], True)).encode()


def test_it_has_no_file_of_ours(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        out, _, _ = said(lambda: os.write(1, repr(os.listdir("/proc/self/fd")).encode()))
    # The last one lists them.
    assert sorted(literal_eval(out.decode())) == ["0", "1", "2", "3"]


def test_one_that_lives_can_be_killed() -> None:
    forked = ForkedProcess(signal.pause)
    with forked.stdin, forked.stdout, forked.stderr:
        assert forked.poll() is None
        forked.kill()
        assert ended(forked) == -signal.SIGKILL
        forked.kill()


STRUCK = """
import os, signal

from gpudash.system.fork import ForkedProcess

signal.signal(signal.SIGALRM, lambda *_: os._exit(9))
for microseconds in range(0, 400, 20):
    def begin(seconds=(microseconds + 1) / 1e6):
        signal.setitimer(signal.ITIMER_REAL, seconds)

    os.register_at_fork(after_in_child=begin)
    forked = ForkedProcess(lambda: os._exit(7))
    while (status := forked.poll()) is None:
        os.sched_yield()
    print(status)
"""


def test_no_handler_of_ours_runs_in_it() -> None:
    argv = [sys.executable, "-c", STRUCK]
    run = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    ends = {int(line) for line in run.stdout.split()}
    assert ends <= {7, -signal.SIGALRM}
    assert run.stderr == b""


HELD_UP = """
import os, time

from gpudash.feed.collector import Child
from gpudash.system.fork import ForkedProcess

os.register_at_fork(after_in_child=lambda: time.sleep(60))
forked = ForkedProcess(lambda: None)
Child(forked).abandon()
while (status := forked.poll()) is None:
    os.sched_yield()
print(status)
"""


def test_one_that_leads_no_session_yet_can_be_abandoned() -> None:
    argv = [sys.executable, "-c", HELD_UP]
    run = subprocess.run(argv, capture_output=True, timeout=60, check=True)
    assert int(run.stdout) == -signal.SIGKILL


def test_the_end_is_seen_where_the_ends_of_children_are_ignored() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert said(lambda: os._exit(7)) == (b"", b"", 0)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_it_ends_with_us() -> None:
    def parent() -> None:
        os.write(1, str(ForkedProcess(signal.pause).pid).encode())

    for _ in range(20):
        out, _, _ = said(parent)
        with suppress(ProcessLookupError):
            ending = select.poll()
            with os.fdopen(os.pidfd_open(int(out)), "rb", 0) as descriptor:
                ending.register(descriptor, select.POLLIN)
                assert ending.poll(SECONDS * 1000)


def test_without_a_file_to_open_it_leaves_none_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    gc.collect()
    files = os.listdir("/proc/self/fd")
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 2, before[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            ForkedProcess(signal.pause)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert os.listdir("/proc/self/fd") == files


def test_what_calls_return() -> None:
    assert call_isolated([lambda: b"one", lambda: b"x" * 1_000_000, lambda: b""], SECONDS) == [
        b"one",
        b"x" * 1_000_000,
        b"",
    ]


def test_one_that_never_returns_is_left_behind() -> None:
    for seconds in (0.3, 3, SECONDS):
        answers = call_isolated([lambda: b"quick", _for_ever], seconds)
        if answers[0] is not None:  # else the machine is too busy for that
            break
    assert answers == [b"quick", None]


def test_one_that_ends_badly() -> None:
    assert call_isolated([_fall], SECONDS) == [-signal.SIGKILL]


def test_one_that_cannot_even_begin_does_not_go_on_as_we() -> None:
    code = (
        "import sys; sys.modules['ctypes'] = None\n"
        "from gpudash.system.fork import call_isolated\n"
        "try: call_isolated([lambda: b''], 10)\n"
        "finally: print('on', flush=True)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout == "on\n"
    assert "ctypes" in run.stderr


def _for_ever() -> bytes:
    signal.pause()
    return b"never"


def _fall() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"


def test_who_was_left_before_it_could_ask_ends_at_once() -> None:
    code = (
        "import os; from gpudash.system.fork import end_with_parent; end_with_parent(os.getpid())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60)
    assert (run.returncode, run.stderr) == (-signal.SIGKILL, b"")


def test_one_that_gives_signs_of_life_for_ever_is_left_behind() -> None:
    def busy(alive: Callable[[], None]) -> int:
        while True:
            alive()
            time.sleep(0.01)

    with pytest.raises(DriverError, match=r"no answer in 0\.3 s"):
        run_isolated(busy, SECONDS, total_seconds=0.3)


def test_work_that_has_no_file_to_open_is_reported() -> None:
    def work(alive: Callable[[], None]) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(GpudashError, match="Too many open files"):
        run_isolated(work, 30)
