"""Room that stays for a while, so that what comes and goes does not move all else each time."""

from __future__ import annotations

_SECONDS = 60.0


class Lasting:
    """The highest of a number in the last minute or so."""

    def __init__(self) -> None:
        self.most = 0
        self._seen_at = 0.0

    def see(self, number: int, now: float) -> None:
        """Take the number of an instant in seconds; one before the last starts anew."""
        passed = now - self._seen_at
        if number >= self.most or not 0 <= passed < _SECONDS:
            self.most, self._seen_at = number, now
