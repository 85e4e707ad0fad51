import os
import signal
import subprocess
import sys
import time

from gpudash.system.fork import results


def test_what_calls_return() -> None:
    assert results([lambda: b"one", lambda: b"x" * 1_000_000, lambda: b""], 10) == [
        b"one",
        b"x" * 1_000_000,
        b"",
    ]


def test_one_that_never_returns_is_left_behind() -> None:
    start = time.monotonic()
    answers = results([lambda: b"quick", _for_ever], 0.5)
    assert answers == [b"quick", None]
    assert time.monotonic() - start < 5


def test_one_that_ends_badly() -> None:
    assert results([_fall], 10) == [-signal.SIGKILL]


def test_one_that_cannot_even_begin_does_not_go_on_as_we() -> None:
    code = (
        "import sys; sys.modules['ctypes'] = None\n"
        "from gpudash.system.fork import results\n"
        "try: results([lambda: b''], 10)\n"
        "finally: print('on', flush=True)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert run.stdout == "on\n"
    assert "ctypes" in run.stderr


def _for_ever() -> bytes:
    signal.pause()
    return b"never"


def _fall() -> bytes:
    os.kill(os.getpid(), signal.SIGKILL)
    return b"never"
