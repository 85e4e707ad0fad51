from __future__ import annotations

import subprocess
import sys

RESULT = 4000

WAITING = """
import os, signal

from gpudash.actions.kill.signals import find_signal
from gpudash.cli.verbs.kill.waiting import Waiting

waiting = Waiting(find_signal("TERM"))
waiting.obey_ctrl_c()
"""

INTERRUPTED_AT_THE_END = f"""{WAITING}
waiting.sent([])
waiting.end()
os.kill(os.getpid(), signal.SIGINT)
while signal.sigpending():
    os.sched_yield()
for _ in range({RESULT}):
    os.write(1, b".")
os._exit(0)
"""


def test_ctrl_c_does_not_cut_off_a_result_that_is_being_told() -> None:
    argv = [sys.executable, "-c", INTERRUPTED_AT_THE_END]
    run = subprocess.run(argv, capture_output=True, timeout=30)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"." * RESULT, b"")


def test_ctrl_c_ends_a_result_that_nobody_reads() -> None:
    code = INTERRUPTED_AT_THE_END.replace(f"range({RESULT})", "iter(int, 1)")
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.wait(30) == 130


INTERRUPTED_BEFORE = f"""{WAITING}
os.kill(os.getpid(), signal.SIGINT)
while signal.sigpending():
    os.sched_yield()
for _ in range({RESULT}):
    os.write(1, b".")
waiting.sent([])
signal.pause()
"""


def test_ctrl_c_waits_until_all_have_got_their_signal() -> None:
    argv = [sys.executable, "-c", INTERRUPTED_BEFORE]
    run = subprocess.run(argv, capture_output=True, timeout=30)
    assert (run.returncode, run.stdout) == (130, b"." * RESULT)
    assert run.stderr == b"gpudash: SIGTERM reached nobody\n"


CLOSED = """
import os, signal, threading

from gpudash.actions.kill.signals import find_signal
from gpudash.cli.verbs.kill.waiting import Waiting

for is_interrupted in (False, True):
    waiting = Waiting(find_signal("TERM"))
    waiting.obey_ctrl_c()
    waiting.sent([])
    waiting.end()
    if is_interrupted:
        os.kill(os.getpid(), signal.SIGINT)
        while signal.sigpending():
            os.sched_yield()
    waiting.close()
    assert threading.active_count() == 1
try:
    os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt:
    print("left to others")
"""


def test_ctrl_c_is_left_to_others_once_the_result_is_told() -> None:
    ours = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    run = subprocess.run([sys.executable, "-c", ours + CLOSED], capture_output=True, timeout=30)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"left to others\n", b"")
