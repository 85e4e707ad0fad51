"""The prompt that filters a list while the filter is typed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from rich.highlighter import Highlighter
from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.reactive import var
from textual.widgets import Static

from gpudash.analysis.filter import EVERYTHING, Filter, hint, understood
from gpudash.analysis.filter.terms import TERMS
from gpudash.analysis.history.metrics import ProcessKey
from gpudash.analysis.table import ProcessRow
from gpudash.model.errors import FilterError
from gpudash.model.text import width, wrap
from gpudash.tui.bindings import shown_key
from gpudash.tui.dashboard import DashboardModel
from gpudash.tui.draw.line import Line, cells_of, fit_parts, spread
from gpudash.tui.draw.processes import share
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import Edit, content

if TYPE_CHECKING:
    from gpudash.tui.page import Page

_SIGN = " / "
_CARET = "^"
_MIN_INPUT = 12
_MAX_COMPLAINT = 4
_MIN_BESIDE = 48
"""Width right of the carets in which an error of several lines is still readable."""


class Filtered(Protocol):
    """A list that can be filtered."""

    @property
    def text(self) -> str:
        """The filter in force."""

    @property
    def examples(self) -> Sequence[str]:
        """Examples of filters."""

    @property
    def note(self) -> str:
        """The number of matches."""

    @property
    def hint(self) -> str:
        """Why nothing matches, as far as the filter shows; empty if something does."""

    @property
    def warning(self) -> str:
        """A warning about a filter kept without matches, empty if there are some."""

    def begin(self) -> None:
        """Remember the present state for `take_back`."""

    def follow_cursor(self) -> None:
        """Remember the item under the cursor: the cursor returns to it whenever it matches."""

    def apply(self, text: str) -> FilterError | None:
        """Show the matches, ignoring an invalid or incomplete word; return the error."""

    def take_back(self) -> None:
        """Restore the remembered state."""


class FilteredProcesses:
    """The processes of the main screen."""

    examples = tuple(term.example for term in TERMS)

    def __init__(self, dashboard: DashboardModel) -> None:
        self._dashboard = dashboard
        self._before: Filter[ProcessRow] = EVERYTHING
        self._anchor: ProcessKey | None = None
        """The process under the cursor when the prompt was opened, or moved to since."""

    @property
    def text(self) -> str:
        """The filter in force."""
        return self._dashboard.listing.filter.text

    @property
    def note(self) -> str:
        """How many processes match, of how many."""
        return share(self._dashboard.listing)

    @property
    def hint(self) -> str:
        """Why nothing matches, as far as the filter shows."""
        listing = self._dashboard.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self._dashboard.devices.rows])

    @property
    def warning(self) -> str:
        """Why no process matches the filter, empty if some do."""
        listing = self._dashboard.listing
        if not listing.filter.clauses or listing.matching or not listing.everything:
            return ""
        key = shown_key(self._dashboard.keys, "filter.clear")
        return self.hint or f"No process matches the filter; {key} shows all"

    def begin(self) -> None:
        """Remember the filter in force and the process under the cursor."""
        self._before = self._dashboard.listing.filter
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Remember the process under the cursor."""
        self._anchor = self._dashboard.listing.selected_key

    def apply(self, text: str) -> FilterError | None:
        """Show the matching processes."""
        wanted, error = understood(text)
        if wanted is not None:
            self._dashboard.listing.filter_by(wanted, anchor=self._anchor)
        return error

    def take_back(self) -> None:
        """Restore the earlier filter."""
        self._dashboard.listing.filter_by(self._before, anchor=self._anchor)


