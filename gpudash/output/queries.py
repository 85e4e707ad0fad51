"""nvidia-smi's selective queries as CSV: of GPUs, of processes, and of the driver's records."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from gpudash.model.device import Device
from gpudash.model.errors import UsageError
from gpudash.model.records import RetiredPage
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean, did_you_mean
from gpudash.output.smi import GPU_FIELDS, SmiField, moment
from gpudash.output.smi_layout import NEW_BRANCH, branch
from gpudash.output.smi_table import mebibytes, program, why_absent

_MODIFIERS = ("noheader", "nounits")
_COMMA = r"\x2c"
"""Replaces a comma within a text, which would start another cell."""
_KNOWN_WITHOUT_THE_DRIVER = frozenset({"timestamp", "driver_version", "count", "index"})


class Item(NamedTuple):
    """The subject of a row: something of a GPU."""

    device: Device
    of: Any
    """A process and its share, a page, ...; None if the GPU has no list of it."""


class Retired(NamedTuple):
    """The cause of page retirements, and one page; None if the GPU has no list of them."""

    cause: str
    page: RetiredPage | None


class Clocks(NamedTuple):
    """A pair of clocks that can be set, in MHz."""

    memory: int
    graphics: int


class QueryKind(Struct, frozen=True, kw_only=True):
    """One of the queries."""

    fields: Mapping[str, SmiField[Any]]
    """By each of their names."""
    rows: Callable[[Snapshot, Device], Iterable[Any]]
    """Returns the subjects of a GPU's rows."""
    reads: frozenset[str] = frozenset()
    """The fields of devices, and `processes`, that the rows need."""
    is_distinct: bool = False
    """Whether repeated rows of a GPU are left out."""


class Csv(Struct, frozen=True, kw_only=True):
    """A query with the requested fields."""

    kind: QueryKind
    fields: tuple[SmiField[Any], ...]
    header: bool = True
    units: bool = True

    @property
    def reads(self) -> frozenset[str]:
        """The fields of devices, and `processes`, that it needs."""
        return self.kind.reads.union({"failed_fields"}, *(each.reads for each in self.fields))

    def heading(self) -> str:
        """Return the full names, with the units of their columns."""
        pairs = [(each.name, each.unit) for each in self.fields]
        return ", ".join(f"{name} [{unit}]" if unit else name for name, unit in pairs)

    def rows(self, snapshot: Snapshot, chosen: Collection[str] | None = None) -> Iterator[str]:
        """Yield the rows of each GPU; only of those with the `chosen` keys."""
        for device in snapshot.devices:
            if not device.is_mig and (chosen is None or device.key in chosen):
                rows = (
                    ", ".join(self._cell(each, snapshot, about) for each in self.fields)
                    for about in self.kind.rows(snapshot, device)
                )
                yield from dict.fromkeys(rows) if self.kind.is_distinct else rows

    def _cell(self, field: SmiField[Any], snapshot: Snapshot, about: Any) -> str:
        """Return a cell; a process named `x, 4242` cannot add one, unlike in nvidia-smi."""
        text = field.text(snapshot, about)
        if text is None:
            why = None
            if isinstance(about, Device) and field.name not in _KNOWN_WITHOUT_THE_DRIVER:
                why = why_absent(about, *field.reads)
            return field.absent_in(snapshot) if why is None else f"[{why}]"
        text = text.replace(",", _COMMA)
        return f"{text} {field.unit}" if field.unit and self.units else text


def query(kind: QueryKind, names: str, format: str | None) -> Csv:
    """Return the query of these fields; raises UsageError, which suggests names."""
    if format is None:
        raise UsageError("a query needs --format=csv[,noheader][,nounits]")
    header, units = parse_format(format)
    requested = [name.strip() for name in names.split(",") if name.strip()]
    fields = tuple(_find(name, kind.fields) for name in requested)
    return Csv(kind=kind, fields=fields, header=header, units=units)


def parse_format(text: str) -> tuple[bool, bool]:
    """Return whether `csv[,noheader][,nounits]` has a heading, and units; raises UsageError."""
    modifiers = text.split(",")
    unknown = [each for each in modifiers if each not in _MODIFIERS and each != "csv"]
    if "csv" not in modifiers or unknown:
        wrong = unknown[0] if unknown else text
        raise UsageError(f"--format {wrong!r} of a query: choose csv[,noheader][,nounits]")
    return "noheader" not in modifiers, "nounits" not in modifiers


def _find(name: str, fields: Mapping[str, SmiField[Any]]) -> SmiField[Any]:
    """Return the field of a name or alias; raises UsageError, which suggests the nearest."""
    found = fields.get(name)
    if found is not None:
        return found
    hint = did_you_mean(name, fields, count=3) or "gpudash help queries lists all"
    raise UsageError(f"unknown query field {clean(name, 80)!r}: {hint}")


# The rows of a GPU


def _uses(snapshot: Snapshot, device: Device) -> Iterator[Item]:
    """Yield compute processes in the order of the driver."""
    yield from (Item(device, use) for use in snapshot.uses_of(device) if "C" in use.share.type)


def _pages(_snapshot: Snapshot, device: Device) -> Iterator[Item]:
    """Yield the retired pages by cause; a GPU without a list has a row for each cause."""
    pages = device.retired_pages
    for cause, name in (("single-bit", "Single Bit ECC"), ("double-bit", "Double Bit ECC")):
        found = (None,) if pages is None else [page for page in pages if page.cause == cause]
        yield from (Item(device, Retired(name, page)) for page in found)


