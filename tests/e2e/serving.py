"""`gpudash serve` as the collector of a machine, and servers that only pretend to be it."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.forking import GPUDASH, Process, start
from tests.e2e.run import each_of
from tests.fakenvml.build import environment
from tests.waiting import LIMIT_SECONDS, until


class Viewer:
    """A client by hand."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_SECONDS)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Viewer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def line(self) -> Any:
        """Return the next line, None at the end."""
        line = b""
        with suppress(ConnectionError):
            line = self._file.readline()
        return json.loads(line) if line else None

    def ask(self, request: bytes) -> None:
        """Send something; it may be gone."""
        with suppress(ConnectionError):
            self._socket.sendall(request)

    def is_closed(self) -> bool:
        """Whether the server has closed the connection, whatever is left to be read."""
        poll = select.poll()
        poll.register(self._socket, 0)
        return bool(poll.poll(0))

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def serving(
    library: Path, path: Path, *words: str, interval: float = 1, **told: object
) -> Iterator[Process]:
    """A service on a socket that has its first sample."""
    where = ("--listen", "127.0.0.1:0", "--socket", str(path), "--interval", str(interval))
    argv = [*GPUDASH, "serve", *where, *words]
    with start(argv, environment(library, **told), stderr=subprocess.PIPE, text=True) as server:
        try:
            until(lambda: has_sampled(path), lambda: server.poll() is None or server.stderr.read())
            yield server
        finally:
            server.kill()


def has_sampled(path: Path) -> bool:
    try:
        with Viewer(path) as viewer:
            viewer.line()
            viewer.ask(b'{"interval": 3600}\n')
            return viewer.line() is not None
    except (ConnectionRefusedError, FileNotFoundError):
        return False


def doctor(library: Path, path: Path) -> dict[str, str]:
    variables = {"GPUDASH_SOCKET": str(path)}
    ((_, text, _),) = each_of([("doctor --json", {})], library, variables=variables)
    return next(each for each in json.loads(text) if each["topic"] == "service")


_PRETENDER = """
import json, os, socket, sys, time
from gpudash.feed.attached import eyes
path = sys.argv[1]
known, line = json.load(sys.stdin)
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
os.chmod(path, 0o666)
listener.listen(64)
hello = {"version": "99.0", "schema": 1, "started_at": 0.0, "interval": 1, "floor": 0.1,
         "eyes": eyes(), "sees_processes": True}
hello["eyes"].update(known.pop("eyes", {}))
hello.update(known)
taken_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - hello.pop("age", 0)))
kept = []
while True:
    client = listener.accept()[0]
    kept.append(client)
    try:
        client.sendall(hello.get("say", json.dumps(hello)).encode() + b"\\n")
        client.recv(4096)
        client.sendall(line.replace("TAKEN_AT", taken_at).encode())
    except OSError:
        pass
"""

LINE = (
    '{"schema":1,"collected_by":null,"taken_at":"TAKEN_AT","host":{"hostname":"pretender"},'
    '"devices":[],"processes":[],"findings":[]}\n'
)


@contextmanager
def pretending(
    path: Path, known: Mapping[str, Any], line: str = LINE, before: Sequence[str] = ()
) -> Iterator[None]:
    """A server that greets with what is `known`, and answers whatever is asked with a line.

    `before` are the words of a command that starts it as somebody else.
    """
    env = {**os.environ, "PYTHONPATH": ":".join(filter(None, sys.path))}
    argv = [*before, sys.executable, "-c", _PRETENDER, str(path)]
    # A server that was killed leaves its own.
    path.unlink(missing_ok=True)
    server = subprocess.Popen(argv, env=env, stdin=subprocess.PIPE)
    server.stdin.write(json.dumps([known, line]).encode())
    server.stdin.close()
    try:
        until(lambda: path.exists() and path.stat().st_mode & 0o777 == 0o666)
        yield
    finally:
        server.kill()
        server.wait()
        path.unlink(missing_ok=True)
