"""A system that gives no more files, processes or threads: one line at the start, no end later."""

import os
import re
import resource
import signal
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from gpudash.model.wire import decode, encode
from tests.e2e.forking import GPUDASH, run
from tests.e2e.run import complete
from tests.e2e.screen import the_collector, watching
from tests.e2e.stream import streaming
from tests.e2e.terminal import Terminal
from tests.e2e.unprivileged import Unprivileged
from tests.factories import make_process, make_snapshot
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS

REFUSED = "gpudash: out of system resources: {}; ulimit -a shows the limits"


def swept(value: int) -> ParameterSet:
    """Return a parameter of the long sweep alone."""
    return pytest.param(value, marks=pytest.mark.sweep)


def limited(limit: str, argv: Sequence[str]) -> list[str]:
    """Return a command under a limit of the shell's ulimit."""
    return ["bash", "-c", f'ulimit {limit} && exec "$@"', "bash", *argv]


def has_begun(terminal: Terminal) -> bool:
    """Whether the screen is shown, or has ended."""
    return terminal.exit_status is not None or "quit" in terminal.text


def test_without_files_to_open_it_ends_with_one_line(fakenvml: Path) -> None:
    done = run(limited("-n 6", [*GPUDASH, "doctor"]), environment(fakenvml, DEVICES=2))
    assert (done.returncode, done.stdout) == (71, "")
    assert done.stderr.startswith(REFUSED.format("Too many open files"))
    assert done.stderr.count("\n") == 1


_WITH_LITTLE_MEMORY = """
import resource, sys
import gpudash.feed.recording, gpudash.model.wire
from gpudash.cli import main
pages = int(open("/proc/self/statm").read().split()[0])
least = pages * resource.getpagesize() + (16 << 20)
resource.setrlimit(resource.RLIMIT_AS, (least, least))
main(sys.argv[1:])
"""


def test_without_memory_it_ends_with_one_line(tmp_path: Path) -> None:
    recording = tmp_path / "large.jsonl"
    document = encode(make_snapshot(1, processes=(make_process(),) * 28_000))
    recording.write_bytes(document + b"\n")
    words = "--once", "--json", "--replay", str(recording)
    done = run([sys.executable, "-c", _WITH_LITTLE_MEMORY, *words], os.environ)
    assert (done.returncode, done.stdout) == (71, "")
    assert done.stderr.startswith(REFUSED.format("Cannot allocate memory"))
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["pick", "record {}/a"])
@pytest.mark.parametrize("files", [6, swept(7), swept(8)])
def test_collector_without_files_to_open_ends_with_one_line(
    fakenvml: Path, tmp_path: Path, command: str, files: int
) -> None:
    argv = limited(f"-n {files}", [*GPUDASH, *command.format(tmp_path).split()])
    done = run(argv, environment(fakenvml, DEVICES=2))
    assert done.returncode == 71
    assert done.stderr.startswith(REFUSED.format("Too many open files"))
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("files", [6, swept(7), swept(8), swept(9), swept(10)])
def test_screen_with_few_files_to_open_ends_with_one_line_or_can_be_left(
    fakenvml: Path, files: int
) -> None:
    argv = limited(f"-n {files}", [*GPUDASH, "--no-config"])
    with Terminal(argv, env=environment(fakenvml, DEVICES=2), columns=140) as terminal:
        terminal.wait_until(partial(has_begun, terminal))
        terminal.send("q")
        status = terminal.wait_exit()
        # Python itself may fail in the collector, whose status is then 1.
        assert status in (0, 1, 71)
        # A first picture may have stood before.
        assert terminal.text.strip().startswith("gpudash: ") == (status != 0)
        assert terminal.modes == {7, 25}
        assert "Traceback" not in terminal.text


