"""Which instant of the history is shown: the present, where it was stopped, or an earlier one."""

from __future__ import annotations

from gpudash.analysis.history import History
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration


class Playhead:
    """Stands on the present until the screen is frozen or stepped back."""

    def __init__(self, history: History) -> None:
        self.paused = False
        self.moment: float | None = None
        """The instant of the past that is shown, on the history's clock; None for the present."""
        self._history = history
        self._paused_at = 0.0

    def pause(self) -> None:
        """Stay at the present instant."""
        self.paused = True
        self._paused_at = self._history.now
        self._history.freeze_last_row()

    def go_live(self) -> None:
        """Follow the present again."""
        self.paused, self.moment = False, None

    def step(self, samples: int) -> Snapshot | None:
        """Return an earlier or later sample to be shown; None if that is the present."""
        now = self.view_time
        moment = self._history.step(self._history.now if now is None else now, samples)
        return self._show(moment, is_live=samples > 0 and moment >= self._history.moments[-1])

    def go_to(self, instant: float) -> Snapshot | None:
        """Return the sample of an instant on the history's clock; None if that is the present."""
        moment = self._history.step(instant, 0)
        return self._show(moment, is_live=moment >= self._history.moments[-1])

    def _show(self, moment: float, *, is_live: bool) -> Snapshot | None:
        if is_live:
            self.go_live()
            return None
        self.paused, self.moment = True, moment
        self._history.freeze_last_row()
        return self._history.at(moment)

    @property
    def view_time(self) -> float | None:
        """The instant that is shown, on the history's clock; None while that is the present."""
        if self.moment is None and self.paused:
            return self._paused_at
        return self.moment

    @property
    def mark(self) -> str:
        """The mark in the header: `PAUSED`, `0.5s AGO`, `2m05s AGO`, nothing in the present."""
        past = 0.0 if self.moment is None else self._history.now - self.moment
        if past:
            return f"{_span(past)} AGO"
        return "PAUSED" if self.paused else ""


def _span(seconds: float) -> str:
    """Return a span to the nearest second, below one to the nearest tenth: samples may be close."""
    return f"{max(seconds, 0.1):.1f}s" if seconds < 0.95 else duration(round(seconds))
