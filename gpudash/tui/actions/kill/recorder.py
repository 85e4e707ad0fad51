"""Keeping the record of what was sent, in threads: a home that hangs must not hold the screen."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

from gpudash.actions.kill.audit import record
from gpudash.actions.kill.run import Sending
from gpudash.model.errors import ActionError

_LOOK_SECONDS = 0.02
_PATIENCE_SECONDS = 1.0
_SLOW = "the record of it is still being written"


class Recorder:
    """Records what a strike sends, and knows what went wrong with that."""

    def __init__(self) -> None:
        self._threads: list[threading.Thread] = []
        self._troubles: list[str] = []

    def __call__(self, sendings: Sequence[Sending]) -> None:
        """Begin to record."""
        thread = threading.Thread(target=self._write, args=(sendings,), daemon=True)
        self._threads.append(thread)
        thread.start()

    async def troubles(self) -> tuple[str, ...]:
        """Return what a person must know of the record, waiting for it a second at most."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while any(thread.is_alive() for thread in self._threads):
            if time.monotonic() >= deadline:
                return (*self._troubles, _SLOW)
            await asyncio.sleep(_LOOK_SECONDS)
        return tuple(self._troubles)

    def _write(self, sendings: Sequence[Sending]) -> None:
        try:
            record(sendings)
        except ActionError as error:
            self._troubles.append(str(error))