def test_view_that_cannot_be_opened_ends_the_screen_with_one_line(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2, size=(140, 30)) as terminal:
        terminal.wait_until(lambda: 1000 in terminal.modes)
        terminal.wait_for("every")
        resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE, (3, 3))
        terminal.send("d")
        assert terminal.wait_exit() == 71
        assert terminal.modes == {7, 25}
        assert REFUSED.format("Too many open files") in terminal.text
        assert "Traceback" not in terminal.text


def test_screen_waits_for_files_to_open_and_goes_on(fakenvml: Path) -> None:
    with watching(fakenvml, DEVICES=2, size=(140, 30)) as terminal:
        terminal.wait_until(lambda: 1000 in terminal.modes)
        terminal.wait_for(re.compile("LOAD|every"))
        terminal.settle(0.1)
        first = the_collector(terminal)
        before = resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        first.kill()
        terminal.wait_for("NO COLLECTOR")
        terminal.wait_for("Too many open files")
        assert "A100" in terminal.text
        resource.prlimit(terminal.pid, resource.RLIMIT_NOFILE, before)
        terminal.wait_for(lambda text: "NO COLLECTOR" not in text and "too many" not in text)
        assert terminal.quit() == 0


def test_stream_goes_on_without_files_to_open(fakenvml: Path) -> None:
    pids = os.getpid()
    with streaming(fakenvml, DEVICES=2, PROCS_PER_DEVICE=1, PIDS=pids) as stream:
        # What is loaded in the second tick is there by then.
        for _ in range(12):
            assert stream.next().processes[0].name
        before = resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        for _ in range(12):
            starved = stream.next()
            assert all(complete(device) for device in starved.devices)
            assert starved.processes[0].used_gpu_memory_bytes
            assert starved.processes[0].hidden_reason in (None, "not shown by /proc")
        resource.prlimit(stream.process.pid, resource.RLIMIT_NOFILE, before)
        stream.until(lambda snapshot: snapshot.processes[0].name)
        stream.process.send_signal(signal.SIGTERM)
        _, errors = stream.process.communicate(timeout=LIMIT_SECONDS)
        assert errors == b""


def nobodys(processes: int) -> str:
    """Return the limit under which nobody may start so many processes or threads more."""
    return f"-u {1 + processes}"


@pytest.mark.parametrize("command", [["--once", "--json"], ["doctor"]])
def test_without_a_process_to_start_it_ends_with_one_line(
    nobody: Unprivileged, command: list[str]
) -> None:
    run = nobody.run(*command, before=limited(nobodys(0), ()))
    assert run.returncode == 71
    assert run.stderr.startswith(REFUSED.format("Resource temporarily unavailable"))
    assert run.stderr.count("\n") == 1


def test_without_a_thread_to_start_it_looks_on_the_one_it_has(nobody: Unprivileged) -> None:
    run = nobody.run("--once", "--json", before=limited(nobodys(1), ()))
    assert (run.returncode, run.stderr) == (0, "")
    assert [complete(device) for device in decode(run.stdout.encode()).devices] == [True, True]


@pytest.mark.parametrize("command", [["--no-config"], ["replay"]])
def test_screen_without_a_thread_to_start_ends_with_one_line_or_can_be_left(
    nobody: Unprivileged, tmp_path: Path, command: list[str]
) -> None:
    if command == ["replay"]:
        recording = nobody.folder / "host.jsonl"
        recording.write_bytes(encode(make_snapshot(1)) + b"\n")
        command = ["replay", str(recording)]
    statuses: list[int] = []
    # One thread more each time, until there are enough.
    while 0 not in statuses:
        nobody.wait_until_alone()
        argv = limited(nobodys(len(statuses) + 1), [*nobody.argv, *command])
        with Terminal(argv, env=nobody.env, columns=140) as terminal:
            terminal.wait_until(partial(has_begun, terminal))
            terminal.send("q")
            statuses.append(terminal.wait_exit())
            line = REFUSED.format("Resource temporarily unavailable")
            assert terminal.text.strip().startswith(line) == (statuses[-1] == 71)
            assert terminal.modes == {7, 25}
            assert "Traceback" not in terminal.text
    assert set(statuses) == {0, 71}
