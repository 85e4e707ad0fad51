"""For how long a process had held memory without working, now and at every instant of the past."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from math import inf

_UNKNOWN, _WORKS = -inf, inf
_MOST, _DROPPED = 1024, 256
"""Changes that are kept, and the oldest that go at once: every snapshot kept may be one."""


class Idleness:
    """What was known of one process, change by change: one that stays as it is takes no room."""

    __slots__ = ("_idle_since", "_known", "_times")

    def __init__(self) -> None:
        self._idle_since: float | None = None
        self._times = array("d")
        self._known = array("d")
        """Since when it was idle, as was known from each of the times on; or one of the above."""

    def see(self, now: float, memory: int | None, sm: int | None) -> None:
        """Note whether it works; where that is not known, what was known before stands still."""
        if sm or memory == 0:
            self._idle_since = None
        elif sm is not None and self._idle_since is None:
            self._idle_since = now
        known = _WORKS if self._idle_since is None else self._idle_since
        if sm is None:
            known = _UNKNOWN
        if self._times and self._times[-1] == now:
            self._known[-1] = known
        elif not self._known or self._known[-1] != known:
            self._times.append(now)
            self._known.append(known)
            if len(self._times) > _MOST:
                del self._times[:_DROPPED], self._known[:_DROPPED]

    def seconds(self, moment: float) -> float | None:
        """Return for how long it had been idle at an instant: 0 if it worked or held nothing.

        None if that was not known then, or is no longer.
        """
        place = bisect_right(self._times, moment) - 1
        since = self._known[place] if place >= 0 else _UNKNOWN
        if since == _UNKNOWN:
            return None
        return 0.0 if since == _WORKS else moment - since
