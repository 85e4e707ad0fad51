"""Snapshot <-> one line of JSON, and the JSON Schema of that line.

`decode(encode(snapshot)) == snapshot` holds for every snapshot. Unknown fields of a newer schema
are ignored; a wrong type is one `WireError` that names its path.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from gpudash.model.errors import WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import LIMIT, clean, is_plain

_encoder = msgspec.json.Encoder()

_MAX_LENGTH = 10 * LIMIT + 1
"""Characters of the longest clean text: each of them an escape, and an ellipsis."""
_MIN, _MAX = -(2**63), 2**64 - 1
_MANY_DIGITS = b"0" * len(str(2**63))
_ASCII = bytes(range(128))
_DIGITS_AS_ZEROS = bytes(ord("0") if byte in b"0123456789" else byte for byte in range(256))


class Received(NamedTuple):
    """A snapshot, and the line that it was decoded from."""

    snapshot: Snapshot
    line: bytes


def encode(snapshot: Snapshot) -> bytes:
    """Return a snapshot as one line of UTF-8 JSON without its newline."""
    return _encoder.encode(snapshot)


def prepare() -> None:
    """Build the decoder ahead of the first `decode`."""
    _decoder()


def decode(line: bytes) -> Snapshot:
    """Return the snapshot of one line, with texts cleaned as `text.clean` does.

    Raises WireError for anything that is not one: cut off, no JSON, a value of a wrong type, or a
    number of more than 64 bits.
    """
    try:
        snapshot = _decoder().decode(line)
        if _may_exceed(line) and _exceeds(msgspec.to_builtins(snapshot)):
            raise WireError("not a gpudash snapshot: a number of more than 64 bits")
        if _is_harmless(line) and not _may_be_too_long(line):
            return snapshot
        return _cleaned(snapshot)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WireError(f"not a gpudash snapshot: {error}") from None


def pretty(line: bytes) -> bytes:
    """Return the same document indented for people."""
    return msgspec.json.format(line, indent=2)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a document, with each field's help, unit and NVML call."""
    schema = msgspec.json.schema(Snapshot)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "gpudash snapshot",
        **schema,
    }


def _is_harmless(line: bytes) -> bool:
    """Whether all texts of a valid document are printable, judged from its bytes.

    Printable text needs no escapes but those of the quote and the backslash themselves, and a
    valid document has no control character that is not escaped, but the last one of ASCII.
    """
    if line.isascii() and b"\\" not in line and b"\x7f" not in line:
        return True
    if b"\\" in line:
        rest = line.replace(b"\\\\", b"")
        if rest.count(b"\\") != rest.count(b'\\"'):
            return False
    # In UTF-8 no character is made of bytes of ASCII and others both.
    return b"\x7f" not in line and all(map(is_plain, set(line.translate(None, _ASCII).decode())))


def _may_be_too_long(line: bytes) -> bool:
    """Whether a document may hold a text longer than a clean one."""
    start = 0
    while len(line) - start > _MAX_LENGTH:
        quote = line.rfind(b'"', start, start + _MAX_LENGTH + 1)
        if quote < 0:
            return True
        start = quote + 1
    return False


def _may_exceed(line: bytes) -> bool:
    """Whether a document has a run of digits that may be too large a number."""
    return _MANY_DIGITS in line.translate(_DIGITS_AS_ZEROS)


def _exceeds(value: Any) -> bool:
    """Whether there is a number of more than 64 bits, which no driver returns."""
    if isinstance(value, (list, tuple)):
        return any(map(_exceeds, value))
    if isinstance(value, dict):
        return any(map(_exceeds, value.values()))
    return isinstance(value, int) and not _MIN <= value <= _MAX


def _cleaned(snapshot: Snapshot) -> Snapshot:
    return msgspec.convert(_clean_values(msgspec.to_builtins(snapshot)), Snapshot)


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
    return msgspec.json.Decoder(Snapshot)
