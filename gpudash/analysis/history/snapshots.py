"""A snapshot told as what differs from an earlier one.

Devices and processes are compared column by column, which costs a fraction of comparing them
value by value: a column in which nothing changed is left out, one in which anything did is kept
whole. What comes and goes is told beside the columns.
"""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec.structs import astuple

from gpudash.model import wire
from gpudash.model.process import ProcessDevice
from gpudash.model.snapshot import Host, Snapshot

Document = dict[str, Any]
Columns = tuple[tuple[Any, ...], ...]
AnyStruct = TypeVar("AnyStruct", bound=msgspec.Struct)

_LEVEL = 1
_PLAIN = [f for f in Snapshot.__struct_fields__ if f not in {"host", "devices", "processes"}]
"""Fields that are told whole when they change."""
_key_of_device = attrgetter("uuid", "index")
_key_of_process = attrgetter("pid", "create_time")
_encoder = msgspec.json.Encoder()


class Reference:
    """A snapshot that later ones are told from; `packed` is what `restore` needs of it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.packed = zlib.compress(wire.encode(snapshot), _LEVEL)
        self._snapshot = snapshot
        self._devices = _Table(snapshot.devices, _key_of_device)
        self._processes = _Table(snapshot.processes, _key_of_process)
        self._shares = _Shares(snapshot.processes)

    def patch(self, snapshot: Snapshot) -> bytes:
        """Return what differs in another snapshot, packed."""
        before = self._snapshot
        changes: Document = {
            name: getattr(snapshot, name)
            for name in _PLAIN
            if getattr(snapshot, name) != getattr(before, name)
        }
        changes["host"] = _changed(Host, (snapshot.host,), _columns((before.host,)))
        changes["devices"] = self._devices.patch(snapshot.devices)[0]
        changes["processes"], aligned = self._processes.patch(snapshot.processes)
        self._shares.refine(changes["processes"]["columns"], aligned)
        return zlib.compress(_encoder.encode(changes), _LEVEL)


def restore(packed: bytes, patch: bytes) -> Snapshot:
    """Return the snapshot that was packed as a reference and a patch, empty for itself."""
    line = zlib.decompress(packed)
    if not patch:
        return wire.decode(line)
    document: Document = msgspec.json.decode(line)
    changes: Document = msgspec.json.decode(zlib.decompress(patch))
    _set_columns([document["host"]], changes.pop("host"))
    document["devices"] = _patched(document["devices"], changes.pop("devices"))
    document["processes"] = _patched(document["processes"], changes.pop("processes"))
    return wire.decode(_encoder.encode({**document, **changes}))


class _Table:
    """Rows by key, against which later ones are aligned."""

    def __init__(self, rows: tuple[msgspec.Struct, ...], key: Callable[[Any], Hashable]) -> None:
        self._rows = rows
        self._key = key
        self._keys = tuple(map(key, rows))
        self._columns = _columns(rows)

    def patch(self, rows: tuple[AnyStruct, ...]) -> tuple[Document, Sequence[AnyStruct]]:
        """Return what differs in other rows, and those rows in the order of these."""
        keys = tuple(map(self._key, rows))
        aligned: Sequence[Any] = rows
        new: list[msgspec.Struct] = []
        order: list[int] | None = None
        if keys != self._keys:
            aligned, order = self._align(keys, rows, new)
        kind = type(aligned[0]) if aligned else None
        columns = _changed(kind, aligned, self._columns) if kind else {}
        return {"columns": columns, "new": new, "order": order}, aligned

    def _align(
        self, keys: tuple[Hashable, ...], rows: Sequence[Any], new: list[msgspec.Struct]
    ) -> tuple[list[Any], list[int]]:
        """Return rows in this table's places, and the places of `rows` with `new` behind them."""
        places = {key: place for place, key in enumerate(self._keys)}
        aligned, order = list(self._rows), []
        for key, row in zip(keys, rows, strict=True):
            place = places.pop(key, None)
            if place is None:
                order.append(len(aligned) + len(new))
                new.append(row)
            else:
                order.append(place)
                aligned[place] = row
        return aligned, order


class _Shares:
    """What processes do on each device, as a table of its own while they stay on theirs."""

    def __init__(self, processes: Sequence[Any]) -> None:
        self._counts = tuple(len(process.devices) for process in processes)
        self._columns = _columns(_flat(processes))

    def refine(self, columns: Document, processes: Sequence[Any]) -> None:
        """Replace a changed column `devices` by the columns within it, where both fit."""
        if "devices" not in columns:
            return
        if tuple(len(process.devices) for process in processes) == self._counts:
            del columns["devices"]
            shares = _changed(ProcessDevice, _flat(processes), self._columns)
            columns.update({f"devices.{name}": column for name, column in shares.items()})


