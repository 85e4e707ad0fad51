"""Acknowledgements: hosts and GPUs whose findings are known to the users.

They are in a file, a line of JSON each, that several people may write: its texts are cleaned and
limited, and an invalid line does not affect the others.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from threading import Thread
from typing import Annotated, NamedTuple

from msgspec import DecodeError, Meta, Struct, ValidationError, json

from gpudash.model.errors import ActionError, UsageError
from gpudash.model.snapshot import Finding
from gpudash.model.text import NAME_BYTES, SafeText, clean
from gpudash.model.units import parse_span
from gpudash.system.files import ACKNOWLEDGED, replace_content, state_folder

_MAX_BYTES = 1 << 20
_TOO_LARGE = "larger than 1 MiB"
_MAX_REASON = 200
_AGAIN_SECONDS = 2.0
"""How often to check the file for changes."""
_PATIENCE_SECONDS = 0.2
"""How long a sample waits for an unresponsive folder."""
_LOCK_SECONDS = 2.0
_SOON_SECONDS = 3600.0
"""How soon after the acknowledgement a GPU may be removed or lost again."""
_NAME = r"(?:[^:]*/)?[\w.@%+-]+"
_TARGET = rf"(?P<host>\[[^]]+\]|(?:{_NAME})?)(?::(?P<gpu>[0-9]{{1,5}}))?"
_MAX_YEARS = timedelta(days=3650)

PlaceKey = tuple[str, int | str | None]
"""A host by name, and one of its GPUs by UUID or index, None for all of it."""


class Place(NamedTuple):
    """The subject of findings: a host, or one of its GPUs."""

    host: str
    gpu: int | None = None
    """NVML's index, None for the host and all of its GPUs."""
    uuid: str | None = None
    """The UUID of that GPU, None if unknown: after a reboot, another may have the index."""

    @property
    def key(self) -> PlaceKey:
        """Its key."""
        return self.host, self.gpu if self.uuid is None else self.uuid


