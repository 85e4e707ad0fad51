"""The prompt that filters the processes as the filter is typed."""

from __future__ import annotations

from gpudash.analysis.filter import EVERYTHING, Filter, hint, parse
from gpudash.analysis.filter.terms import TERMS
from gpudash.model.errors import FilterError
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.dialogs.prompt import Prompt, advice, complaint, remark, typed
from gpudash.tui.draw.processes import share
from gpudash.tui.listing import Key

CURSOR_KEYS = {"up": "move(-1)", "down": "move(1)", "pageup": "page(-1)", "pagedown": "page(1)"}
"""Actions of the keys that edit no text: they move the cursor while a filter is typed."""

_SIGN = "/"
_NOTHING_FITS = "No process fits; Esc shows all"


class FilterPrompt(Prompt):
    """Narrows the processes down to what is typed; the app gives it keys, room and its lines."""

    def __init__(self, dashboard: DashboardModel) -> None:
        super().__init__(dashboard.theme.header, id="prompt")
        self._dashboard = dashboard
        self._before: Filter = EVERYTHING
        self._anchor: Key | None = None
        """The process under the cursor when the prompt was opened, or moved to since."""
        self._error: FilterError | None = None

    def begin(self) -> None:
        """Open with the filter in force."""
        listing = self._dashboard.listing
        self._before, self._error = listing.filter, None
        self.follow_cursor()
        self.open(listing.filter.text)

    def follow_cursor(self) -> None:
        """Note the process under the cursor, which goes back there whenever that fits."""
        self._anchor = self._dashboard.listing.selected_key

    def apply(self) -> None:
        """Show what fits so far, without regard to a word that is wrong or not yet whole."""
        wanted, self._error = _understood(self.editor.text)
        if wanted is not None:
            self._dashboard.listing.filter_by(wanted, anchor=self._anchor)

    def keep(self) -> bool:
        """Close, unless the filter is wrong; return whether it did."""
        if self._error is None:
            self.close()
        return self._error is None

    def abandon(self) -> None:
        """Close as if nothing had been typed."""
        self._dashboard.listing.filter_by(self._before, anchor=self._anchor)
        self.close()

    @property
    def warning(self) -> str:
        """Why a filter that fits no process does not, empty where some fit."""
        listing = self._dashboard.listing
        if not listing.filter.clauses or listing.matching or not listing.everything:
            return ""
        return self._hint or _NOTHING_FITS

    def draw(self) -> bool:
        """Draw the filter with what is wrong with it, or with what could follow.

        Returns whether that takes another number of lines than before.
        """
        theme, editor, cells = self._dashboard.theme, self.editor, self.app.size.width
        note, error = share(self._dashboard.listing), self._error
        top = typed(_SIGN, editor, theme, cells, note=note, error=error)
        if error is not None:
            below = complaint(_SIGN, editor, error, theme, cells)
        elif hint := self._hint:
            below = remark(hint, theme, cells)
        else:
            keys = [("Enter", "keep"), ("Esc", "take back")]
            terms = [(term.example, "") for term in TERMS]
            below = [advice(keys + terms, theme, cells)]
        changed = self.fit(1 + len(below))
        self.show([top, *below])
        return changed

    @property
    def _hint(self) -> str:
        """Why nothing fits, as far as the filter itself shows."""
        listing = self._dashboard.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self._dashboard.devices.rows])


def _understood(text: str) -> tuple[Filter | None, FilterError | None]:
    """Return the filter without its first wrong word, None if others are wrong, too."""
    try:
        return parse(text), None
    except FilterError as error:
        try:
            return parse(text[: error.start] + text[error.end :]), error
        except FilterError:
            return None, error
