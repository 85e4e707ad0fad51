import signal
import subprocess
import sys


def test_who_was_left_before_it_could_ask_ends_at_once() -> None:
    code = (
        "import os; from gpudash.system.fork import end_with_parent; end_with_parent(os.getpid())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30)
    assert (run.returncode, run.stderr) == (-signal.SIGKILL, b"")
