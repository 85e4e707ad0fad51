"""Suspending the program from wherever its user is, be it a dialog or a prompt."""

from __future__ import annotations

from textual.events import Key

from gpudash.tui.backstage.keys import actions_of, has_use_for
from gpudash.tui.screen import LiveApp


class Suspending(LiveApp):
    """Obeys the key that suspends where those of the overview are not obeyed."""

    def on_key(self, event: Key) -> None:
        """Suspend below a dialog that has no use for the key, whatever else it holds back."""
        screen = self.screen
        if screen.is_modal and self.suspends(event.key) and not has_use_for(screen, event.key):
            self.action_suspend_process()

    def suspends(self, key: str) -> bool:
        """Return whether a key suspends in the overview, where it may have been given to others."""
        return "suspend_process" in actions_of(self, key)