def _flat(processes: Iterable[Any]) -> list[ProcessDevice]:
    return [share for process in processes for share in process.devices]


def _columns(rows: Sequence[msgspec.Struct]) -> Columns:
    return tuple(zip(*map(astuple, rows), strict=True))


def _changed(
    kind: type[msgspec.Struct], rows: Sequence[msgspec.Struct], before: Columns
) -> Document:
    names = kind.__struct_fields__
    return {
        name: column
        for name, column, old in zip(names, _columns(rows), before, strict=False)
        if column != old
    }


def _patched(rows: list[Document], patch: Document) -> list[Document]:
    _set_columns(rows, patch["columns"])
    rows = rows + patch["new"]
    return rows if patch["order"] is None else [rows[place] for place in patch["order"]]


def _set_columns(rows: list[Document], columns: Document) -> None:
    for name, column in columns.items():
        outer, _, inner = name.partition(".")
        targets = [share for row in rows for share in row[outer]] if inner else rows
        for target, value in zip(targets, column, strict=True):
            target[inner or outer] = value


_RECENT = 60
_SETTLED = 600
_SETTLED_SECONDS = 0.9
_AGE_SECONDS = 630.0
_REFERENCE_SECONDS = 60.0
_SMALL_PATCH = 2048
_BYTES = 12 << 20


class Frame(NamedTuple):
    """A snapshot as its reference and what differs from it, both packed."""

    time: float
    reference: bytes
    patch: bytes


class Frames:
    """The whole snapshots of the last ten minutes, fewer of a host too large for that."""

    def __init__(self) -> None:
        self._latest: Snapshot | None = None
        self._recent: deque[Frame] = deque()
        self._settled: deque[Frame] = deque()
        self._reference: Reference | None = None
        self._reference_until = 0.0

    def push(self, now: float, snapshot: Snapshot) -> None:
        """Add a snapshot; one of the same instant takes the place of the last."""
        self._latest = snapshot
        if self._recent and self._recent[-1].time == now:
            self._recent.pop()
        self._recent.append(self._frame(now, snapshot))
        if len(self._recent) > _RECENT:
            self._settle(self._recent.popleft())
        while self._settled and (
            len(self._settled) > _SETTLED or now - self._settled[0].time > _AGE_SECONDS
        ):
            self._settled.popleft()

    def moments(self) -> list[float]:
        """Return the instants of all, oldest first."""
        return [frame.time for frame in chain(self._settled, self._recent)]

    def at(self, moment: float) -> Snapshot | None:
        """Return the last one not after `moment`, else the oldest; None before the first."""
        if not self._recent or moment >= self._recent[-1].time:
            return self._latest
        place = max(bisect_right(self.moments(), moment) - 1, 0)
        frame = (*self._settled, *self._recent)[place]
        return restore(frame.reference, frame.patch)

    def step(self, moment: float, count: int) -> float:
        """Return the instant `count` snapshots away from the one of `moment`, within what is."""
        moments = self.moments()
        place = max(bisect_right(moments, moment) - 1, 0) + count
        return moments[min(max(place, 0), len(moments) - 1)] if moments else moment

    def _frame(self, now: float, snapshot: Snapshot) -> Frame:
        if self._reference is not None and now < self._reference_until:
            packed, patch = self._reference.packed, self._reference.patch(snapshot)
            if len(patch) <= max(_SMALL_PATCH, len(packed) // 2):
                return Frame(now, packed, patch)
        self._shrink()
        self._reference = Reference(snapshot)
        self._reference_until = now + _REFERENCE_SECONDS
        return Frame(now, self._reference.packed, b"")

    def _settle(self, frame: Frame) -> None:
        if not self._settled or frame.time - self._settled[-1].time >= _SETTLED_SECONDS:
            self._settled.append(frame)

    def _shrink(self) -> None:
        """Drop the oldest while all together take too much memory."""
        sizes = {id(frame.reference): len(frame.reference) for frame in self._settled}
        total = sum(sizes.values()) + sum(len(frame.patch) for frame in self._settled)
        while self._settled and total > _BYTES:
            frame = self._settled.popleft()
            shared = self._settled and self._settled[0].reference is frame.reference
            total -= len(frame.patch) + (0 if shared else len(frame.reference))
