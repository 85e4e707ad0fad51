"""Imports without the parts that gpudash never needs: a one-shot mostly imports.

msgspec prefers typing_extensions to typing if that is installed, supports decimals, and imports
parts only needed for schemas; uuid asks platform whether this is AIX, argparse looks for
translations, pynvml imports ctypes.util for Windows: together a sixth of all code that `gpudash
--once` runs. Only for processes of our own: others' code in the process would miss these parts.
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
    """While importing, replace a module that is not loaded yet; if None, its import fails."""
    if name in sys.modules:
        yield
        return
    # None is Python's own mark for an import that must fail.
    sys.modules[name] = instead  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def stand_in(name: str, **contents: Any) -> ModuleType:
    """Return a module of this name with only the parts that are used."""
    module = ModuleType(name)
    module.__dict__.update(contents)
    return module


def import_argparse() -> None:
    """Import it without gettext, which would look for nonexistent translations."""
    unused = stand_in("gettext", gettext=str, ngettext=lambda one, many, n: one if n == 1 else many)
    with importing("gettext", unused):
        import argparse  # noqa: F401


def import_asyncio() -> None:
    """Import it without ssl: 4 MB, and no event loop here connects to anything."""
    with importing("ssl", None):
        import asyncio  # noqa: F401


def import_msgspec() -> None:
    """Import it with signals blocked: its C code crashes if a handler raises meanwhile."""
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
    # Its dependencies were left out above.
    import msgspec.inspect  # noqa: F401
    from msgspec._json_schema import schema

    return schema(*types)