class Acknowledgement(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of the file: a host or GPU whose findings are known, or are news again."""

    host: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES)]
    """Its name, with its cluster and a slash before it to mean only that one."""
    gpu: Annotated[int, Meta(ge=0, lt=1 << 16)] | None = None
    """NVML's index, None for the host and all of its GPUs."""
    uuid: Annotated[str, Meta(min_length=1, max_length=NAME_BYTES)] | None = None
    """The UUID of that GPU, None for any with the index."""
    until: Annotated[datetime, Meta(tz=True)] | None = None
    """None for until it is withdrawn."""
    reason: Annotated[str, Meta(max_length=_MAX_REASON)] = ""
    by: Annotated[str, Meta(max_length=NAME_BYTES)] = ""
    at: Annotated[datetime, Meta(tz=True)] | None = None
    """When it was written."""
    taken_back: bool = False

    @property
    def place(self) -> Place:
        """Its host or GPU."""
        return Place(self.host, self.gpu, self.uuid)

    @property
    def title(self) -> SafeText:
        """Its host or GPU, as typed: `gpu20:5`."""
        return clean(self.host if self.gpu is None else f"{self.host}:{self.gpu}")

    def is_in_force(self, now: float) -> bool:
        """Whether it counts at an instant, in seconds since 1970."""
        return not self.taken_back and (self.until is None or now < self.until.timestamp())

    def is_over(self, since: float | None) -> bool:
        """Whether it does not apply to a loss since an instant, None if unknown.

        An open-ended one applies to a loss then or soon after, but not to one after a return.
        """
        if self.until is not None or self.at is None or since is None:
            return False
        return since > self.at.timestamp() + _SOON_SECONDS

    @property
    def text(self) -> SafeText:
        """The reason, the user and the end: `RMA 4711, alice until 11-27 02:00`."""
        until = "" if self.until is None else f"until {self.until.astimezone():%m-%d %H:%M}"
        parts = (self.reason, " ".join(filter(None, (self.by, until))))
        return clean(", ".join(filter(None, parts)) or "no reason given", _MAX_REASON)


_Read = tuple[tuple[Acknowledgement, ...], SafeText | None]
"""The lines of the file, and the error in it."""


class InForce(Struct, frozen=True):
    """The acknowledgements in force at an instant, and the error in their file."""

    found: Mapping[PlaceKey, Acknowledgement] = {}
    problem: SafeText | None = None

    def about(
        self, names: Iterable[str], gpu: int | None, uuid: str | None
    ) -> Acknowledgement | None:
        """Return the acknowledgement of a host with these names, or one of its GPUs; else None."""
        for name in names:
            for key in (None, uuid, gpu):
                if (known := self.found.get((name, key))) is not None:
                    return known
            if gpu is not None and uuid is None:
                of_host = (each for each in self.found.values() if each.host == name)
                if (known := next((each for each in of_host if each.gpu == gpu), None)) is not None:
                    return known
        return None

    def text(self, names: Iterable[str], gpus: Mapping[int, str | None]) -> str | None:
        """Return why a finding about these GPUs of a host is not news.

        `gpus` are UUIDs by index, none for all of the host. None if one is not acknowledged.
        """
        names, which = tuple(names), list[tuple[int | None, str | None]](sorted(gpus.items()))
        found = [self.about(names, *gpu) for gpu in which or [(None, None)]]
        texts = dict.fromkeys(each.text for each in found if each is not None)
        return None if None in found else "; ".join(texts)

    @property
    def finding(self) -> tuple[Finding, ...]:
        """The error in the file as a finding, if there is one."""
        if self.problem is None:
            return ()
        return (
            Finding(
                rule="acknowledgements",
                level="warn",
                sentence=self.problem,
                advice="Correct or remove the file: gpudash ack shows what is in force.",
            ),
        )


def spellings(host: str, cluster: str | None = None) -> tuple[str, ...]:
    """Return the names of a host: with its cluster, without its domain."""
    head = host.partition(".")[0]
    names = (host,) if head in (host, "") or head.isdecimal() or ":" in host else (host, head)
    return names if cluster is None else (*(f"{cluster}/{name}" for name in names), *names)


def path(shared: str | None = None, *, is_demo: bool = False) -> str:
    """Return the path: that of the settings, else a file in the state folder.

    Simulated hosts, which may have names of real ones, have a separate file. Raises KeyError for a
    user without a home.
    """
    if is_demo:
        return os.path.join(state_folder(), f"demo-{ACKNOWLEDGED}")
    return os.path.expanduser(shared) if shared else os.path.join(state_folder(), ACKNOWLEDGED)


class Acknowledged:
    """The acknowledgements of a file, read again when it has changed.

    A thread reads it, since an unresponsive folder must not delay samples.
    """

    def __init__(
        self, find: Callable[[], str] = path, clock: Callable[[], float] = time.time
    ) -> None:
        self._find, self._clock = find, clock
        self._thread: Thread | None = None
        self._looked_at = -_AGAIN_SECONDS
        self._stamp: object = None
        self._read: _Read = (), None

    def now(self) -> InForce:
        """Return those in force now, as far as the file is readable."""
        is_due = time.monotonic() - self._looked_at >= _AGAIN_SECONDS
        if is_due and (self._thread is None or not self._thread.is_alive()):
            self._looked_at = time.monotonic()
            thread = Thread(target=self._look, name="acknowledged", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # The system has no threads left.
                self._look()
            else:
                self._thread = thread
                thread.join(_PATIENCE_SECONDS)
        return _in_force(self._read, self._clock())

    def _look(self) -> None:
        with suppress(KeyError):
            file, stamp = self._find(), None
            with suppress(OSError):
                status = os.stat(file)
                stamp = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
            if stamp is None or stamp != self._stamp:
                self._read, self._stamp = _read(file), stamp


def in_force(file: str) -> InForce:
    """Return those in force now in a file, however long reading it takes."""
    return _in_force(_read(file), time.time())


def _in_force(read: _Read, now: float) -> InForce:
    known, problem = read
    return InForce({each.place.key: each for each in known if each.is_in_force(now)}, problem)


def _read(file: str) -> _Read:
    """Return the result of `load`, even for a missing or unreadable file."""
    try:
        return load(file)
    except (FileNotFoundError, NotADirectoryError):
        return (), None
    except OSError as error:
        return (), _problem(file, error.strerror or str(error))


def load(file: str) -> _Read:
    """Return the last line on each host and GPU, and the error in the file, in one line.

    Raises OSError if it cannot be read.
    """
    descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as opened:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return (), _problem(file, "not a regular file: nothing is acknowledged")
        data = opened.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        return (), _problem(file, f"{_TOO_LARGE}: nothing is acknowledged")
    found: dict[PlaceKey, Acknowledgement] = {}
    wrong: list[int] = []
    decoder = json.Decoder(Acknowledgement)
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            each = decoder.decode(line)
            found.pop(each.place.key, None)
            found[each.place.key] = each
        except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
            wrong.append(number)
    last = tuple(found.values())
    if not wrong:
        return last, None
    some = f"line {wrong[0]} is" if len(wrong) == 1 else f"{len(wrong)} lines are"
    which = "" if len(wrong) == 1 else f", the first is line {wrong[0]}"
    return last, _problem(file, f"{some} not an acknowledgement{which}; the others count")


def _problem(file: str, text: str) -> SafeText:
    return clean(f"acknowledgements in {file}: {text}", 300)


def write(file: str, added: Iterable[Acknowledgement]) -> None:
    """Append lines to the file, which is created if needed; raises ActionError.

    A large one is replaced by the lines in force, if its folder allows that.
    """
    lines = b"".join(json.encode(each) + b"\n" for each in added)
    try:
        os.makedirs(os.path.dirname(file) or ".", mode=0o700, exist_ok=True)
        descriptor = _locked(file)
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                # Another writer's line is incomplete: ours must not become part of it.
                lines = b"\n" + lines
            if size + len(lines) > _MAX_BYTES // 2:
                now = time.time()
                known, _ = load(file)
                kept = [json.encode(each) + b"\n" for each in known if each.is_in_force(now)]
                whole = b"".join(kept) + lines
                if max(size, len(whole)) <= _MAX_BYTES:
                    with suppress(OSError):
                        replace_content(file, whole, os.fstat(descriptor))
                        return
                if size + len(lines) > _MAX_BYTES:
                    raise ActionError(f"not acknowledged: {clean(file)} is {_TOO_LARGE}")
            if os.write(descriptor, lines) < len(lines):
                raise ActionError(f"not acknowledged: {clean(file)} was written in part")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ActionError(f"not acknowledged: {clean(file)}: {error.strerror}") from None


def _is_shared(file: str) -> bool:
    """Whether others use a file too, so that the umask decides who may write it."""
    with suppress(KeyError):
        return os.path.dirname(file) != state_folder()
    return True


def _locked(file: str) -> int:
    """Open and lock the file that has this name now, not one that was replaced."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
    while True:
        descriptor = os.open(file, flags, 0o666 if _is_shared(file) else 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ActionError(f"not acknowledged: {clean(file)} is not a regular file")
            _lock(descriptor, file)
            if os.path.samestat(os.fstat(descriptor), os.stat(file)):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _lock(descriptor: int, file: str) -> None:
    """Wait for other writers, within limits; the lock ends with the descriptor."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise ActionError(f"not acknowledged: {clean(file)} is locked") from None
            time.sleep(0.02)


# What people type


def place_of(text: str, this_host: str) -> Place:
    """Return the host and GPU of `gpu20:5`, `gpu20` or, on this host, `:5`.

    Raises UsageError.
    """
    match = re.fullmatch(_TARGET, text)
    host = (match and match["host"]) or (this_host if match and match["gpu"] else "")
    name = host.strip("[]")
    if match is None or not name or len(name) > NAME_BYTES or clean(name) != name:
        raise UsageError(f"{clean(text)!r} names no host: expected HOST, HOST:GPU or :GPU")
    return Place(name, None if match["gpu"] is None else int(match["gpu"]))


def until_of(text: str, now: datetime) -> datetime:
    """Return the instant of `8h`, `3d` or a date and time; raises UsageError."""
    span = parse_span(text)
    moment: datetime | None = None
    with suppress(ValueError, OverflowError, OSError):
        if span is not None:
            moment = now + timedelta(seconds=span.value)
        else:
            moment = datetime.fromisoformat(text).astimezone()
    if moment is None or not now < moment < now + _MAX_YEARS:
        text = clean(text)
        raise UsageError(
            f"{text!r} is not a time in the future: expected 8h, 3d or 2026-11-27T08:00"
        )
    return moment.astimezone(timezone.utc).replace(microsecond=0)


def acknowledgement(
    place: Place, *, until: datetime | None = None, reason: str = "", taken_back: bool = False
) -> Acknowledgement:
    """Return an acknowledgement dated now by the present user, with its texts cleaned."""
    try:
        who = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        who = str(os.geteuid())
    return Acknowledgement(
        host=place.host,
        gpu=place.gpu,
        uuid=place.uuid,
        until=until,
        reason=clean(reason.strip(), _MAX_REASON - 1),
        by=clean(who, NAME_BYTES - 1),
        at=datetime.now(timezone.utc).replace(microsecond=0),
        taken_back=taken_back,
    )
