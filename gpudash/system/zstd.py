"""The zstd of Python 3.14, or its backport, and compression of bytes."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["pack", "unpack", "zstd"]

_LEVEL = 2


def pack(data: bytes, like: bytes = b"") -> bytes:
    """Return one frame, compressed for speed; a small one if `data` is similar to `like`.

    `like` is empty or has at least eight bytes.
    """
    return zstd.compress(data, _LEVEL, zstd_dict=_prefix(like))


def unpack(frame: bytes, like: bytes = b"") -> bytes:
    """Return the packed data, with the same `like`."""
    return zstd.decompress(frame, zstd_dict=_prefix(like))


def _prefix(like: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(like, is_raw=True).as_prefix if like else None
