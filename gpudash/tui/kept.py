"""A value that is made anew only when what it depends on has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class Kept(Generic[Value]):
    """The last value made, with what it was made of."""

    def __init__(self) -> None:
        self._last: tuple[object, Value] | None = None

    def of(self, key: object, make: Callable[[], Value]) -> Value:
        """Return what `make` made for an equal key the last time, or have it made now."""
        if self._last is None or self._last[0] != key:
            self._last = key, make()
        return self._last[1]