class FilterPrompt(Vertical):
    """Filters a list by the typed text, with errors shown below it."""

    DEFAULT_CSS = """
    FilterPrompt { display: none; height: auto; }
    FilterPrompt Horizontal { height: 1; background: $surface; color: $foreground; }
    FilterPrompt Horizontal > Static { width: auto; color: $dim; }
    FilterPrompt > Static { background: $surface; }
    FilterPrompt #sign { color: $primary; text-style: bold; }
    FilterPrompt Edit { width: 1fr; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("enter", "keep", show=False),
        Binding("escape,ctrl+c,ctrl+g", "abandon", show=False),
        # Takes precedence over the use in the text being typed.
        Binding("backspace", "abandon_empty", show=False, priority=True),
    ]

    class Kept(Message):
        """The typed filter stays in force."""

    class Resized(Message):
        """It was opened or closed, or needs another number of lines."""

    error: var[FilterError | None] = var(None)
    """The error of the filter."""

    def __init__(self, filtered: Filtered) -> None:
        super().__init__(id="prompt")
        self._filtered = filtered
        self.edit = Edit(highlighter=_WrongWord(self))
        self._note, self._below = Static(markup=False), Static(markup=False)
        self._drawn: object = None
        self._applied = ""
        """The text of the filter in force."""
        self.lines = 2
        """The number of lines that it needs."""

    def compose(self) -> ComposeResult:
        """Stack the input line and the hints."""
        yield Horizontal(Static(_SIGN, id="sign", markup=False), self.edit, self._note)
        yield self._below

    def on_mount(self) -> None:
        """Keep its page, since a closing page may still receive a letter."""
        self._page = cast("Page", self.screen)

    @property
    def is_open(self) -> bool:
        """Whether it is on the screen."""
        return self.display

    def open(self) -> None:
        """Open with the filter in force."""
        self.error = None
        self._filtered.begin()
        self._applied = self._filtered.text
        with self.edit.prevent(Edit.Changed):
            self.edit.value = self._applied
        self.edit.cursor_position = len(self.edit.value)
        # Both take effect at once, so that the next key goes to the input.
        self.display = True
        self.screen.set_focus(self.edit)
        self.post_message(self.Resized())

    def close(self) -> None:
        """Close and release the focus."""
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Resized())

    def follow_cursor(self) -> None:
        """Remember the item under the cursor: the cursor returns to it whenever it matches."""
        self._filtered.follow_cursor()

    def on_input_changed(self, message: Edit.Changed) -> None:
        """Filter with every letter, once it is on the screen."""
        message.stop()
        self.call_after_refresh(self._page.app.call_when_sent, self._apply)

    def _apply(self) -> None:
        """Show the matches so far, ignoring an invalid or incomplete word."""
        if not self.is_open or self.edit.value == self._applied:
            return
        self._applied = self.edit.value
        self.error = self._filtered.apply(self._applied)
        self._page.app.outdated = True

    def action_keep(self) -> None:
        """Close, unless the filter is invalid."""
        self._apply()
        if self.error is None:
            self._page.show_message(self._filtered.warning)
            self.close()
            self.post_message(self.Kept())

    def action_abandon(self) -> None:
        """Close as if nothing had been typed."""
        self._filtered.take_back()
        self._page.show_message("")
        self.close()

    action_abandon_empty = action_abandon

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Close by Backspace only if there is nothing to delete."""
        if action == "abandon_empty":
            return not self.edit.value
        return super().check_action(action, parameters)

    def draw(self) -> None:
        """Draw the error or the hints, and the number of matches."""
        theme, cells = self._page.model.theme, self.app.size.width
        note = f" {self._filtered.note} "
        if cells - len(_SIGN) - width(note) < _MIN_INPUT:
            note = ""
        below = self._lines_below(theme, cells)
        drawn = note, below, theme
        if drawn == self._drawn:
            return
        self._drawn = drawn
        self._note.update(content([[Segment(note)]]))
        self._below.update(content(below))
        if self.lines != 1 + len(below):
            self.lines = 1 + len(below)
            self.post_message(self.Resized())

    def _lines_below(self, theme: Theme, cells: int) -> list[Line]:
        leave = ("Esc", "discard")
        if self.error is not None:
            column = len(_SIGN) - round(self.edit.scroll_offset.x)
            wrong = complaint(self.edit.value, self.error, theme, cells, column)
            return _before_keys(wrong, [leave], theme, cells)
        keys, hint = [("Enter", "apply"), leave], self._filtered.hint
        if hint:
            mark = theme.glyphs.ellipsis
            parts = wrap(hint, max(1, cells - 2), lines=_MAX_COMPLAINT, mark=mark)
            why = [[Segment(f" {part}", theme.notice)] for part in parts]
            return _before_keys(why, keys, theme, cells)
        return [advice(keys + [(each, "") for each in self._filtered.examples], theme, cells)]


class _WrongWord(Highlighter):
    """Underlines the invalid word of the filter."""

    def __init__(self, prompt: FilterPrompt) -> None:
        self._prompt = prompt

    def highlight(self, text: Text) -> None:
        """Underline it."""
        if error := self._prompt.error:
            text.stylize("underline", error.start, max(error.end, error.start + 1))


def complaint(value: str, error: FilterError, theme: Theme, cells: int, column: int) -> list[Line]:
    """Return the error beside carets under the invalid word, or below them if too long.

    `column` is the start of the typed text, negative if it is scrolled.
    """
    left = min(max(0, column + width(value[: error.start])), max(0, cells - 1))
    right = min(max(left + 1, column + width(value[: max(error.end, error.start + 1)])), cells)
    carets = _CARET * (right - left)
    text = str(error)
    if right + 1 + width(text) < cells:
        shown = [f"{' ' * left}{carets} {text}"]
    elif width(text) + 2 < left:
        shown = [f"{' ' * (left - width(text) - 1)}{text} {carets}"]
    elif (room := cells - right - 2) >= _MIN_BESIDE:
        leads = [" " * left + carets, *[" " * right] * _MAX_COMPLAINT]
        parts = wrap(text, room, lines=_MAX_COMPLAINT, mark=theme.glyphs.ellipsis)
        shown = [f"{lead} {part}" for lead, part in zip(leads, parts, strict=False)]
    else:
        shown = [f"{' ' * left}{carets}"]
        room, mark = max(1, cells - 2), theme.glyphs.ellipsis
        shown += [f" {line}" for line in wrap(text, room, lines=_MAX_COMPLAINT, mark=mark)]
    return [[Segment(line, theme.notice)] for line in shown]


def _before_keys(
    lines: Sequence[Line], keys: Sequence[tuple[str, str]], theme: Theme, cells: int
) -> list[Line]:
    """Return lines with keys at the end of the last, or below it if there is no room."""
    *above, last = lines
    named = advice(keys, theme, cells)
    if cells_of(last) + cells_of(named) < cells:
        return [*above, spread(last, named, cells, theme.label)]
    return [*lines, named]


def advice(texts: Sequence[tuple[str, str]], theme: Theme, cells: int) -> Line:
    """Return keys with their functions, and as many further words as fit whole."""
    parts = (
        [Segment(key, theme.key), Segment(f" {text}  " if text else " ", theme.label)]
        for key, text in texts
    )
    return [Segment(" ", theme.label), *fit_parts(parts, cells - 1)]
