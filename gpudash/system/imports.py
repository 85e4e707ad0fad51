"""Imports without what gpudash never needs of them: most of a one-shot is importing.

msgspec prefers typing_extensions over typing where that is installed, and pynvml imports
ctypes.util for Windows: together a tenth of all that `gpudash --once` imports, as much as psutil.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def importing(name: str, stand_in: ModuleType | None) -> Iterator[None]:
    """Let imports of a module that is not yet loaded get another one, or fail where it is None."""
    if name in sys.modules:
        yield
        return
    # None is how Python itself marks an import that must fail.
    sys.modules[name] = stand_in  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def import_asyncio() -> None:
    """Import it without ssl: 4 MB, and no event loop here connects to anything."""
    with importing("ssl", None):
        import asyncio  # noqa: F401


def import_msgspec() -> None:
    """Import it while no signal is handled: its C code crashes where a handler raises meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with importing("typing_extensions", None):
            import msgspec  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
