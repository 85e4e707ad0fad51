"""A quick start: libraries loaded without the modules that they import and gpudash never needs.

A one-shot spends nearly all of its time importing, and a third of that on two modules that are
loaded for nothing: msgspec prefers typing_extensions over typing, pynvml imports ctypes.util
(and with it shutil, tempfile and subprocess) and does not use it on Linux.
"""

from __future__ import annotations

import gc
import sys
from types import ModuleType, TracebackType


class Instead:
    """While it lasts, imports of a module get another one, or none if that is None."""

    def __init__(self, name: str, other: ModuleType | None) -> None:
        self._name = name
        self._other = other
        self._is_needed = name not in sys.modules

    def __enter__(self) -> None:
        if self._is_needed:
            # None in sys.modules is how Python itself marks an import that must fail.
            sys.modules[self._name] = self._other  # type: ignore[assignment]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_needed:
            del sys.modules[self._name]


def begin() -> None:
    """Load msgspec, and keep the collector of garbage out of the imports to come."""
    gc.disable()
    with Instead("typing_extensions", None):
        import msgspec  # noqa: F401


def settle() -> None:
    """Go on for long: what was imported stays, and garbage is collected from now on."""
    gc.freeze()
    gc.enable()


def without_ctypes_util() -> Instead:
    """Return the context in which to import pynvml."""
    stand_in = ModuleType("ctypes.util")
    stand_in.find_library = lambda _: None  # type: ignore[attr-defined]
    return Instead("ctypes.util", stand_in)
