"""Imports without what gpudash never needs of them: most of a one-shot is importing.

msgspec prefers typing_extensions over typing where that is installed, knows a type of decimal, and
imports what only a schema needs; uuid asks platform whether this is AIX, argparse looks for
translations, pynvml imports ctypes.util for Windows: together a sixth of all that `gpudash --once`
executes. Only in processes of our own: code of others in the process would miss what is left out.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def importing(name: str, instead: ModuleType | None) -> Iterator[None]:
    """Let imports of a module that is not yet loaded get another one, or fail where it is None."""
    if name in sys.modules:
        yield
        return
    # None is how Python itself marks an import that must fail.
    sys.modules[name] = instead  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def stand_in(name: str, **contents: Any) -> ModuleType:
    """Return a module of a name that has no more than is used of it."""
    module = ModuleType(name)
    module.__dict__.update(contents)
    return module


def import_argparse() -> None:
    """Import it without gettext, which looks for translations that do not exist."""
    unused = stand_in("gettext", gettext=str, ngettext=lambda one, many, n: one if n == 1 else many)
    with importing("gettext", unused):
        import argparse  # noqa: F401


def import_asyncio() -> None:
    """Import it without ssl: 4 MB, and no event loop here connects to anything."""
    with importing("ssl", None):
        import asyncio  # noqa: F401


def import_msgspec() -> None:
    """Import it while no signal is handled: its C code crashes where a handler raises meanwhile."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with (
            importing("typing_extensions", None),
            importing("decimal", stand_in("decimal", Decimal=type("Decimal", (), {}))),
            importing("platform", stand_in("platform", system=lambda: os.uname().sysname)),
            importing("msgspec.inspect", stand_in("msgspec.inspect")),
            importing(
                "msgspec._json_schema",
                stand_in("msgspec._json_schema", schema=_schema, schema_components=None),
            ),
        ):
            import msgspec  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _schema(*types: Any) -> Any:
    # What it needs was left out above.
    import msgspec.inspect  # noqa: F401
    from msgspec._json_schema import schema

    return schema(*types)
