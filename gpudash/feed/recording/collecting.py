"""The lines of a collector, byte for byte, from one that is replaced when it dies or hangs."""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from gpudash.feed.collector import Child, not_started, spawn
from gpudash.model import xid_handover
from gpudash.model.errors import GpudashError, WireError
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration
from gpudash.model.wire import decode

_STALE_SECONDS, _STALE_INTERVALS = 5.0, 3
_PATIENCE_SECONDS, _PATIENCE_MAX_SECONDS = 30.0, 300.0
_RETRY_SECONDS, _RETRY_MAX_SECONDS = 1.0, 60.0
_REAP_SECONDS = 5.0


class Collecting:
    """What a collector says; a time in which it says nothing stays empty, and is told.

    Raises GpudashError, with its own last words and status, for one that never says anything.
    """

    def __init__(
        self,
        argv: Sequence[str],
        interval: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience_seconds: float = _PATIENCE_SECONDS,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._argv = [*argv, "--interval", str(interval)]
        self._clock = clock
        self._stale_after = max(_STALE_SECONDS, _STALE_INTERVALS * interval)
        self._first_patience = self._patience = max(patience_seconds, 2 * self._stale_after)
        self._first_retry = self._retry = retry_seconds
        self._reason = ""
        self._has_spoken = False
        self._latest = b""
        self._left: dict[str, str] = {}
        self.released = False
        """Whether it lets go of the GPUs."""
        self._heard_at = self._started_at = clock()
        self._again_at = 0.0
        self._child: Child | None = self._start()

    @property
    def trouble(self) -> str:
        """Why there are no samples at the moment, empty while there are."""
        silence = self._clock() - self._heard_at
        if self._child is None:
            return self._reason
        if silence < self._stale_after:
            return ""
        return f"no sample for {duration(silence)}: the driver does not answer"

    def wait(self, seconds: float, descriptor: int) -> None:
        """Wait for lines, or until `descriptor` can be read, so long at most."""
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if self._child is not None:
            poll.register(self._child.descriptor, select.POLLIN)
        poll.poll(max(seconds, 0) * 1000)

    def take(self) -> list[bytes]:
        """Return the whole lines that have come; start another collector when it is time."""
        if self._child is None:
            if not self.released and self._clock() >= self._again_at:
                self._child = self._start()
            return []
        lines, ended = self._child.read()
        if lines:
            self._latest = lines[-1]
            self._has_spoken, self._heard_at = True, self._clock()
            self._patience, self._retry = self._first_patience, self._first_retry
        if ended:
            self._bury(self._child)
        elif self._clock() - max(self._heard_at, self._started_at) > self._patience:
            self._patience = min(2 * self._patience, _PATIENCE_MAX_SECONDS)
            self._child.abandon()
            self._child = self._start()
        return lines

    def turn(self) -> None:
        """Let go of the GPUs, so that they can be reset; when that was done, take them back."""
        self.released = not self.released
        if self.released:
            self.close()
            self._reason = "GPUs released: kill -USR1 takes them back"
        else:
            self._child, self._heard_at = self._start(), self._clock()

    def close(self) -> None:
        """Let the collector go without waiting for it."""
        if self._child is not None:
            self._child.abandon()
            self._child = None

    def _start(self) -> Child | None:
        """Start a collector; None, and another try later, if that fails after there were samples.

        Raises GpudashError before.
        """
        self._started_at = self._clock()
        self._left = xid_handover.encode_handover(self._last(), self._left)
        try:
            return spawn(self._argv, given=self._left)
        except OSError as error:
            why = not_started(error)
        self._reason = str(why)
        if not self._has_spoken:
            raise why
        self._try_later()
        return None

    def _last(self) -> Snapshot | None:
        """Return the last sample, None where there was none that can be read."""
        try:
            return decode(self._latest) if self._latest else None
        except WireError:
            return None

    def _try_later(self) -> None:
        self._again_at = self._clock() + self._retry
        self._retry = min(2 * self._retry, _RETRY_MAX_SECONDS)

    def _bury(self, child: Child) -> None:
        status = child.await_status(_REAP_SECONDS)
        words = child.last_error or f"the collector ended with status {status}"
        self._reason = words.removeprefix("gpudash: ")
        child.abandon()
        self._child = None
        if not self._has_spoken:
            error = GpudashError(self._reason)
            error.exit_status = status if status is not None and status > 0 else error.exit_status
            raise error
        self._try_later()
