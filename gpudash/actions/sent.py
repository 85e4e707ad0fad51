"""The signals that gpudash has sent on this host, from its record; nothing here sends one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Set
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from msgspec import DecodeError, Meta, Struct, json

from gpudash.analysis.health.acknowledged import spellings
from gpudash.model.fleet import Event
from gpudash.model.text import clean
from gpudash.system.files import state_folder

NAME = "audit.jsonl"
_MAX_READ = 1 << 20


class _Entry(Struct, frozen=True):
    """A signal in the record."""

    time: Annotated[datetime, Meta(tz=True)]
    pid: int
    signal: str
    command: str = ""
    result: str = ""


def path(environ: Mapping[str, str] = os.environ) -> str:
    """Return the file: audit.jsonl in the state folder; raises KeyError without a home."""
    return os.path.join(state_folder(environ), NAME)


def stamp() -> object:
    """Return a value that changes when a signal is recorded, None without a record."""
    with suppress(OSError, KeyError):
        status = os.stat(path())
        return status.st_ino, status.st_size, status.st_mtime_ns
    return None


def signals() -> list[Event]:
    """Return the last signals of the record, up to 1 MiB; torn lines are left out."""
    try:
        with open(path(), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _MAX_READ))
            lines = file.read(_MAX_READ).split(b"\n")
    except (OSError, KeyError):
        return []
    host = clean(os.uname().nodename)
    decoder, found = json.Decoder(_Entry), []
    for line in lines:
        with suppress(DecodeError, UnicodeDecodeError):
            each = decoder.decode(line)
            what = f"{each.signal} to PID {each.pid} ({each.command}): {each.result}"
            found.append(Event(at=each.time, kind="signal", host=host, what=clean(what, 200)))
    return found


def is_here(hosts: Set[str]) -> bool:
    """Whether this host, on which they were sent, is among these names."""
    return not hosts.isdisjoint(spellings(clean(os.uname().nodename)))
