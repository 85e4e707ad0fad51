"""The last minutes of many numbers in columns of some seconds, cheap to ask for at every tick.

A column stays where it is until all move on by one together, so that between two moves only the
last one changes: on the screen, and in what is computed here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudash.analysis.history import History, Key

COLUMN_SECONDS = (5, 10)
"""What a column stands for: the less, the younger the history, so that a curve soon fills."""
_POINTS = 2
"""Points in a column: the halves of a braille cell."""

Values = list[float | None]
Join = Callable[[Sequence[float]], float]


class Trends:
    """Series of a history, all of them up to the same instant."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._until = 0.0
        self._scales = {seconds: _Scale(seconds) for seconds in COLUMN_SECONDS}

    def show(self, moment: float | None) -> None:
        """Let all series end at an instant of the past, or now."""
        self._until = self._history.now if moment is None else moment
        for scale in self._scales.values():
            scale.show(self._until, self._history.began)

    def column_seconds(self, columns: int) -> int:
        """Return for how long each of so many columns stands: what lets them hold everything."""
        age = self._until - self._history.began
        fitting = (seconds for seconds in COLUMN_SECONDS if columns * seconds >= age)
        return next(fitting, COLUMN_SECONDS[-1])

    def values(self, key: Key, field: str, columns: int) -> Values:
        """Return two points for each column, the later of the last one None until its time."""
        return self._joined((key, field, columns), (key,), field, columns, None)

    def joined(self, keys: Sequence[str], field: str, columns: int, join: Join) -> Values:
        """Return what `join` makes of the known values of several devices, point by point."""
        return self._joined((tuple(keys), field, columns, join), keys, field, columns, join)

    def _joined(
        self, name: object, keys: Sequence[Key], field: str, columns: int, join: Join | None
    ) -> Values:
        scale = self._scales[self.column_seconds(columns)]
        column, past = scale.past.get(name, (scale.column - columns, []))
        new = scale.column - column
        if new >= columns:
            past = self._points(scale, keys, field, columns, join)[:-_POINTS]
        elif new:
            finished = self._points(scale, keys, field, new + 1, join)[:-_POINTS]
            past = past[new * _POINTS :] + finished
        scale.past[name] = scale.column, past
        return past + self._points(scale, keys, field, 1, join)

    def _points(
        self, scale: _Scale, keys: Sequence[Key], field: str, columns: int, join: Join | None
    ) -> Values:
        """Return the points of whole columns, so that one begins where a column does."""
        begun = int(self._until // scale.point_seconds) - scale.column * _POINTS + 1
        count = (columns - 1) * _POINTS + begun
        seconds = count * scale.point_seconds
        rows = [self._history.series(key, field, seconds, count, self._until) for key in keys]
        points = (
            rows[0] if join is None else [_join(point, join) for point in zip(*rows, strict=True)]
        )
        return points + [None] * (_POINTS - begun)


class _Scale:
    """Columns that stand for so many seconds each, and what is known of all but the last."""

    def __init__(self, seconds: int) -> None:
        self.seconds = seconds
        self.point_seconds = seconds / _POINTS
        self.column = -1
        """Number of the last column."""
        self.past: dict[object, tuple[int, Values]] = {}
        """Points of all columns but the last, and the number of the last one when they were."""
        self._began = 0.0

    def show(self, until: float, began: float) -> None:
        """Let the last column be that of an instant, in a history that began at another."""
        column = int(until // self.seconds)
        if began != self._began or column < self.column:
            self.past.clear()
        elif column > self.column:
            # What nobody asked for meanwhile may be gone for good.
            self.past = {name: past for name, past in self.past.items() if past[0] == self.column}
        self.column, self._began = column, began


def _join(values: Sequence[float | None], join: Join) -> float | None:
    known = [value for value in values if value is not None]
    return join(known) if known else None
