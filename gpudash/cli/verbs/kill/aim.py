"""Pinning what a person named by its PID, and showing what would be hit."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import NamedTuple

from gpudash.actions.kill.pin import pin
from gpudash.actions.kill.run import Hit
from gpudash.actions.kill.tree import Tree
from gpudash.actions.kill.warnings import Caution, cautions
from gpudash.analysis.table import ProcessRow, process_rows
from gpudash.model.errors import ActionError, UsageError
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.model.units import ABSENT
from gpudash.output.kill import render
from gpudash.system import process_tree as kin
from gpudash.system import processes
from gpudash.system import terminal as stdout

_MOST_DIGITS = 20


class Named(NamedTuple):
    """A process as a person names it: `4242`, or `4242:303585` with the ticks of its start."""

    pid: int
    start_ticks: int | None = None


def named(word: str) -> Named:
    """Return what a word names; raises UsageError if it is no PID."""
    pid, colon, ticks = word.partition(":")
    numbers = (pid, ticks) if colon else (pid,)
    if not all(map(_is_number, numbers)) or not int(pid):
        raise UsageError(f"{clean(word, 80)!r} is no PID; see gpudash kill --help")
    return Named(int(pid), int(ticks) if colon else None)


def _is_number(text: str) -> bool:
    """Whether it is one of 64 bits: Python itself refuses to read one of thousands of digits."""
    return text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS


class Aimed(NamedTuple):
    """A process that was pinned and shown, and what else would be hit with it."""

    hit: Hit
    cautions: tuple[Caution, ...]

    @property
    def grave(self) -> bool:
        """Whether it is no plain job and wants an answer of its own."""
        return any(caution.grave for caution in self.cautions)

    @property
    def reach(self) -> int:
        """How many processes the signal is meant for."""
        tree = self.hit.tree if self.hit.whole else None
        return 1 if tree is None else len(tree.targets)


def aim(
    name: Named, snapshot: Snapshot, *, whole: bool, held: ExitStack, show_secrets: bool = False
) -> Aimed | None:
    """Pin and print a process; None, with the reason on stderr, when it must not be hit."""
    try:
        row = _row(name, snapshot)
        target = held.enter_context(pin(row.process, snapshot.host))
        tree = Tree(target, snapshot.processes)
        held.callback(tree.close)
        _refuse_without_gpu(row.process, tree, snapshot, whole=whole)
    except ActionError as error:
        os.write(2, f"gpudash: {clean(str(error))}\n".encode())
        return None
    warned = cautions(target)
    sentences = [caution.text for caution in warned]
    members = tree.members if whole else ()
    text = render(row, members, sentences, show_secrets=show_secrets)
    stdout.write(text.encode(errors="backslashreplace"))
    return Aimed(Hit(target, tree, whole), warned)


def _row(name: Named, snapshot: Snapshot) -> ProcessRow:
    """Return the process of a PID; raises ActionError if it is none or not the one meant."""
    row = next((each for each in process_rows(snapshot) if each.process.pid == name.pid), None)
    if row is None:
        process = kin.process_of(name.pid)
        if process is None:
            raise ActionError(f"there is no process of PID {name.pid}")
        now = snapshot.taken_at.timestamp()
        age = None if process.create_time is None else max(0.0, now - process.create_time)
        row = ProcessRow(process, ABSENT, age)
    if name.start_ticks not in (None, row.process.start_ticks):
        raise ActionError(f"PID {name.pid} now belongs to another process; nothing was sent")
    return row


def _refuse_without_gpu(process: Process, tree: Tree, snapshot: Snapshot, *, whole: bool) -> None:
    """Raise unless the process, or one of the tree if that is meant, uses a GPU.

    The driver does not list who has a GPU open without a context of their own, as forked workers.
    """
    below = sum(bool(member.process.devices) for member in tree.members)
    pid = process.pid
    if process.devices or (whole and below) or processes.holds_a_device(pid):
        return
    if below:
        count = "one process" if below == 1 else f"{below} processes"
        raise ActionError(f"PID {pid} uses no GPU itself, {count} below it: add --tree")
    if reason := _blindness(snapshot):
        raise ActionError(f"whether PID {pid} uses a GPU is not known: {reason}")
    raise ActionError(f"PID {pid} uses no GPU: `kill {pid}` ends it if it is meant")


def _blindness(snapshot: Snapshot) -> str | None:
    """Return why processes on some GPU are not known, None if all are."""
    faults = [fault for fault in snapshot.errors if fault.source in ("nvml", "processes")]
    faults += [device.fault for device in snapshot.devices if device.fault is not None]
    return faults[0].message if faults else None
