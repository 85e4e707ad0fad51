"""Waiting in sight of the one who waits: what is missing, who has it, how long it takes already."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from gpudash.actions.lease.choose import most_possible
from gpudash.actions.lease.request import Wish
from gpudash.model.errors import ExitStatus, GpudashError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.system import progress

_SAY_AGAIN_SECONDS = 60.0


class Waiting:
    """Time to wait, `seconds` at most and for ever with None, and the line that tells of it."""

    def __init__(self, seconds: float | None, *, since: float) -> None:
        self._since = since
        self._deadline = None if seconds is None else since + seconds
        self._on_terminal = progress.is_terminal()
        self._say_at = since
        self._line_stands = False

    def goes_on(self, lack: str) -> bool:
        """Tell what is missing, and whether there is time left to wait for it."""
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            self.end()
            progress.say(f"gpudash: {lack}\n")
            return False
        self.tell(lack)
        return True

    def tell(self, lack: str) -> None:
        """Show a line on a terminal that is replaced each time, else a line a minute."""
        now = time.monotonic()
        text = f"gpudash: waiting {duration(now - self._since)}: {lack}"
        if self._on_terminal:
            progress.show(text)
            self._line_stands = True
        elif now >= self._say_at:
            progress.say(f"{text}\n")
            self._say_at = now + _SAY_AGAIN_SECONDS

    def end(self) -> None:
        """Take the line away."""
        if self._line_stands:
            progress.end()
            self._line_stands = False

    @property
    def seconds_left(self) -> float | None:
        """Time left, None for ever."""
        if self._deadline is None:
            return None
        return max(self._deadline - time.monotonic(), 0.0)


def require_possible(now: Snapshot, wish: Wish, environ: Mapping[str, str] = os.environ) -> None:
    """Raise GpudashError for what could never be, whoever leaves: waiting would be in vain."""
    most = most_possible(now, wish, environ)
    if most < wish.count:
        error = GpudashError(
            f"{wish.count} such GPU{'s' * (wish.count != 1)} will never be free: "
            f"{most or 'none'} of this host's GPUs {'is' if most == 1 else 'are'} like that"
        )
        error.exit_status = ExitStatus.TOO_FEW_GPUS
        raise error
