"""Filtering the processes as the filter is typed, and tagging some of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudash.analysis.filter import EVERYTHING, Filter, parse
from gpudash.analysis.filter.terms import TERMS, hint
from gpudash.model.errors import FilterError
from gpudash.tui.actions.suspending import Suspending
from gpudash.tui.draw.position import share
from gpudash.tui.draw.prompt import advice, complaint, remark, typed
from gpudash.tui.listing import Key
from gpudash.tui.views.view import View
from gpudash.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from gpudash.tui.views.users import UsersView

_SIGN = "/"
_MOVES = {"up": "move(-1)", "down": "move(1)", "pageup": "page(-1)", "pagedown": "page(1)"}


class Filtering(Suspending):
    """Narrows the processes down."""

    _filter_before: Filter = EVERYTHING
    _anchor: Key | None = None
    """Whom the cursor stood on when the prompt was opened, or was moved to since."""
    _filter_error: FilterError | None = None

    def filter_by(self, text: str) -> None:
        """Show the processes that fit a filter, in the overview.

        Raises FilterError if it is none.
        """
        wanted = parse(text)
        while isinstance(self.screen, View):
            self.pop_screen()
        self.picture.listing.filter_by(wanted)
        self.say("")

    def action_filter(self) -> None:
        """Open the prompt with the filter in force."""
        listing = self.picture.listing
        self._filter_before, self._filter_error = listing.filter, None
        self._anchor = listing.selected_key
        self.prompt.open(listing.filter.text)
        self._cover()

    def action_clear(self) -> None:
        """Go back to the present; from there, take back tags, the filter, the choice of GPUs."""
        listing = self.picture.listing
        if self.picture.playhead.paused:
            self.picture.pause(False)
        elif listing.tagged:
            listing.tagged.clear()
        elif listing.filter.clauses:
            listing.filter_by(EVERYTHING)
        else:
            self.picture.shown.show_all()
            listing.hide_devices(())
        self.say("")

    def action_tag(self) -> None:
        """Tag the selected process, or take its tag back, and go on to the next."""
        listing = self.picture.listing
        if self.picture.devices.focused:
            self.say("Tab goes back to the processes, to choose which")
            return
        listing.tag()
        listing.move(1)
        self.say("" if listing.rows else "no process is selected")

    def draw_prompt(self) -> None:
        """Draw the filter with what is wrong with it, or with what could follow."""
        if not self.prompt.is_open:
            return
        look, editor, cells = self.picture.theme, self.prompt.editor, self.size.width
        note, error = share(self.picture.listing), self._filter_error
        top = typed(_SIGN, editor, look, cells, note=note, error=error)
        if error is not None:
            below = complaint(_SIGN, editor, error, look, cells)
        elif vain := self._vain():
            below = remark(vain, look, cells)
        else:
            keys = [("Enter", "keep"), ("Esc", "take back")]
            terms = [(term.example, "") for term in TERMS]
            below = [advice(keys + terms, look, cells)]
        if self.prompt.fit(1 + len(below)):
            self._cover()
        self.prompt.show([top, *below])

    async def on_prompt_changed(self, _message: Prompt.Changed) -> None:
        """Show what fits so far, without regard to a word that is wrong or not yet whole."""
        wanted, self._filter_error = _understood(self.prompt.editor.text)
        if wanted is not None:
            self.picture.listing.filter_by(wanted, anchor=self._anchor)
        self.redraw()

    def on_prompt_kept(self, _message: Prompt.Kept) -> None:
        """Close the prompt, unless its filter is wrong."""
        if self._filter_error is None:
            self._uncover()
            listing = self.picture.listing
            if listing.filter.clauses and listing.everything and not listing.matching:
                self.picture.notice = self._vain() or "No process fits; Esc shows all"

    def on_prompt_abandoned(self, _message: Prompt.Abandoned) -> None:
        """Close the prompt as if nothing had been typed."""
        self.picture.listing.filter_by(self._filter_before, anchor=self._anchor)
        self._uncover()

    async def on_prompt_unused(self, message: Prompt.Unused) -> None:
        """Move the cursor with the keys that no text needs, or suspend."""
        if message.key in _MOVES:
            await self.run_action(_MOVES[message.key])
            self._anchor = self.picture.listing.selected_key
        elif self.suspends(message.key):
            self.action_suspend_process()

    def on_users_view_chosen(self, message: UsersView.Chosen) -> None:
        """Show a user's processes alone."""
        try:
            self.filter_by(message.filter)
        except FilterError as error:
            self.say(str(error))

    def _vain(self) -> str:
        """Return why nothing fits, as far as the filter itself tells."""
        listing = self.picture.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self.picture.rows])

    def _cover(self) -> None:
        self.lay_out()
        self.picture.notice = ""
        self.call_after_refresh(self.redraw)

    def _uncover(self) -> None:
        self.prompt.close()
        self._cover()


def _understood(text: str) -> tuple[Filter | None, FilterError | None]:
    """Return the filter without its first wrong word, None if others are wrong, too."""
    try:
        return parse(text), None
    except FilterError as error:
        try:
            return parse(text[: error.start] + text[error.end :]), error
        except FilterError:
            return None, error
