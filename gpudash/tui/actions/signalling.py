"""Signalling processes: the one topic that a read-only screen does without."""

from __future__ import annotations

from gpudash.tui.screen import LiveApp


class Signalling(LiveApp):
    """Asks, signals, and shows what came of it."""

    def action_kill(self, signal_name: str) -> None:
        """Ask whether to signal what is tagged, or else what is selected."""
        if self.dashboard.recorded:
            self.show_message("this is a recording: none of its processes can be signalled")
            return
        if self.dashboard.read_only:
            self.show_message("read-only: nothing is sent")
            return
        if self.dashboard.devices.focused:
            self.show_message("Tab goes back to the processes, to choose which")
            return
        # A read-only screen must not even load what can signal.
        from gpudash.tui.actions.kill import ask

        ask(self, signal_name)
