"""Runs gpudash as the fork of a process that has loaded it: loading is most of what a run costs.

How it starts by itself is asserted where a shell, or another command, starts it.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import IO, Any

from tests.fakenvml.build import LIBRARY
from tests.waiting import LIMIT_SECONDS

GPUDASH = (sys.executable, "-m", "gpudash")
_AT_START = {"LD_PRELOAD", "PYTHONPROFILEIMPORTTIME"}
"""Variables that count when a process starts: one with them is no fork."""
MARK = "GPUDASH_TEST_TERMINAL"
"""Environment variable by which every process of a terminal is found again, orphans too."""
_MARK_LENGTH = 32

_FORKS = f"""
import ctypes, fcntl, gc, json, os, select, socket, sys, termios, time
import gpudash.actions.lease.acquire, gpudash.actions.lease.queue
import gpudash.analysis.health.engine, gpudash.cli.oneshot, gpudash.cli.query, gpudash.cli.smi
import gpudash.cli.arguments, gpudash.cli.modes, gpudash.cli.parser, gpudash.cli.smi_verbs
import gpudash.cli.fleet, gpudash.cli.preframe, gpudash.cli.stream, gpudash.cli.watch
import gpudash.collect.holders, gpudash.collect.host, gpudash.collect.local
import gpudash.doctor.bundle, gpudash.feed.recording, gpudash.feed.supervisor
import gpudash.output.matrix, gpudash.output.smi_details, gpudash.output.smi_xml
import gpudash.output.table, gpudash.system.fork, pynvml
import gpudash.tui.app, gpudash.tui.first_frame, gpudash.tui.overview, gpudash.tui.fleet.map
from contextlib import suppress
from gpudash import cli
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_void_p
mark = getenv(b"{MARK}")
gc.freeze()
jobs = socket.socket(fileno=0)
poll = select.poll()
poll.register(jobs, select.POLLIN)
running = {{}}
while True:
    for number, _ in poll.poll():
        if number in running:
            poll.unregister(number)
            os.close(number)
            pid, end = running.pop(number)
            status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            # Its reader may have gone.
            with suppress(OSError):
                os.write(end, b"%d\\n" % status)
            os.close(end)
            continue
        job, files, *_ = socket.recv_fds(jobs, 1 << 20, 5)
        if not job:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            words, environ, folder = json.loads(job)
            for target, file in enumerate(files[:3]):
                os.dup2(file, target)
            os.closerange(3, max(files) + 1)
            os.setsid()
            if os.isatty(0):
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            os.chdir(folder)
            # What /proc shows of it, too, for it and for all that it forks.
            found = environ.get("{MARK}", "").ljust({_MARK_LENGTH})
            ctypes.memmove(mark, found.encode(), {_MARK_LENGTH})
            os.environ.clear()
            os.environ.update(environ)
            time.tzset()
            if words[0] == "-c":
                sys.argv = [words.pop(0), *words[1:]]
                exec(words[0], {{}})
            sys.argv = words
            cli.main()
        os.write(files[3], b"%d\\n" % pid)
        for file in files[:3]:
            os.close(file)
        watch = os.pidfd_open(pid)
        poll.register(watch, select.POLLIN)
        running[watch] = pid, files[3]
