"""An app that ends in order where the system gives it no more files, threads or memory.

Textual tells of an error by its source, for which it would have to open files: it would hang.
"""

from __future__ import annotations

from textual.app import App

from gpudash.model.errors import is_exhausted


class EndingApp(App[int]):
    """Ends with what the system refused, to be told when the terminal is as it was."""

    refusal: Exception | None = None
    """What ended the app, if the system did."""

    def _handle_exception(self, error: Exception) -> None:
        if is_exhausted(error):
            self.refusal = self.refusal or error
            self._close_messages_no_wait()
        else:
            super()._handle_exception(error)
