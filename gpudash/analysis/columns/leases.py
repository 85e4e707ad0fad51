"""The columns of leases: the GPU, who has it since when, and whether it is used."""

from __future__ import annotations

from typing import NamedTuple

from gpudash.analysis.labels import whose
from gpudash.analysis.table import Column, amount, number, word
from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import ABSENT, duration

_OTHER_NAMESPACE = "a process of another PID namespace"
_ENDED = "a child of an ended process"
_USED = {True: "yes", False: "no", None: ABSENT}


class LeaseRow(NamedTuple):
    """A lease, and the age of the process that took it."""

    lease: Lease
    age_seconds: float | None


def lease_rows(snapshot: Snapshot) -> list[LeaseRow]:
    """Return the leases of a snapshot in the order of the GPUs."""
    return [LeaseRow(lease, _age(lease, snapshot)) for lease in snapshot.leases]


def lease_holder(lease: Lease, snapshot: Snapshot) -> str:
    """Return who has a GPU: `bob's python (PID 77) for 2h05m`.

    The PID of an ended process may have been reused, and is left out.
    """
    unidentified = _unidentified(lease)
    if unidentified is not None:
        return unidentified
    age = _age(lease, snapshot)
    since = "" if age is None else f" for {duration(age)}"
    return f"{whose(lease.name, lease.username, lease.pid)}{since}"


def _age(lease: Lease, snapshot: Snapshot) -> float | None:
    if lease.create_time is None:
        return None
    return max(snapshot.taken_at.timestamp() - lease.create_time, 0.0)


def _unidentified(lease: Lease) -> str | None:
    """Return what is known of an unnamed holder, None for one that can be named."""
    if lease.pid is None:
        return _OTHER_NAMESPACE
    return _ENDED if lease.start_ticks is None else None


def _pid(row: LeaseRow) -> str:
    return ABSENT if _unidentified(row.lease) is not None else str(row.lease.pid)


LEASE_COLUMNS: tuple[Column[LeaseRow], ...] = (
    amount("index", "GPU", lambda row: row.lease.index, str, 4),
    word("user", "USER", lambda row: row.lease.username, 20),
    Column(
        key="pid",
        header="PID",
        text=_pid,
        sort_key=lambda row: number(row.lease.pid),
        width=7,
        align=">",
    ),
    amount("age", "TIME", lambda row: row.age_seconds, duration, 7, ticks=True),
    word(
        "used",
        "USED",
        lambda row: _USED[row.lease.is_used],
        4,
        level=lambda row: "warn" if row.lease.is_used is False else "unknown",
    ),
    word(
        "name",
        "PROGRAM",
        lambda row: _unidentified(row.lease) or row.lease.name,
        40,
        sort_key=lambda row: row.lease.name or "",
        grows=True,
    ),
)
