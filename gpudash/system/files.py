"""Small files of the kernel, as in /proc and /sys, that may be gone or forbidden."""

from __future__ import annotations

import os


def read_start(path: str, limit: int) -> bytes | None:
    """Return a file's first bytes, at most `limit`; None if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = chunk = os.read(descriptor, limit)
        # The kernel gives files of many records page by page.
        while chunk and len(data) < limit:
            chunk = os.read(descriptor, limit - len(data))
            data += chunk
    except OSError:  # ESRCH: the process ended between open and read
        return None
    finally:
        os.close(descriptor)
    return data


def read_link(path: str) -> str:
    """Return the target of a link, empty if it cannot be read."""
    try:
        return os.readlink(path)
    except OSError:
        return ""
