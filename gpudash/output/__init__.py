"""The output formats of a snapshot: `FORMATS`, and forms of other programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gpudash.analysis.table import ProcessRow
    from gpudash.model.fleet import FleetSnapshot
    from gpudash.model.snapshot import Snapshot


class Destination(NamedTuple):
    """Where a document is written."""

    is_terminal: bool = False
    width: int = 80
    color: bool = False
    ascii: bool = False
    processes: Sequence[ProcessRow] | None = None
    """The processes that a table lists, None for all; the others still count as users of GPUs."""


Format = Callable[["Snapshot", Destination], bytes]
FleetFormat = Callable[["FleetSnapshot", Destination], bytes]


def _written(module: str, function: str) -> Callable[[Any, Destination], bytes]:
    """Return a format written by a function of a module here, for any destination."""

    def write(snapshot: Snapshot | FleetSnapshot, _target: Destination) -> bytes:
        text: str = getattr(import_module(f"gpudash.output.{module}"), function)(snapshot)
        return text.encode()

    return write


def _table(snapshot: Snapshot, target: Destination) -> bytes:
    from gpudash.output import table

    text = table.render(
        snapshot,
        width=target.width,
        color=target.color,
        ascii=target.ascii,
        processes=target.processes,
    )
    return text.encode("ascii" if target.ascii else "utf-8", "backslashreplace")


def _json(snapshot: Snapshot, target: Destination) -> bytes:
    from gpudash.model import wire

    line = wire.encode(snapshot)
    return (wire.pretty(line) if target.is_terminal else line) + b"\n"


FORMATS: Mapping[str, Format] = {
    "table": _table,
    "json": _json,
    "csv": _written("csv", "render"),
    "prometheus": _written("prometheus", "render"),
    "gpustat": _written("gpustat", "render"),
}
"""The formats of `--once` by name; each imports what it needs when used."""


def _fleet_table(snapshot: FleetSnapshot, target: Destination) -> bytes:
    from gpudash.output import fleet

    text = fleet.render(snapshot, width=target.width, color=target.color, ascii=target.ascii)
    return text.encode("ascii" if target.ascii else "utf-8", "backslashreplace")


def _fleet_json(snapshot: FleetSnapshot, target: Destination) -> bytes:
    from gpudash.model import fleet, wire

    line = fleet.encode(snapshot)
    return (wire.pretty(line) if target.is_terminal else line) + b"\n"


FLEET_FORMATS: Mapping[str, FleetFormat] = {
    "table": _fleet_table,
    "json": _fleet_json,
    "csv": _written("fleet", "devices_csv"),
    "csv-hosts": _written("fleet", "hosts_csv"),
    "csv-users": _written("fleet", "users_csv"),
}
"""The formats of many hosts by name; csv has a row for each GPU."""
