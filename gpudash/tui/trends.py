"""The last minutes of many numbers in columns of ten seconds, cheap to ask for at every tick.

A column stays where it is until all move on by one together, so that between two moves only the
last one changes: on the screen, and in what is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudash.history import History, Key

COLUMN_SECONDS = 10
_POINTS = 2
"""Points in a column: the halves of a braille cell."""

Values = list[float | None]
Join = Callable[[Sequence[float]], float]


class Trends:
    """Series of a history, all of them up to the same instant."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._until = 0.0
        self._column = -1
        self._past: dict[object, Values] = {}

    def show(self, moment: float | None) -> None:
        """Let all series end at an instant of the past, or now."""
        self._until = self._history.now if moment is None else moment
        column = int(self._until // COLUMN_SECONDS)
        if column != self._column:
            self._column = column
            self._past.clear()

    def values(self, key: Key, field: str, columns: int) -> Values:
        """Return two points for each column, the later of the last one None until its time."""
        return self._joined((key, field, columns), (key,), field, columns, None)

    def joined(self, keys: Sequence[str], field: str, columns: int, join: Join) -> Values:
        """Return what `join` makes of the known values of several devices, point by point."""
        return self._joined((tuple(keys), field, columns, join), keys, field, columns, join)

    def _joined(
        self, name: object, keys: Sequence[Key], field: str, columns: int, join: Join | None
    ) -> Values:
        past = self._past.get(name)
        if past is None:
            past = self._past[name] = self._points(keys, field, columns, join)[:-_POINTS]
        return past + self._points(keys, field, 1, join)

    def _points(self, keys: Sequence[Key], field: str, columns: int, join: Join | None) -> Values:
        """Return the points of whole columns, so that one begins where a column does."""
        begun = int(self._until // (COLUMN_SECONDS / _POINTS)) - self._column * _POINTS + 1
        count = (columns - 1) * _POINTS + begun
        seconds = count * COLUMN_SECONDS / _POINTS
        rows = [self._history.series(key, field, seconds, count, self._until) for key in keys]
        points = (
            rows[0] if join is None else [_join(point, join) for point in zip(*rows, strict=True)]
        )
        return points + [None] * (_POINTS - begun)


def _join(values: Sequence[float | None], join: Join) -> float | None:
    known = [value for value in values if value is not None]
    return join(known) if known else None
