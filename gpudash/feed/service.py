"""The shared collector of a machine: its lines, served over a socket.

Each connection gets a line of JSON that describes the service, sends `{"interval": S}`, once or for
each change, and gets the last snapshot and then a new one every S seconds, each a line as
`gpudash --json` prints it. Nothing here waits: a client that does not read is dropped.

If there is a history, a client may instead ask for `{"past": "names"}`, the names of its segments,
and for `{"past": NAME}`, a read-only descriptor of that segment.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import stat
import sys
import termios
import time
from collections import Counter, deque
from contextlib import suppress
from errno import EADDRINUSE, EEXIST, EMFILE, ENFILE
from fcntl import ioctl
from math import inf
from typing import Any

from gpudash import __version__
from gpudash.feed.attached import PAST_NAMES, eyes, sees_processes
from gpudash.feed.recording import segments
from gpudash.model import SCHEMA

_FLOOR_SECONDS = 1.0
"""No client makes it collect more often."""
_MAX_CLIENTS = 512
_SHARE_OF_USER = 4
"""Each user may have a fourth of them, so that no user takes all places."""
_ASK_SECONDS = 5.0
"""Time for a client to send a request."""
_MAX_REQUEST_BYTES = 256
_MAX_ASKED_BYTES = 1 << 20
"""For all requests of a client."""
_LISTED_SECONDS = 1.0
"""How long a list of the segments is cached: there may be thousands."""
_MAX_UNREAD_BYTES = 4 << 20
"""Limit of what a client leaves unread, or one line if that is longer."""
_BACKLOG = 128
_MAX_SECONDS = 86400.0


class _RequestError(Exception):
    """An invalid request."""


class _Client:
    def __init__(self, connection: socket.socket, uid: int) -> None:
        self.connection, self.uid = connection, uid
        self.accepted_at = time.monotonic()
        self.interval: float | None = None
        """None until requested, and for a client that reads the past."""
        self.reads_past = self.is_left = False
        """`is_left` means that its last answer is unread, so that it gets no other."""
        self.due = -inf
        self.asked_bytes = 0
        self.request = b""
        self.unread: deque[memoryview] = deque()
        self.unread_bytes = 0


class LineServer:
    """Serves lines to clients, once `listen` was called.

    Call `advance` when `descriptor` is readable, and every second.
    """

    def __init__(self, idle_interval: float) -> None:
        """`idle_interval` applies while no client asks for a shorter one."""
        self.floor = min(_FLOOR_SECONDS, idle_interval)
        self._idle, self._started_at = idle_interval, time.time()
        self._clients: dict[int, _Client] = {}
        self._listener: socket.socket | None = None
        self._path, self._inode = "", 0
        self._max_clients = min(_MAX_CLIENTS, os.sysconf("SC_OPEN_MAX") // 2)
        self._latest = b""
        self.past: str | None = None
        """The folder of the history, None for none."""
        self._listed_at, self._listed = -inf, b""
        self._epoll = select.epoll()
        self.descriptor = self._epoll.fileno()

    @property
    def interval(self) -> float:
        """Seconds between two samples of the collector, the shortest that any client asks for."""
        return min([self._idle, *(each.interval or inf for each in self._clients.values())])

    def listen(self, path: str, group: str | None = None) -> None:
        """Let all users connect, or those of a group; raises OSError.

        The socket of a server that has ended is replaced, but not that of a running one.
        """
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise OSError(EEXIST, "there is something else of that name")
            if _is_living(path):
                raise OSError(EADDRINUSE, "another gpudash serve listens there")
        # Clients never see a socket that is not listening yet, or with another mode.
        temporary = f"{path}.{os.getpid()}"
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(temporary)
            if group is not None:
                shutil.chown(temporary, group=group)
            os.chmod(temporary, 0o666 if group is None else 0o660)
            listener.listen(_BACKLOG)
            listener.setblocking(False)
            self._inode = os.lstat(temporary).st_ino
            os.rename(temporary, path)
        except (OSError, LookupError):
            listener.close()
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self._listener, self._path = listener, path
        self._epoll.register(listener, select.EPOLLIN)

    def send(self, line: bytes) -> None:
        """Send a new snapshot, or RELEASED, to every client for which one is due."""
        self._latest = line + b"\n"
        now, early = time.monotonic(), self.interval / 2
        for client in list(self._clients.values()):
            interval = client.interval
            if interval is not None and now >= client.due - early:
                is_late = now - client.due > interval
                client.due = (now if is_late else client.due) + interval
                self._send(client, self._latest)

    def advance(self) -> None:
        """Accept, read and answer; drop clients without a request in time."""
        for descriptor, event in self._epoll.poll(0):
            client = self._clients.get(descriptor)
            if client is None:
                self._accept()
                continue
            try:
                self._flush(client)
                if event & ~select.EPOLLOUT:
                    self._read(client)
            except OSError:
                self._drop(client)
            except _RequestError as error:
                answer = json.dumps({"error": str(error)}).encode() + b"\n"
                with suppress(OSError):
                    client.connection.send(answer)
                self._drop(client)
        too_old = time.monotonic() - _ASK_SECONDS
        for client in list(self._clients.values()):
            has_asked = client.interval is not None or client.reads_past
            if client.is_left or (not has_asked and client.accepted_at < too_old):
                self._drop(client)

    def close(self) -> None:
        """Drop all clients, and remove the socket if it is still this server's."""
        for client in self._clients.values():
            client.connection.close()
        self._clients.clear()
        if self._listener is not None:
            self._listener.close()
            with suppress(OSError):
                if os.lstat(self._path).st_ino == self._inode:
                    os.unlink(self._path)
        self._epoll.close()

    def _accept(self) -> None:
        """Accept all waiting clients, so that one that keeps reconnecting does not block others."""
        assert self._listener is not None
        for _ in range(_BACKLOG):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._admit(connection)

    def _admit(self, connection: socket.socket) -> None:
        """Greet a client, or close its connection if there are too many."""
        peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        client = _Client(connection, int.from_bytes(peer[4:8], "little"))
        of_user = Counter(each.uid for each in self._clients.values())[client.uid]
        most = self._max_clients
        if len(self._clients) >= most or of_user >= most // _SHARE_OF_USER:
            connection.close()
            return
        connection.setblocking(False)
        self._clients[connection.fileno()] = client
        self._epoll.register(connection, select.EPOLLIN)
        self._send(client, json.dumps(self._greeting()).encode() + b"\n")

    def _greeting(self) -> dict[str, object]:
        return {
            "version": __version__,
            "schema": SCHEMA,
            "started_at": self._started_at,
            "interval": self.interval,
            "floor": self.floor,
            "eyes": eyes(),
            "sees_processes": sees_processes(),
            "past": self.past is not None,
        }

    def _read(self, client: _Client) -> None:
        """Read a client's requests; raises _RequestError, or OSError if it is gone."""
        try:
            data = client.connection.recv(_MAX_REQUEST_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionResetError
        client.asked_bytes += len(data)
        *lines, client.request = (client.request + data).split(b"\n")
        if client.asked_bytes > _MAX_ASKED_BYTES or len(client.request) > _MAX_REQUEST_BYTES:
            raise _RequestError("too many bytes")
        for line in lines:
            request = _request(line)
            if "past" in request:
                self._give_past(client, request["past"])
                continue
            if client.reads_past:
                raise _RequestError("interval: expected a connection of its own")
            is_first = client.interval is None
            client.interval = _interval_of(request, self.floor)
            client.due = -inf
            if is_first and self._latest:
                self._send(client, self._latest)

    def _give_past(self, client: _Client, name: object) -> None:
        """Send the names of the segments, or a descriptor of one if it exists.

        Raises _RequestError, also for a second unread one: unread descriptors count as ours.
        """
        if self.past is None or not isinstance(name, str) or client.interval is not None:
            raise _RequestError("past: there is none, or none on this connection")
        if client.reads_past and (client.unread or _has_unread(client)):
            raise _RequestError("past: expected one request after the other")
        client.reads_past = True
        if name == PAST_NAMES:
            self._send(client, self._names(self.past))
            return
        descriptor = _segment(os.path.join(self.past, name)) if segments.is_name(name) else None
        if descriptor is None:
            self._send(client, b'{"past":null}\n')
            return
        try:
            answer = json.dumps({"past": name}).encode() + b"\n"
            socket.send_fds(client.connection, [answer], [descriptor])
        finally:
            os.close(descriptor)

    def _names(self, past: str) -> bytes:
        if (now := time.monotonic()) - self._listed_at > _LISTED_SECONDS:
            try:
                names = os.listdir(past)
            except OSError as error:
                raise _RequestError(f"past: {error.strerror}") from None
            found = [name for name in names if segments.is_name(name)]
            self._listed = json.dumps({"past": found}).encode() + b"\n"
            self._listed_at = now
        return self._listed

    def _send(self, client: _Client, data: bytes) -> None:
        client.unread.append(memoryview(data))
        client.unread_bytes += len(data)
        try:
            self._flush(client)
        except OSError:
            self._drop(client)
            return
        if len(client.unread) > 1 and client.unread_bytes > _MAX_UNREAD_BYTES:
            self._drop(client)

    def _flush(self, client: _Client) -> None:
        """Send as much as a client accepts; raises OSError if it is gone."""
        with suppress(BlockingIOError):
            while client.unread:
                count = client.connection.send(client.unread[0])
                client.unread_bytes -= count
                client.unread[0] = client.unread[0][count:]
                if not client.unread[0]:
                    client.unread.popleft()
        events = select.EPOLLIN | (select.EPOLLOUT if client.unread else 0)
        self._epoll.modify(client.connection, events)

    def _drop(self, client: _Client) -> None:
        if client.connection.fileno() not in self._clients:
            # It left before an answer, with requests pending.
            return
        if client.reads_past and _has_unread(client):
            # The kernel counts a descriptor in transit as ours, even one that is never read.
            if not client.is_left:
                self._epoll.unregister(client.connection)
            client.is_left = True
            return
        # Closing it also removes it from the epoll.
        self._clients.pop(client.connection.fileno(), None)
        client.connection.close()


def _is_living(path: str) -> bool:
    """Whether a process listens on a socket; raises OSError if that is unknown."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            return True
    return True


def _segment(path: str) -> int | None:
    """Return a descriptor of a segment, None if it is gone or not a file.

    Raises _RequestError if we have no more descriptors.
    """
    try:
        descriptor = os.open(path, segments.READ | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (EMFILE, ENFILE):
            raise _RequestError(f"past: {error.strerror}") from None
        return None
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    return None


def _has_unread(client: _Client) -> bool:
    """Whether a client has not read all that it was sent."""
    count = ioctl(client.connection, termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(count, sys.byteorder) > 0


def _request(line: bytes) -> dict[str, Any]:
    with suppress(ValueError, RecursionError):
        request = json.loads(line)
        if isinstance(request, dict):
            return request
    raise _RequestError('expected {"interval": SECONDS}')


def _interval_of(request: dict[str, Any], floor: float) -> float:
    try:
        interval = float(request["interval"])
    except (ValueError, TypeError, KeyError, OverflowError):
        raise _RequestError('expected {"interval": SECONDS}') from None
    if not floor <= interval <= _MAX_SECONDS:
        raise _RequestError(f"interval: expected {floor:g} to {_MAX_SECONDS:g} seconds")
    return interval
