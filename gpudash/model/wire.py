"""Snapshot <-> one line of JSON, and the JSON Schema of that line.

`decode(encode(snapshot)) == snapshot` holds for every snapshot. Unknown fields of a newer schema
are ignored; a wrong type or an impossible value is one `WireError` that names its path.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from gpudash.model.errors import WireError
from gpudash.model.fault import Fault
from gpudash.model.fields import read_declarations, read_types_only
from gpudash.model.snapshot import LeftOut, Snapshot
from gpudash.model.text import LIMIT, NAME_BYTES, SafeText, bound, bound_all, clean, is_plain
from gpudash.model.units import counted

_encoder = msgspec.json.Encoder()

MAX_BYTES = 8 * 1024 * 1024
"""Limit of a document: half of a reader's."""
_NOTE_BYTES = 512
"""More than the counts of omitted parts take."""
COMPACT_COMMAND_BYTES = 200
"""Limit of a command line in a compact document, which is read at the other end of a link."""
NOT_COMPACT = ("holder_pids", "supported_clocks", "accounted_processes", "nvlinks")
"""Fields of a device that are as long as all others together."""
_COMPACT_COUNT = 1024
_SOURCE = "document"
_NOUNS = {
    "command_lines": "command line",
    "holders": "holder",
    "findings": "finding",
    "processes": "process",
}
"""The subjects of the counts in `left_out`, by field."""

_MAX_LENGTH = 10 * LIMIT + 1
"""Characters of the longest clean text: each of them an escape, and an ellipsis."""
_FIRST = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST = datetime(9998, 12, 31, tzinfo=timezone.utc)
"""Between these, an instant has a date in every time zone."""
_ASCII = bytes(range(128))

_Document = TypeVar("_Document", bound="Document")


class Document(Protocol):
    """The content of a line: the snapshot of a host, or of many."""

    @property
    def taken_at(self) -> datetime:
        """When it was taken."""


class Received(msgspec.Struct, Generic[_Document], frozen=True):
    """A document, and the line that it was decoded from."""

    snapshot: _Document
    line: bytes


def encode(snapshot: Snapshot) -> bytes:
    """Return a snapshot as one line of UTF-8 JSON without its newline.

    If it would take more than `MAX_BYTES`, the least important parts are omitted, in this order:
    arguments, of the processes with the least GPU memory first; data of holders beyond their PIDs;
    findings that are not critical; processes with the least GPU memory. `left_out` counts them, and
    a fault names them.
    """
    line = _encoder.encode(snapshot)
    if len(line) <= MAX_BYTES:
        return line
    return _encoder.encode(_shortened(snapshot, len(line) - MAX_BYTES + _NOTE_BYTES))


def encode_compact(snapshot: Snapshot) -> bytes:
    """Return a snapshot as a short line for a slow link, which `decode` reads too.

    Without topology, holders, long lists of devices and None values; command lines take at most
    `COMPACT_COMMAND_BYTES`, and of processes and findings there are `_COMPACT_COUNT` each.
    """
    without = dict.fromkeys(NOT_COMPACT)
    devices = tuple([replace(device, **without) for device in snapshot.devices])
    processes = tuple(
        [
            replace(process, command_line=bound_all(process.command_line, COMPACT_COMMAND_BYTES))
            if process.command_line
            else process
            for process in snapshot.processes[:_COMPACT_COUNT]
        ]
    )
    findings = None if snapshot.findings is None else snapshot.findings[:_COMPACT_COUNT]
    left_out = _sum(
        snapshot.left_out or LeftOut(),
        LeftOut(
            findings=len(snapshot.findings or ()) - len(findings or ()),
            processes=len(snapshot.processes) - len(processes),
        ),
    )
    short = replace(
        snapshot,
        topology=None,
        holders=(),
        devices=devices,
        processes=processes,
        findings=findings,
        left_out=None if left_out == LeftOut() else left_out,
    )
    document = msgspec.to_builtins(short, builtin_types=(datetime,))
    document["host"] = _without_none(document["host"])
    document["devices"] = [_without_none(device) for device in document["devices"]]
    document["processes"] = [_without_none(process) for process in document["processes"]]
    return _encoder.encode(document)


def _without_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _shortened(snapshot: Snapshot, excess: int) -> Snapshot:
    """Return a snapshot whose document is `excess` bytes shorter, as far as possible."""
    processes, holders = list(snapshot.processes), list(snapshot.holders)
    findings = list(snapshot.findings or ())
    least_first = sorted(
        range(len(processes)), key=lambda index: processes[index].used_gpu_memory_bytes or 0
    )
    command_lines = 0
    for index in least_first:
        process = processes[index]
        if excess > 0 and process.command_line and process.command_line[1:]:
            line = bound(process.command_line[0], NAME_BYTES), SafeText("…")
            excess -= _size(process.command_line) - _size(line)
            processes[index] = replace(process, command_line=line)
            command_lines += 1
    while excess > 0 and holders:
        excess -= _size(holders.pop())
    while excess > 0 and findings and findings[-1].level != "critical":
        excess -= _size(findings.pop())
    missing = set()
    for index in least_first:
        if excess > 0:
            excess -= _size(processes[index])
            missing.add(index)
    left_out = _sum(
        snapshot.left_out or LeftOut(),
        LeftOut(
            command_lines=command_lines,
            holders=len(snapshot.holders) - len(holders),
            findings=len(snapshot.findings or ()) - len(findings),
            processes=len(missing),
        ),
    )
    kept = tuple(each for index, each in enumerate(processes) if index not in missing)
    return replace(
        snapshot,
        processes=kept,
        holders=tuple(holders),
        findings=None if snapshot.findings is None else tuple(findings),
        errors=(*(each for each in snapshot.errors if each.source != _SOURCE), _fault(left_out)),
        left_out=left_out,
    )


