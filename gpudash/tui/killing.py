"""Killing a pinned process and saying what came of it, while the screen goes on."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gpudash.errors import ActionError
from gpudash.rows import ProcessRow
from gpudash.units import size

if TYPE_CHECKING:
    from gpudash.actions import Target

_PATIENCE_SECONDS = 5.0
_LOOK_SECONDS = 0.05


async def kill(row: ProcessRow, target: Target, say: Callable[[str], None]) -> None:
    """Send SIGKILL, wait a little for the end, and report it; the target is closed after."""
    who = name(row)
    try:
        target.send(signal.SIGKILL)
        say(f"SIGKILL sent to {who}…")
        if await _ended(target):
            say(f"killed {who}{_freed(row)}")
        else:
            say(f"{who} is still there after {_PATIENCE_SECONDS:.0f} s: stuck in the kernel")
    except ActionError as error:
        say(f"refused: {error}")
    finally:
        target.close()


def name(row: ProcessRow) -> str:
    """Return `4242 (alice)`."""
    owner = row.process.username
    return f"{row.process.pid} ({owner})" if owner else str(row.process.pid)


async def _ended(target: Target) -> bool:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while target.alive():
        if time.monotonic() >= deadline:
            return False
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def _freed(row: ProcessRow) -> str:
    held = row.process.used_gpu_memory_bytes
    return "" if held is None else f": {size(held)} freed on GPU {row.gpus}"
