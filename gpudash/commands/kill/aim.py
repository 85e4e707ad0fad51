"""Pinning what a person named by its PID, and showing what would be hit."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import NamedTuple

from gpudash import kin, stdout
from gpudash.actions import Target, Tree, cautions, pin
from gpudash.errors import ActionError
from gpudash.outputs.kill import render
from gpudash.rows import ProcessRow, process_rows
from gpudash.snapshot import Process, Snapshot
from gpudash.units import ABSENT


class Hit(NamedTuple):
    """A process that will be signalled, with its tree if that was asked for."""

    target: Target
    tree: Tree | None

    @property
    def targets(self) -> tuple[Target, ...]:
        """It and what is below it."""
        return self.tree.targets if self.tree else (self.target,)


def aim(
    pid: int, snapshot: Snapshot, whole: bool, held: ExitStack, *, show_secrets: bool = False
) -> Hit | None:
    """Pin and print a process; None, with the reason on stderr, when it must not be hit."""
    try:
        row = _row(pid, snapshot)
        target = held.enter_context(pin(row.process, snapshot.host))
        tree = Tree(target, snapshot.processes) if whole else None
        if tree is not None:
            held.callback(tree.close)
        _refuse_without_gpu(row.process, tree, snapshot)
    except ActionError as error:
        os.write(2, f"gpudash: {error}\n".encode(errors="backslashreplace"))
        return None
    members = tree.members if tree else ()
    text = render(row, members, cautions(target), show_secrets=show_secrets)
    stdout.write(text.encode(errors="backslashreplace"))
    return Hit(target, tree)


def _row(pid: int, snapshot: Snapshot) -> ProcessRow:
    for row in process_rows(snapshot):
        if row.process.pid == pid:
            return row
    process = kin.process_of(pid)
    if process is None:
        raise ActionError(f"there is no process of PID {pid}")
    now = snapshot.taken_at.timestamp()
    age = None if process.create_time is None else max(0.0, now - process.create_time)
    return ProcessRow(process, ABSENT, age)


def _refuse_without_gpu(process: Process, tree: Tree | None, snapshot: Snapshot) -> None:
    """Raise unless the process, or one of the tree, uses a GPU."""
    if process.devices or (tree and any(member.process.devices for member in tree.members)):
        return
    pid = process.pid
    holders = {each.pid for each in snapshot.processes}
    below = holders & {relative.process.pid for relative in kin.descendants(pid)}
    if below:
        count = "one process" if len(below) == 1 else f"{len(below)} processes"
        raise ActionError(f"PID {pid} uses no GPU itself, {count} below it: add --tree")
    raise ActionError(f"PID {pid} uses no GPU: `kill {pid}` ends it if it is meant")
