"""The prompt that filters what is listed as the filter is typed."""

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
"""Cells right of the carets in which a complaint of several lines still reads well."""


class Filtered(Protocol):
    """What a filter narrows down."""

    @property
    def text(self) -> str:
        """The filter in force."""

    @property
    def examples(self) -> Sequence[str]:
        """What a filter may consist of."""

    @property
    def note(self) -> str:
        """How much the filter leaves."""

    @property
    def hint(self) -> str:
        """Why nothing fits, as far as the filter itself shows; empty where something does."""

    @property
    def warning(self) -> str:
        """What to report of a filter that is kept though nothing fits, empty where some does."""

    def begin(self) -> None:
        """Note what is shown, for `take_back`."""

    def follow_cursor(self) -> None:
        """Note what is under the cursor, which goes back there whenever that fits."""

    def apply(self, text: str) -> FilterError | None:
        """Show what fits, without regard to a word that is wrong or not yet whole; return that."""

    def take_back(self) -> None:
        """Show what was shown at the beginning."""


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
        """How many processes fit, of how many."""
        return share(self._dashboard.listing)

    @property
    def hint(self) -> str:
        """Why nothing fits, as far as the filter itself shows."""
        listing = self._dashboard.listing
        if listing.matching or not listing.everything:
            return ""
        return hint(listing.filter.text, [row.label for row in self._dashboard.devices.rows])

    @property
    def warning(self) -> str:
        """Why a filter that fits no process does not, empty where some fit."""
        listing = self._dashboard.listing
        if not listing.filter.clauses or listing.matching or not listing.everything:
            return ""
        key = shown_key(self._dashboard.keys, "filter.clear")
        return self.hint or f"No process matches the filter; {key} shows all"

    def begin(self) -> None:
        """Note the filter in force and the process under the cursor."""
        self._before = self._dashboard.listing.filter
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Note the process under the cursor."""
        self._anchor = self._dashboard.listing.selected_key

    def apply(self, text: str) -> FilterError | None:
        """Show the processes that fit."""
        wanted, error = understood(text)
        if wanted is not None:
            self._dashboard.listing.filter_by(wanted, anchor=self._anchor)
        return error

    def take_back(self) -> None:
        """Filter as before."""
        self._dashboard.listing.filter_by(self._before, anchor=self._anchor)


class FilterPrompt(Vertical):
    """Narrows a list down to what is typed; below it stands what is wrong with that."""

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
        # Before the line that is typed has its own use for it.
        Binding("backspace", "abandon_empty", show=False, priority=True),
    ]

    class Kept(Message):
        """What is typed stays in force."""

    class Resized(Message):
        """It was opened or closed, or takes another number of lines."""

    error: var[FilterError | None] = var(None)
    """What is wrong with the filter."""

    def __init__(self, filtered: Filtered) -> None:
        super().__init__(id="prompt")
        self._filtered = filtered
        self.edit = Edit(highlighter=_WrongWord(self))
        self._note, self._below = Static(markup=False), Static(markup=False)
        self._drawn: object = None
        self._applied = ""
        """The text of the filter that is shown."""
        self.lines = 2
        """That it takes."""

    def compose(self) -> ComposeResult:
        """Stack the line that is typed on what could follow."""
        yield Horizontal(Static(_SIGN, id="sign", markup=False), self.edit, self._note)
        yield self._below

    def on_mount(self) -> None:
        """Keep the page that it is on: one that closes takes a letter late."""
        self._page = cast("Page", self.screen)

    @property
    def is_open(self) -> bool:
        """Whether it is on screen."""
        return self.display

    def open(self) -> None:
        """Begin with the filter in force."""
        self.error = None
        self._filtered.begin()
        self._applied = self._filtered.text
        with self.edit.prevent(Edit.Changed):
            self.edit.value = self._applied
        self.edit.cursor_position = len(self.edit.value)
        # Both take effect at once, so that the next key is already typed.
        self.display = True
        self.screen.set_focus(self.edit)
        self.post_message(self.Resized())

    def close(self) -> None:
        """Close and release the focus."""
        self.display = False
        self.screen.set_focus(None)
        self.post_message(self.Resized())

    def follow_cursor(self) -> None:
        """Note what is under the cursor, which goes back there whenever that fits."""
        self._filtered.follow_cursor()

    def on_input_changed(self, message: Edit.Changed) -> None:
        """Filter with every letter, once it is on screen."""
        message.stop()
        self.call_after_refresh(self._page.app.call_when_sent, self._apply)

    def _apply(self) -> None:
        """Show what fits so far, without regard to a word that is wrong or not yet whole."""
        if not self.is_open or self.edit.value == self._applied:
            return
        self._applied = self.edit.value
        self.error = self._filtered.apply(self._applied)
        self._page.app.outdated = True

    def action_keep(self) -> None:
        """Close, unless the filter is wrong."""
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
        """Close by Backspace only where there is nothing to delete."""
        if action == "abandon_empty":
            return not self.edit.value
        return super().check_action(action, parameters)

    def draw(self) -> None:
        """Draw what is wrong with the filter, or what could follow, and how much it leaves."""
        theme, cells = self._page.shown.theme, self.app.size.width
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
    """Underlines the word of the filter that is wrong."""

    def __init__(self, prompt: FilterPrompt) -> None:
        self._prompt = prompt

    def highlight(self, text: Text) -> None:
        """Underline it."""
        if error := self._prompt.error:
            text.stylize("underline", error.start, max(error.end, error.start + 1))


def complaint(value: str, error: FilterError, theme: Theme, cells: int, column: int) -> list[Line]:
    """Return what is wrong, beside carets under the wrong word, or below these if too long.

    `column` is where the text that is typed begins, less than 0 where it is scrolled.
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
    """Return keys with what they do, and as many further words as fit whole."""
    parts = (
        [Segment(key, theme.key), Segment(f" {text}  " if text else " ", theme.label)]
        for key, text in texts
    )
    return [Segment(" ", theme.label), *fit_parts(parts, cells - 1)]