def _size(part: object) -> int:
    return len(_encoder.encode(part))


def _sum(first: LeftOut, second: LeftOut) -> LeftOut:
    names = LeftOut.__struct_fields__
    return LeftOut(**{name: getattr(first, name) + getattr(second, name) for name in names})


def _fault(left_out: LeftOut) -> Fault:
    """Return the omitted parts in one line."""
    counts = [(getattr(left_out, name), _NOUNS[name]) for name in LeftOut.__struct_fields__]
    parts = ", ".join(counted(count, noun) for count, noun in counts if count)
    message = f"too much for one document of {MAX_BYTES >> 20} MiB; left out: {parts}"
    return Fault(source=_SOURCE, message=SafeText(message))


def prepare() -> None:
    """Build the decoder ahead of the first `decode`."""
    _decoder()


def decode(line: bytes) -> Snapshot:
    """Return the snapshot in one line, with texts cleaned as by `text.clean`.

    Raises WireError for anything else: truncated, not JSON, a value of a wrong type or outside the
    range of its field.
    """
    return decode_document(line, _decoder(), _require_square)


def decode_document(
    line: bytes,
    decoder: msgspec.json.Decoder[_Document],
    check: Callable[[_Document], None] | None = None,
    what: str = "snapshot",
) -> _Document:
    """Return the document in one line, like `decode`; `check` may raise ValidationError.

    `what` is its name in errors.
    """
    try:
        document = decoder.decode(line)
        require_calendar(document.taken_at)
        if check is not None:
            check(document)
        if _is_harmless(line) and not _may_be_too_long(line):
            return document
        return msgspec.convert(_clean_values(msgspec.to_builtins(document)), decoder.type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"not a gpudash {what}: {error}") from None


def decoder_of(document: type[_Document]) -> msgspec.json.Decoder[_Document]:
    """Return a decoder of a kind of document for `decode_document`."""
    read_types_only()
    return msgspec.json.Decoder(document)


def require_calendar(taken_at: datetime) -> None:
    """Raise ValidationError for an instant without a date in some time zone."""
    if not _FIRST <= taken_at <= _LAST:
        problem = f"Expected a date from {_FIRST:%F} to {_LAST:%F} - at `$.taken_at`"
        raise msgspec.ValidationError(problem)


def _require_square(snapshot: Snapshot) -> None:
    """Raise ValidationError for a matrix or a list that does not have one entry per GPU."""
    topology = snapshot.topology
    if topology is None:
        return
    count = len(topology.uuids)
    for name in topology.__struct_fields__:
        rows = getattr(topology, name)
        if rows is None or name == "nics":
            continue
        is_matrix = name in ("links", "pci_links") or name.startswith("p2p_")
        if len(rows) != count or (is_matrix and any(len(row) != count for row in rows)):
            problem = f"Expected {count} entries, one a GPU - at `$.topology.{name}`"
            raise msgspec.ValidationError(problem)
    expected = count, len(topology.nics)
    if any((len(nic.gpu_links), len(nic.nic_links)) != expected for nic in topology.nics):
        raise msgspec.ValidationError("Expected one entry a GPU and a card - at `$.topology.nics`")


def pretty(line: bytes) -> bytes:
    """Return the same document indented for people."""
    return msgspec.json.format(line, indent=2)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document, with each field's help, unit and NVML call."""
    return schema_of(Snapshot, "gpudash snapshot")


def schema_of(document: type[msgspec.Struct], title: str) -> dict[str, Any]:
    """Return the JSON Schema of a kind of document under a title."""
    read_declarations()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **msgspec.json.schema(document),
    }


def _is_harmless(line: bytes) -> bool:
    """Whether all texts of a valid document are printable, judged from its bytes.

    Printable text needs no escapes but those of the quote and the backslash themselves, and a valid
    document has no unescaped control character except for the last one of ASCII.
    """
    if line.isascii() and b"\\" not in line and b"\x7f" not in line:
        return True
    if b"\\" in line:
        rest = line.replace(b"\\\\", b"")
        if rest.count(b"\\") != rest.count(b'\\"'):
            return False
    # In UTF-8, no character mixes ASCII bytes with others.
    return b"\x7f" not in line and all(map(is_plain, set(line.translate(None, _ASCII).decode())))


def _may_be_too_long(line: bytes) -> bool:
    """Whether a document may contain a text longer than a clean one."""
    start = 0
    while len(line) - start > _MAX_LENGTH:
        quote = line.rfind(b'"', start, start + _MAX_LENGTH + 1)
        if quote < 0:
            return True
        start = quote + 1
    return False


def _clean_values(value: Any) -> Any:
    if isinstance(value, str):
        return value if clean(value, _MAX_LENGTH) == value else clean(value)
    if isinstance(value, (list, tuple)):
        return [_clean_values(item) for item in value]
    if isinstance(value, dict):
        return {key: _clean_values(item) for key, item in value.items()}
    return value


@lru_cache(maxsize=1)
def _decoder() -> msgspec.json.Decoder[Snapshot]:
    """Build the decoder on first use: a one-shot only encodes."""
    return decoder_of(Snapshot)
