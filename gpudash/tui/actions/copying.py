"""Copying to the clipboard of the terminal, also through SSH (OSC 52)."""

from __future__ import annotations

from gpudash.analysis.labels import command
from gpudash.model.units import ABSENT
from gpudash.tui.screen import LiveApp


class Copying(LiveApp):
    """Copies what identifies the selected process."""

    def action_copy_pid(self) -> None:
        """Copy the PID."""
        row = self.picture.listing.selected
        self._copy("PID", str(row.process.pid) if row else "")

    def action_copy_command(self) -> None:
        """Copy the command line as a shell would take it."""
        row = self.picture.listing.selected
        text = command(row.process) if row and row.process.command_line else ""
        self._copy("command line", text)

    def _copy(self, what: str, text: str) -> None:
        if self.picture.listing.selected is None:
            self.say("no process is selected")
        elif not text or text == ABSENT:
            self.say(f"there is no {what} to copy")
        else:
            self.copy_to_clipboard(text)
            self.say(f"copied the {what}, if the terminal takes it (OSC 52): {text}")