def _clocks(_snapshot: Snapshot, device: Device) -> Iterator[Item]:
    pairs = [
        Clocks(each.memory_clock_mhz, graphics)
        for each in device.supported_clocks or ()
        for graphics in each.graphics_clocks_mhz
    ]
    yield from (Item(device, pair) for pair in pairs or (None,))


def _accounted(_snapshot: Snapshot, device: Device) -> Iterator[Item]:
    """Yield the driver's records of processes; a GPU without accounting has a row that says so."""
    processes = device.accounted_processes
    if processes is None and device.accounting_mode is not False:
        yield Item(device, None)
    yield from (Item(device, process) for process in processes or ())


# Their fields


def _of(write: Callable[[Any], str | None]) -> Callable[[Snapshot, Item], str | None]:
    """Return how to write a value of a row's subject; None if the GPU has none."""
    return lambda _snapshot, item: None if item.of is None else write(item.of)


def _on_gpu() -> tuple[SmiField[Item], ...]:
    """Return the fields about each row's GPU."""
    names = {"gpu_name": "name", "gpu_bus_id": "pci_bus_id", "gpu_serial": "serial"}
    return (
        SmiField("timestamp", lambda snapshot, _: moment(snapshot.taken_at)),
        *(SmiField(name, _gpu_text(field), reads=(field,)) for name, field in names.items()),
        SmiField("gpu_uuid", _gpu_text("uuid")),
    )


def _gpu_text(field: str) -> Callable[[Snapshot, Item], str | None]:
    def text(_snapshot: Snapshot, item: Item) -> str | None:
        value: str | None = getattr(item.device, field)
        return value

    return text


def _remapped(field: SmiField[Device]) -> Callable[[Snapshot, Item], str | None]:
    """Return how to write a field of --query-gpu here: older drivers write a flag as a number."""

    def text(snapshot: Snapshot, item: Item) -> str | None:
        written = field.text(snapshot, item.device)
        is_old = branch(snapshot) < NEW_BRANCH
        return {"No": "0", "Yes": "1"}.get(written or "", written) if is_old else written

    return text


def _number(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}"


def _address(retired: Retired) -> str | None:
    return None if retired.page is None else f"0x{retired.page.address:016x}"


def _retired_at(retired: Retired) -> str | None:
    """Return local time: `Tue Oct 13 10:53:41 2026`."""
    page = retired.page
    return None if page is None or page.retired_at is None else time.ctime(page.retired_at)


def _named(*fields: SmiField[Any]) -> dict[str, SmiField[Any]]:
    """Return fields by each of their names."""
    return {name: field for field in fields for name in (field.name, *field.aliases)}


QUERIES: Mapping[str, QueryKind] = {
    "gpu": QueryKind(
        fields=GPU_FIELDS,
        rows=lambda _, device: [device],
    ),
    "compute-apps": QueryKind(
        fields=_named(
            *_on_gpu(),
            SmiField("pid", _of(lambda use: str(use.process.pid))),
            SmiField(
                "process_name",
                _of(lambda use: program(use.process)),
                aliases=("name",),
                absent="[Not Found]",
            ),
            SmiField(
                "used_gpu_memory",
                _of(lambda use: mebibytes(use.share.used_gpu_memory_bytes)),
                "MiB",
                ("used_memory",),
            ),
        ),
        rows=_uses,
        reads=frozenset({"processes", "mig_mode"}),
    ),
    "remapped-rows": QueryKind(
        fields=_named(
            *_on_gpu(),
            *(
                replace(field, text=_remapped(field))
                for name, field in GPU_FIELDS.items()
                if name == field.name and name.startswith("remapped_rows.")
            ),
        ),
        rows=lambda _, device: [Item(device, None)],
    ),
    "retired-pages": QueryKind(
        fields=_named(
            *_on_gpu(),
            SmiField("retired_pages.address", _of(_address)),
            SmiField("retired_pages.timestamp", _of(_retired_at)),
            SmiField("retired_pages.cause", _of(lambda retired: retired.cause)),
        ),
        rows=_pages,
        reads=frozenset({"retired_pages"}),
    ),
    "supported-clocks": QueryKind(
        fields=_named(
            *_on_gpu(),
            SmiField("memory", _of(lambda clocks: str(clocks.memory)), "MHz", ("mem",)),
            SmiField("graphics", _of(lambda clocks: str(clocks.graphics)), "MHz", ("gr",)),
        ),
        rows=_clocks,
        reads=frozenset({"supported_clocks"}),
        is_distinct=True,
    ),
    "accounted-apps": QueryKind(
        fields=_named(
            *_on_gpu(),
            SmiField("vgpu_instance", _of(lambda _: "N/A")),
            SmiField("pid", _of(lambda process: str(process.pid))),
            SmiField(
                "gpu_utilization",
                _of(lambda process: _number(process.gpu_utilization_percent)),
                "%",
                ("gpu_util",),
            ),
            SmiField(
                "mem_utilization",
                _of(lambda process: _number(process.memory_utilization_percent)),
                "%",
                ("mem_util",),
            ),
            SmiField(
                "max_memory_usage",
                _of(lambda process: mebibytes(process.max_gpu_memory_bytes)),
                "MiB",
            ),
            SmiField(
                "time", _of(lambda process: f"{(process.active_seconds or 0) * 1000:.0f}"), "ms"
            ),
        ),
        rows=_accounted,
        reads=frozenset({"accounted_processes", "accounting_mode"}),
    ),
}
"""The queries: `gpu` for --query-gpu."""
