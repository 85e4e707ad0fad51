"""A quick start: libraries loaded without the modules that they import and gpudash never needs.

A one-shot spends nearly all of its time importing, and a third of that on modules that are loaded
for nothing: msgspec prefers typing_extensions over typing, imports textwrap for the help of JSON
Schema and uuid, which imports platform to learn that this is Linux; pynvml imports ctypes.util
(and with it shutil, tempfile and subprocess) and does not use it on Linux.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
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
    handled = [each for each in signal.valid_signals() if callable(signal.getsignal(each))]
    # What a handler raises meanwhile would crash msgspec, whose C asks Python for modules.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    try:
        with Instead("typing_extensions", None), _without_platform(), _without_textwrap():
            import msgspec  # noqa: F401
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def settle() -> None:
    """Go on for long: what was imported stays, and garbage is collected from now on."""
    gc.freeze()
    gc.enable()


def without_ctypes_util() -> Instead:
    """Return the context in which to import pynvml."""
    return _instead("ctypes.util", find_library=lambda _: None)


def _without_platform() -> Instead:
    return _instead("platform", system=lambda: os.uname().sysname)


def _without_textwrap() -> Instead:
    return _instead("textwrap", dedent=_dedent)


def _dedent(text: str) -> str:
    from textwrap import dedent

    return dedent(text)


def _instead(name: str, **functions: Callable[..., object]) -> Instead:
    stand_in = ModuleType(name)
    stand_in.__dict__.update(functions)
    return Instead(name, stand_in)
