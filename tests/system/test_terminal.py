import os
import subprocess
import sys


def run(code: str, **pipes: object) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, **pipes)  # type: ignore[call-overload,no-any-return]


def test_all_is_written_however_slow_the_reader() -> None:
    code = "from gpudash.system import terminal as stdout; stdout.write(b'x' * 1_000_000)"
    assert run(code, stdout=subprocess.PIPE).stdout == b"x" * 1_000_000


def test_a_full_disk_is_an_error() -> None:
    code = "from gpudash.system import terminal as stdout; stdout.write(b'x')"
    with open("/dev/full", "wb") as full:
        outcome = run(code, stdout=full)
    assert b"OutputError: the output could not be written: No space left" in outcome.stderr


def test_a_reader_that_left_is_told_by_write_and_by_wait() -> None:
    code = (
        "from gpudash.system import terminal as stdout\n"
        "for act in (lambda: stdout.write(b'x'), lambda: stdout.wait(600)):\n"
        "    try: act()\n"
        "    except stdout.ReaderGoneError: continue\n"
        "    raise SystemExit(1)"
    )
    reading, writing = os.pipe()
    os.close(reading)
    outcome = run(code, stdout=writing)
    os.close(writing)
    assert outcome.returncode == 0, outcome.stderr


def test_a_file_is_no_terminal_and_has_the_default_width() -> None:
    code = (
        "from gpudash.system import terminal as stdout\n"
        "print(stdout.is_terminal(), stdout.width(77))"
    )
    assert run(code, stdout=subprocess.PIPE).stdout == b"False 77\n"
