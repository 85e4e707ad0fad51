"""A snapshot told as what differs from an earlier one.

Devices and processes are compared column by column, which costs a fraction of comparing them
value by value: a column in which nothing changed is left out, one in which anything did is kept
whole. What comes and goes is told beside the columns.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

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
