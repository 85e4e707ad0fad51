"""The lines of the machine's shared collector, read from the socket of `gpudash serve`.

The process that listens there decides what is seen, so it must be trusted: see `Service`. Each line
is a snapshot as `gpudash --json` prints it, and `collected_by` names the user of the service.
"""

from __future__ import annotations

import _socket
import json
import os
import pwd
import re
import sys
import time
from datetime import datetime, timezone
from typing import Any

from gpudash import __version__
from gpudash.feed.collector import LINE_LIMIT, RELEASED
from gpudash.model import SCHEMA
from gpudash.model.errors import GpudashError
from gpudash.system.files import read_link, read_start

BUDGET_SECONDS = 0.3
"""From the first call to the first line: a slower server is not used."""
_SILENT_SECONDS = 5.0
"""Without a line before it is abandoned; two intervals if that is longer."""
_STALE_INTERVALS = 2
PAST_NAMES = "names"
"""Requested in place of a segment to list the names of all."""
_PAST_SECONDS = 3.0
"""For an answer about the past."""
_HELLO_BYTES = 1 << 16
_CHUNK = 1 << 18
_PEER_BYTES = 12
_DESCRIPTOR_BYTES = 4
_START = b'{"schema":%d,"collected_by":null,"taken_at":"' % SCHEMA


class ServiceError(GpudashError):
    """Why this machine's service is not used."""


def eyes() -> dict[str, object]:
    """Return what two processes must have in common to see the same.

    In another namespace, the same PID is another process; a job or a container may have some of the
    GPUs, with its own indices. Access to a node is checked by its mode and the cgroup, as opening
    could wake a GPU.
    """
    nodes = (f"/dev/{name}" for name in sorted(os.listdir("/dev")) if name.startswith("nvidia"))
    usable = (
        node for node in nodes if node[11:].isdecimal() and os.access(node, os.R_OK | os.W_OK)
    )
    boot_id = read_start("/proc/sys/kernel/random/boot_id", 64) or b""
    return {
        "boot_id": boot_id.decode("ascii", "replace").strip(),
        "pid_namespace": read_link("/proc/self/ns/pid"),
        "user_namespace": read_link("/proc/self/ns/user"),
        "gpus": list(usable),
        "leases": os.environ.get("GPUDASH_LOCK_DIR", ""),
    }


def sees_processes() -> bool:
    """Whether /proc shows processes of others (hidepid), such as the first one."""
    return os.access("/proc/1/stat", os.R_OK)


