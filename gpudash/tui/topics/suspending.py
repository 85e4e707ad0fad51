"""Suspending the program from wherever its user is, be it a dialog or a prompt."""

from __future__ import annotations

from textual.events import Key

from gpudash.tui.live import LiveApp


class Suspending(LiveApp):
    """Obeys the key that suspends where those of the overview are not obeyed."""

    def on_key(self, event: Key) -> None:
        """Suspend below a dialog that has no use for the key, whatever else it holds back."""
        if self.screen.is_modal and self.suspends(event.key):
            chain = self.screen._modal_binding_chain
            if not any(event.key in bindings.key_to_bindings for _node, bindings in chain):
                self.action_suspend_process()

    def suspends(self, key: str) -> bool:
        """Return whether a key suspends in the overview, where it may have been given to others."""
        bindings = self._bindings.copy()
        bindings.apply_keymap(self._keymap)
        found = bindings.key_to_bindings.get(key, ())
        return any(binding.action == "suspend_process" for binding in found)