"""


class _Parent:
    """A process that has loaded gpudash, and forks for each command line until we end."""

    def __init__(self, folders: str) -> None:
        self._jobs, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _FORKS],
                env={**os.environ, "LD_LIBRARY_PATH": folders, MARK: "0" * _MARK_LENGTH},
                stdin=theirs,
                start_new_session=True,
            )
        atexit.register(self._end)

    def _end(self) -> None:
        self._jobs.close()
        self._process.wait()

    def fork(self, job: Sequence[object], files: Sequence[int]) -> None:
        """Let it fork: its standard files, and where its PID and its exit status are written."""
        socket.send_fds(self._jobs, [json.dumps(job).encode()], files)


_parents: dict[str, _Parent] = {}
"""By the folders of the libraries that they would load."""


def _parent(folders: str) -> _Parent:
    """One with these folders, or any for a command line that needs no library."""
    found = _parents.get(folders) or (None if folders else next(iter(_parents.values()), None))
    return found or _parents.setdefault(folders, _Parent(folders))


class Forked:
    """A gpudash that runs in a session of its own: of `subprocess.Popen` what tests use.

    `stdin`, `stdout` and `stderr` are descriptors, DEVNULL, PIPE or None, for ours, as there.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str],
        *,
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        text: bool = False,
    ) -> None:
        self.args = words
        self.returncode: int | None = None
        theirs: list[int] = []
        self.stdin, self.stdout, self.stderr = (
            _opened(number, asked, text, theirs)
            for number, asked in enumerate((stdin, stdout, stderr))
        )
        reports, ending = os.pipe()
        job = [list(words), dict(env), os.getcwd()]
        _parent(env.get("LD_LIBRARY_PATH", "")).fork(job, [*theirs, ending])
        given = (stdin, stdout, stderr)
        for end in {*theirs, ending} - {0, 1, 2, *given}:
            os.close(end)
        self._reports = os.fdopen(reports, "rb", 0)
        self.pid = int(self._reports.readline())

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return its exit status."""
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = int(self._reports.readline())
            self._reports.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self.poll() is None:
            # It is gone before its status is reported.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Forked:
        return self

    def __exit__(self, *_error: object) -> None:
        for file in filter(None, (self.stdin, self.stdout, self.stderr)):
            file.close()
        self.wait()

    def communicate(self, timeout: float = LIMIT_SECONDS) -> tuple[Any, Any]:
        """Close its input, read what it writes to its end, and wait for that.

        One that lasts longer is killed.
        """
        if self.stdin is not None:
            self.stdin.close()
        late = Timer(timeout, self.kill)
        late.start()
        with ThreadPoolExecutor(2) as pool:
            texts = [*pool.map(_read, (self.stdout, self.stderr))]
        self.wait()
        late.cancel()
        for file in filter(None, (self.stdout, self.stderr)):
            file.close()
        return texts[0], texts[1]


Process = Forked | subprocess.Popen[Any]


def _read(file: IO[Any] | None) -> Any:
    return None if file is None or file.closed else file.read()


def _opened(number: int, asked: int | None, text: bool, theirs: list[int]) -> IO[Any] | None:
    """Add the end that a child has of a standard file, and return ours of a pipe."""
    if asked == subprocess.PIPE:
        ends = os.pipe()
        theirs.append(ends[number > 0])
        return os.fdopen(ends[number == 0], ("r" if number else "w") + ("" if text else "b"))
    if asked == subprocess.DEVNULL:
        asked = os.open(os.devnull, os.O_RDWR)
    theirs.append(number if asked is None else asked)
    return None


def start(argv: Sequence[str], env: Mapping[str, str], **files: Any) -> Process:
    """Start a command: gpudash, also as nvidia-smi or by some code, as a fork; others as they are.

    Each has a session of its own, or the one of the tests where it is no fork and no terminal.
    """
    words = _forked(argv)
    if words and not _AT_START & env.keys() and not _is_empty(env.get("LD_LIBRARY_PATH", "")):
        return Forked(words, env, **files)
    if os.isatty(files.get("stdin", -1)):
        files |= {"start_new_session": True, "preexec_fn": _take_terminal}
    return subprocess.Popen(argv, env=env, **files)


def _forked(argv: Sequence[str]) -> list[str]:
    """What `sys.argv` is in a fork, or the code that comes to it; empty for another command."""
    if tuple(argv[:3]) == GPUDASH:
        return ["gpudash", *argv[3:]]
    if os.path.basename(argv[0]) == "nvidia-smi":
        return [*argv]
    return [*argv[1:]] if argv[0] == sys.executable and "cli.main(" in argv[2] else []


def _is_empty(folders: str) -> bool:
    """Whether the library there is none: it is of one test, and nothing is loaded for that."""
    library = Path(folders.partition(":")[0], LIBRARY)
    return library.is_file() and not library.stat().st_size


def _take_terminal() -> None:
    """Make the pty the controlling terminal, so that Ctrl-C, resizes and hang-ups arrive."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def run(
    argv: Sequence[str], env: Mapping[str, str], *, text: bool = True
) -> subprocess.CompletedProcess[Any]:
    """Run a command to its end, which what it leaves behind may outlive.

    Raises subprocess.TimeoutExpired, after killing it, when it never ends.
    """
    out, err = os.memfd_create("out"), os.memfd_create("err")
    started = start(argv, env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
    try:
        status = started.wait(LIMIT_SECONDS)
    finally:
        started.kill()
        texts = [os.pread(file, 1 << 24, 0) for file in (out, err)]
        os.close(out)
        os.close(err)
    found = [each.decode() for each in texts] if text else texts
    return subprocess.CompletedProcess(argv, status, *found)