class Service:
    """A connection to the service, if it is trustworthy and sees all that the caller does.

    Its folder belongs to its user, and no other user may write there; it runs in the same boot and
    namespaces and with the same GPUs; it knows as many fields, and as many processes.
    """

    def __init__(self, path: str) -> None:
        """Connect and read its greeting; raises ServiceError within `BUDGET_SECONDS`."""
        self._deadline = time.monotonic() + BUDGET_SECONDS
        self._rest = b""
        self._interval = 0.0
        self._heard_at = time.monotonic()
        self.age = 0.0
        """Age of the last line in seconds when it arrived."""
        self.has_ended = False
        """Whether there will be no more lines fit to show."""
        self._socket = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        try:
            self._connect(path)
            self._greet()
        except OSError as error:
            self.close()
            reason = "does not answer" if isinstance(error, TimeoutError) else error.strerror
            raise ServiceError(f"{path}: {reason or error}") from None
        except ServiceError as error:
            self.close()
            raise ServiceError(f"{path}: {error}") from None

    def _connect(self, path: str) -> None:
        folder = os.stat(os.path.dirname(path) or ".")
        if folder.st_mode & 0o022:
            raise ServiceError("others may write to its folder")
        self._wait_at_most()
        self._socket.connect(path)
        peer = self._socket.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _PEER_BYTES)
        self.pid, uid = (int.from_bytes(peer[at : at + 4], "little") for at in (0, 4))
        if uid != folder.st_uid:
            raise ServiceError(
                f"{_username(uid)} listens in a folder of {_username(folder.st_uid)}"
            )
        self.user = _username(uid)
        """The user that runs the service."""

    def _greet(self) -> None:
        while b"\n" not in self._rest:
            self._receive()
            if len(self._rest) > _HELLO_BYTES:
                break
        hello, _, self._rest = self._rest.partition(b"\n")
        try:
            found: dict[str, Any] = json.loads(hello)
            known = int(found["schema"]), _numbers(found["version"])
            self.floor, self._pace = float(found["floor"]), float(found["interval"])
            self.version, self.started_at = str(found["version"]), float(found["started_at"])
            theirs, sees = found["eyes"], found["sees_processes"]
            self.has_past = found.get("past") is True
        except (ValueError, TypeError, KeyError, RecursionError):
            raise ServiceError("its greeting is not that of gpudash") from None
        if known < (SCHEMA, _numbers(__version__)):
            raise ServiceError(
                f"it is gpudash {self.version}, older than {__version__}: restart it"
            )
        mine = eyes()
        if not mine["pid_namespace"] or theirs != mine:
            raise ServiceError("it runs in another container, or with other GPUs")
        if sees_processes() and sees is not True:
            raise ServiceError("processes of other users are hidden from it (hidepid)")

    @property
    def descriptor(self) -> int:
        """The descriptor that becomes readable when lines arrive."""
        return self._socket.fileno()

    @property
    def stale_after(self) -> float:
        """Seconds without a line after which the service is abandoned."""
        return max(_SILENT_SECONDS, _STALE_INTERVALS * self._interval)

    def due_in(self) -> float:
        """Return the seconds until its silence counts as too long."""
        return self._heard_at + self.stale_after - time.monotonic()

    def ask(self, interval: float) -> None:
        """Request a line every `interval` seconds; intervals below the floor end the connection."""
        self._interval = interval
        self.has_ended |= interval < self.floor
        if not self.has_ended:
            try:
                self._socket.send(b'{"interval":%r}\n' % interval)
            except OSError:
                self.has_ended = True

    def first_line(self) -> list[bytes]:
        """Wait for the first line within the budget; raises ServiceError if none arrives."""
        try:
            lines = self._lines()
            while not lines and not self.has_ended:
                self._receive()
                lines = self._lines()
        except OSError:
            lines = []
        if not lines:
            raise ServiceError("it has no fresh sample")
        self._socket.settimeout(0)
        return lines

    def take(self) -> list[bytes]:
        """Return the fresh lines that have arrived; end the connection after too long a silence."""
        try:
            while len(self._rest) <= LINE_LIMIT:
                self._receive()
        except BlockingIOError:
            pass
        except OSError:
            self.has_ended = True
        lines = self._lines()
        self.has_ended |= self.due_in() <= 0 or len(self._rest) > LINE_LIMIT
        return lines

    def past(self, name: str) -> tuple[Any, int | None]:
        """Return the answer about a segment, or PAST_NAMES, and a descriptor if one was sent.

        Raises ServiceError. After such a request, a connection gets no lines.
        """
        self._deadline = time.monotonic() + _PAST_SECONDS
        received: list[bytes] = []
        answer = b""
        try:
            self._wait_at_most()
            self._socket.sendall(json.dumps({"past": name}).encode() + b"\n")
            while not answer.endswith(b"\n"):
                self._wait_at_most()
                room = _socket.CMSG_LEN(_DESCRIPTOR_BYTES), _socket.MSG_CMSG_CLOEXEC
                data, control, _, _ = self._socket.recvmsg(_CHUNK, *room)
                received += [each for _level, kind, each in control if kind == _socket.SCM_RIGHTS]
                if not data or len(answer) > LINE_LIMIT:
                    raise ConnectionResetError("it closed the connection")
                answer += data
            past = json.loads(answer)["past"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
            for each in received:
                os.close(_descriptor(each))
            raise ServiceError(f"gpudash serve: no answer about the past: {error}") from None
        return past, _descriptor(received[0]) if received else None

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _wait_at_most(self) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def _receive(self) -> None:
        """Read a piece; raises OSError if none arrives in time, or at the end."""
        if self._socket.gettimeout():
            self._wait_at_most()
        data = self._socket.recv(_CHUNK)
        if not data:
            raise ConnectionResetError("it closed the connection")
        self._rest += data

    def _lines(self) -> list[bytes]:
        """Return whole fresh lines, up to one that is neither snapshot nor RELEASED."""
        *whole, self._rest = self._rest.split(b"\n")
        fresh = []
        for line in whole:
            if line == RELEASED:
                self._heard_at = time.monotonic()
                fresh.append(line)
                continue
            age = _age(line)
            if age is None:
                self.has_ended = True
                break
            limit = min(self.stale_after, _STALE_INTERVALS * max(self._pace, self._interval))
            if abs(age) <= limit:
                self.age, self._heard_at = age, time.monotonic()
                fresh.append(line.replace(b"null", json.dumps(self.user).encode(), 1))
        return fresh


def attach(path: str, interval: float) -> tuple[Service, list[bytes]] | None:
    """Return the service and its first lines; None if it cannot be used."""
    try:
        service = Service(path)
    except ServiceError:
        return None
    try:
        service.ask(interval)
        return service, service.first_line()
    except ServiceError:
        service.close()
        return None


def _age(line: bytes) -> float | None:
    """Return the seconds since a snapshot was taken, None for any other line."""
    if not line.startswith(_START) or not line.endswith(b"}"):
        return None
    text = line[len(_START) : line.index(b'"', len(_START))].decode("ascii", "replace")
    try:
        taken_at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=timezone.utc)
    except ValueError:
        return None
    return time.time() - taken_at.timestamp()


def _descriptor(data: bytes) -> int:
    return int.from_bytes(data[:_DESCRIPTOR_BYTES], sys.byteorder)


def _username(uid: int) -> str:
    # `system.processes` has it, but would import what this avoids.
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]
