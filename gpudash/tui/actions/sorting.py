"""Sorting the processes, by key, by heading and by name."""

from __future__ import annotations

from gpudash.analysis.columns import PROCESS_COLUMNS
from gpudash.analysis.filter.terms import TERMS
from gpudash.tui.dialogs.choices import Choice
from gpudash.tui.listing import starts_largest
from gpudash.tui.screen import LiveApp
from gpudash.tui.views.stack import put_above


class Sorting(LiveApp):
    """Chooses the column that the processes are sorted by."""

    def action_sort(self, step: int) -> None:
        """Sort by a neighbour of the column in force."""
        keys, listing = self.picture.processes.sortable, self.picture.listing
        if keys:
            place = keys.index(listing.sort_key) if listing.sort_key in keys else 0
            self.sort_by(keys[(place + step) % len(keys)])

    def action_reverse(self) -> None:
        """Turn the order around."""
        self.sort_by(self.picture.listing.sort_key)

    def action_choose_sort(self) -> None:
        """Choose the column from a list of all, those that have no room on screen too."""
        from gpudash.tui.dialogs.choose import ChooseScreen

        current = self.picture.listing.sort_key
        choices = [
            Choice(
                column.key,
                column.key.replace("_", " "),
                column.header,
                column.key == current,
                _term_names(column.key),
            )
            for column in PROCESS_COLUMNS
        ]
        screen = ChooseScreen("Sort by", choices, self.picture.theme, current=current)
        put_above(self, screen, self._sort_chosen)

    def _sort_chosen(self, key: str | None) -> None:
        if key is not None and key != self.picture.listing.sort_key:
            self.sort_by(key)
        self.redraw()

    def sort_by(self, key: str) -> None:
        """Sort by a column; the column in force turns around."""
        listing = self.picture.listing
        listing.sort_by(key)
        reverse = listing.descending is not starts_largest(listing.sort_key)
        self.prefer(sort=listing.sort_key, reverse=reverse)
        self.say("")


def _term_names(key: str) -> str:
    """Return what the filter's term for a column is called: `mem` is GPU memory there, too."""
    return next((" ".join(term.names) for term in TERMS if key in term.names), "")
