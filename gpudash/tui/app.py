"""The live screen with all that its keys do."""

from __future__ import annotations

from typing import Any, ClassVar

from gpudash.model.errors import ExitStatus
from gpudash.tui.actions.navigation import Filtering, Moving, Pointing
from gpudash.tui.actions.panels import Copying, Showing
from gpudash.tui.actions.signalling import Signalling
from gpudash.tui.actions.time import Driving, Replaying
from gpudash.tui.bindings import bindings
from gpudash.tui.keymap import OVERVIEW_KEYS
from gpudash.tui.views.view import View


def _names(keys: Any) -> frozenset[str]:
    return frozenset(key.action.partition("(")[0] for key in keys)


_SIGNALLING = _names(key for key in OVERVIEW_KEYS if key.signals)
_OF_OVERVIEW = _names(
    key
    for key in OVERVIEW_KEYS
    if key.group in ("Move", "Sort", "Filter", "GPUs", "Panels") or key.id == "process.tag"
)
"""What would change unseen while another view lies above the overview."""
_OF_SELECTION = _SIGNALLING | _names(
    key for key in OVERVIEW_KEYS if key.action.startswith(("copy", "view_process"))
)
"""What concerns the process that is selected there."""


class GpudashApp(Moving, Filtering, Showing, Pointing, Replaying, Driving, Copying, Signalling):
    """Shows the snapshots of a feed until its user leaves."""

    BINDINGS: ClassVar[list[Any]] = bindings(OVERVIEW_KEYS)
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what would not be seen, or is not for what is in front."""
        if self.screen.is_modal:
            # A key that was on its way here when a dialog came above.
            return False
        if isinstance(self.screen, View) and (
            action in _OF_OVERVIEW or (action in _OF_SELECTION and not self.screen.may_signal)
        ):
            return False
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        """Quit."""
        self._leave_with(ExitStatus.OK)

    def action_redraw(self) -> None:
        """Send every cell again."""
        self.forget_frame()
