import subprocess
import sys

DEFERRED = """
import os, signal

from gpudash.cli.kill import ctrl_c_deferred

signal.signal(signal.SIGINT, signal.default_int_handler)


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


"""


def run(code: str) -> tuple[int, bytes, bytes]:
    argv = [sys.executable, "-c", DEFERRED + code]
    done = subprocess.run(argv, capture_output=True, timeout=120)
    return done.returncode, done.stdout, done.stderr


def test_ctrl_c_waits_until_all_is_sent_and_counts_in_the_pause() -> None:
    code = """
with ctrl_c_deferred() as pause:
    pause(0)
    interrupt()
    print("all is sent")
    try:
        pause(60)
    except KeyboardInterrupt:
        print("what was sent is reported")
"""
    assert run(code) == (0, b"all is sent\nwhat was sent is reported\n", b"")


def test_ctrl_c_neither_cuts_off_a_result_nor_outlives_it() -> None:
    code = """
with ctrl_c_deferred() as pause:
    interrupt()
    print("result")
try:
    print("after it")
    interrupt()
except KeyboardInterrupt:
    print("left to others")
"""
    assert run(code) == (0, b"result\nafter it\nleft to others\n", b"")


def test_ctrl_c_ends_the_wait_for_a_reader_that_takes_no_result() -> None:
    code = """
from gpudash.cli.kill import wait_for_reader

reader, writer = os.pipe()
os.set_blocking(writer, False)
try:
    while True:
        os.write(writer, bytes(4096))
except BlockingIOError:
    stdout = os.dup(1)
    os.dup2(writer, 1)
with ctrl_c_deferred() as pause:
    interrupt()
    try:
        wait_for_reader(pause)
    except KeyboardInterrupt:
        os.write(stdout, b"interrupted")
"""
    assert run(code) == (0, b"interrupted", b"")


def test_an_ignored_ctrl_c_stays_ignored() -> None:
    code = """
signal.signal(signal.SIGINT, signal.SIG_IGN)
with ctrl_c_deferred() as pause:
    interrupt()
    pause(0.01)
print("done")
"""
    assert run(code) == (0, b"done\n", b"")
