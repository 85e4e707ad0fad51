"""Runs a command of the user for each finding that appears or disappears."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
from contextlib import suppress

import msgspec

from gpudash.analysis.health.changes import FindingChange, FindingChanges
from gpudash.model.snapshot import FindingLevel, Snapshot
from gpudash.system import terminal

_LIMIT_SECONDS = 30.0
_GRACE_SECONDS = 2.0
"""Time for a command to finish when gpudash ends: one that sends a mail should."""
_MAX_WAITING = 64

_GUARDED = """
(read -r line; sleep "$1"; kill -9 0) <&1 >/dev/null 2>&1 &
/bin/sh -c "$0" >&2; status=$?; kill $!; exit $status
"""
"""Runs a command, which is killed with its process group once the pipe on stdout ends."""


class FindingCommand:
    """Runs a shell command with a finding as JSON on its stdin, one at a time, in a thread.

    The JSON is `{"event": "appeared" or "gone", "hostname", "taken_at", "finding"}`. The command's
    output goes to stderr; if it takes longer than `limit_seconds`, or `grace_seconds` after the end
    of gpudash, it is killed with all that it started.
    """

    def __init__(
        self,
        command: str,
        level: FindingLevel,
        *,
        limit_seconds: float = _LIMIT_SECONDS,
        grace_seconds: float = _GRACE_SECONDS,
    ) -> None:
        self._command = command
        self._changes = FindingChanges(level)
        self._limit_seconds = limit_seconds
        self._grace_seconds = grace_seconds
        # Nothing is written to this pipe: it ends with gpudash.
        self._life, self._alive = os.pipe()
        self._waiting: queue.Queue[bytes | None] = queue.Queue(_MAX_WAITING)
        self._worker = threading.Thread(target=self._work, name="on-finding", daemon=True)
        self._worker.start()

    def observe(self, snapshot: Snapshot) -> None:
        """Note findings that appear in a snapshot and those that disappear; never waits."""
        for change in self._changes.update(snapshot):
            try:
                self._waiting.put_nowait(_document(change, snapshot))
            except queue.Full:
                _report(f"skipped for {change.finding.rule}: {_MAX_WAITING} wait already")

    def close(self) -> None:
        """Briefly run pending commands; those still running then are about to be killed."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._worker.join(self._grace_seconds)
        os.close(self._alive)

    def _work(self) -> None:
        while (document := self._waiting.get()) is not None:
            self._run(document)
        os.close(self._life)

    def _run(self, document: bytes) -> None:
        try:
            # Our stdout may be a stream of JSON, so its output goes to our stderr.
            process = subprocess.Popen(
                ["/bin/sh", "-c", _GUARDED, self._command, f"{self._grace_seconds:g}"],
                stdin=subprocess.PIPE,
                stdout=self._life,
                start_new_session=True,
            )
        except OSError as error:
            _report(f"cannot be run: {error.strerror}")
            return
        try:
            process.communicate(document, timeout=self._limit_seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _report(f"killed: it took longer than {self._limit_seconds:g} s")
            return
        if process.returncode:
            _report(f"ended with status {process.returncode}")


def _document(change: FindingChange, snapshot: Snapshot) -> bytes:
    return msgspec.json.encode(
        {
            "event": change.event,
            "hostname": snapshot.host.hostname,
            "taken_at": snapshot.taken_at,
            "finding": change.finding,
        }
    )


def _report(problem: str) -> None:
    terminal.write_message(f"gpudash: the command of --on-finding: {problem}\n")
