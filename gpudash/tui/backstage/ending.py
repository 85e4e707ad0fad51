"""An app that ends in order where the system gives it no more files or memory.

Textual tells of an error by its source, for which it would have to open files: it would hang.
"""

from __future__ import annotations

from textual.app import App

from gpudash.errors import EXHAUSTED


class EndingApp(App[int]):
    """Ends with what the system refused, to be told when the terminal is as it was."""

    refusal: OSError | MemoryError | None = None
    """What ended the app, if the system did."""

    def _handle_exception(self, error: Exception) -> None:
        if isinstance(error, MemoryError) or (
            isinstance(error, OSError) and error.errno in EXHAUSTED
        ):
            self.refusal = self.refusal or error
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)
