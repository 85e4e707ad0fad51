"""Signals that end a command, wherever its code is when they arrive."""

import signal
import subprocess
import sys

CODE = """
import os, signal, sys, time, weakref
from gpudash.cli.signals import exit_on_signals

class Module:
    pass

exit_on_signals()
try:
    lock = Module()
    # As each import has one, in which Python drops what is raised.
    seen = weakref.ref(lock, lambda _: os.kill(os.getpid(), signal.SIGHUP))
    del lock
    time.sleep(60)
finally:
    print("closed", flush=True)
"""


def test_a_signal_within_a_callback_that_drops_errors_ends_a_command_all_the_same() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + signal.SIGHUP, "closed\n", "")
