"""A small list to choose from, filtered by typing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.events import Key
from textual.style import Style
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from gpudash.model.errors import UsageError
from gpudash.model.text import fold, width
from gpudash.tui.bindings import bindings
from gpudash.tui.dialogs.dialog import Dialog
from gpudash.tui.draw.line import Line, spread
from gpudash.tui.keymap import CHOOSE_KEYS
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import Edit, content

_MAX_TYPED = 40
_EXACT, _SHOWN, _RUN, _WORD = 1000, 100, 4, 3
"""Scores: a note equal to the typed text, a match in the visible text rather than in other
words, a letter right after the last one, a new word.
"""


class Choice(NamedTuple):
    """An entry of a list."""

    value: str
    text: str
    note: str = ""
    """Shown at the right end."""
    marked: bool = False
    words: str = ""
    """Further words that match it; not shown."""


def ranked(choices: Iterable[Choice], typed: str) -> list[Choice]:
    """Return the entries that match words or beginnings of words in the typed order, best first.

    `copid` is "copy the PID": each letter continues a word or begins a later one. Among equally
    good matches, entries come first whose text or another word begins with it.
    """
    wanted = "".join(typed.casefold().split())[:_MAX_TYPED]
    scored = [(_score(choice, wanted), choice) for choice in choices]
    fitting = [
        ((-score, not _begins(choice, wanted)), choice)
        for score, choice in scored
        if score is not None
    ]
    return [choice for _rank, choice in sorted(fitting, key=lambda pair: pair[0])]


def _score(choice: Choice, wanted: str) -> int | None:
    """Return how well an entry matches; None if it does not."""
    if wanted and choice.note.casefold() == wanted:
        return _EXACT
    shown, other = (_fit(text.casefold(), wanted) for text in (choice.text, choice.words))
    return other if shown is None else shown + _SHOWN


def _begins(choice: Choice, wanted: str) -> bool:
    names = ("".join(choice.text.split()), *choice.words.split())
    return any(name.casefold().startswith(wanted) for name in names)


def _fit(text: str, wanted: str) -> int | None:
    """Return how well the words of a text match; None if they do not."""
    best: dict[int, int] = {-2: 0}
    for letter in wanted:
        # Index of the last matched letter -> the best score up to there.
        reached: dict[int, int] = {}
        for before, score in best.items():
            for index in range(max(before + 1, 0), len(text)):
                if text[index] != letter:
                    continue
                if index == before + 1:
                    worth = _RUN
                elif _begins_word(text, index):
                    worth = _WORD
                else:
                    continue
                reached[index] = max(reached.get(index, 0), score + worth)
        best = reached
    if not best:
        return None
    return max(score - index // _MAX_TYPED for index, score in best.items())


def _begins_word(text: str, index: int) -> bool:
    return index == 0 or not text[index - 1].isalnum()


class _List(OptionList):
    """A list whose cursor may be in reverse video, which Textual's component styles lose."""

    def get_visual_style(self, *component_classes: str, partial: bool = False) -> Style:
        """Return Textual's style, with the reverse video of the style sheet."""
        style = super().get_visual_style(*component_classes, partial=partial)
        styles = map(self.get_component_styles, component_classes)
        is_reverse = any(each.text_style.reverse for each in styles)
        return style + Style(reverse=True) if is_reverse else style


_WIDTH, _HEIGHT = 62, 18
"""Of the dialog without its edge."""
_BESIDE = 24
"""Cells on both sides below which it takes the whole width: no word would fit there."""


class ChooseScreen(Dialog["str | None"]):
    """Lets the user choose an entry by its value; None for none.

    With `toggled`, the space bar marks and unmarks entries while the list stays open; once it was
    used, or with `marks_only` from the start, the marks are the choice: Enter keeps them, a click
    changes one. `pointed` is called with each entry that the cursor reaches, and returns the theme
    from then on. With `by_letter`, each value is a letter that chooses it at once; its capital is
    an answer too. `understood` returns an entry for the typed text, which comes first, or raises
    UsageError with a message to show if nothing else matches. With `asked`, a sentence, the entries
    answer it, and there is no line to type in.
    """

    CSS = (
        Dialog.CSS
        + """
    ChooseScreen Edit, ChooseScreen Static { padding: 0 3; }
    ChooseScreen OptionList { height: 1fr; border: none; padding: 0; scrollbar-size: 0 0; }
    ChooseScreen OptionList > .option-list--option { padding: 0; }
    ChooseScreen OptionList > .option-list--option-disabled { color: $foreground; }
    ChooseScreen OptionList > .option-list--option-highlighted {
        background: $cursor; color: $cursor-text; text-style: $cursor-style;
    }
    """
    )
    KEYS = CHOOSE_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(CHOOSE_KEYS, priority=True)

    def __init__(
        self,
        title: str,
        choices: Sequence[Choice],
        theme: Theme,
        *,
        current: str = "",
        toggled: Callable[[str], Sequence[Choice]] | None = None,
        marks_only: bool = False,
        pointed: Callable[[str], Theme] | None = None,
        by_letter: bool = False,
        understood: Callable[[str], Choice] | None = None,
        hint: str = "type to find",
        asked: str = "",
    ) -> None:
        super().__init__(theme)
        self._letters = {choice.value for choice in choices} if by_letter else frozenset[str]()
        self._toggled, self._pointed, self._understood = toggled, pointed, understood
        self._all = self._shown = list(choices)
        self._pointed_at = current
        self._marking = marks_only
        self._cells = _WIDTH
        self._why_none = "no matches"
        self._hint = hint
        self._edit = Edit(placeholder=hint, limit=80, without="" if toggled is None else " ")
        self._edit.display = not asked
        self._asked, self._sentence = asked, Static(markup=False)
        self._sentence.display = bool(asked)
        self._list = _List(markup=False)
        self._list.can_focus = False
        self._box = Vertical(self._edit, self._sentence, self._list)
        self._box.border_title = Content(title)
        values = [choice.value for choice in choices]
        # Filled here already, for keys that are typed before it is drawn.
        self._fill(values.index(current) if current in values else 0)

    def offer(self, choices: Sequence[Choice], current: str) -> None:
        """List other entries once more are known; the typed text stays."""
        self._all = list(choices)
        self._narrow(self._edit.value)
        if not self._edit.value:
            values = [choice.value for choice in choices]
            self._fill(values.index(current) if current in values else 0)
        if self.is_attached:
            self._fit(self.app.size)

    def compose(self) -> ComposeResult:
        """Stack the input line and the list."""
        yield self._box

    def on_mount(self) -> None:
        """Focus the input line, and filter with each key."""
        self.set_focus(self._edit)
        self.watch(self._edit, "value", self._narrow, init=False)
        self.watch(self._list, "highlighted", self._point)

    def fit(self, cells: int, lines: int) -> None:
        """Draw the entries for another width."""
        self._cells = _WIDTH if cells >= _WIDTH + _BESIDE else cells
        self._edit.placeholder = self.palette.cut(self._hint, self._cells - 6)
        self._box.styles.width = self._cells + self.edges
        sentence = fold(self._asked, max(1, self._cells - 6))
        self._sentence.update("\n".join(sentence))
        above = len(sentence) if self._asked else 1
        self._box.styles.height = min(_HEIGHT, len(self._all) + above, lines) + self.edges
        self._fill(self._list.highlighted or 0)

    def on_key(self, event: Key) -> None:
        """Insert keys that were typed before the input line was there."""
        if event.is_printable and event.character:
            event.stop()
            self._edit.insert_text_at_cursor(event.character)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave keys without meaning for the list to the input line."""
        if action == "mark":
            return self._toggled is not None
        if parameters in (("first",), ("last",)):
            return not self._edit.value
        return super().check_action(action, parameters)

    def action_move(self, way: str) -> None:
        """Move the cursor of the list."""
        getattr(self._list, f"action_{way}")()

    def action_take(self) -> None:
        """Choose the entry under the cursor, or keep the marks."""
        if self._marking:
            self.dismiss(None)
        elif self._shown and self._list.highlighted is not None:
            self.dismiss(self._shown[self._list.highlighted].value)

    def on_option_list_option_selected(self, message: OptionList.OptionSelected) -> None:
        """Choose the clicked entry, or mark it."""
        self._list.highlighted = message.option_index
        if self._marking:
            self.action_mark()
        else:
            self.action_take()

    def action_mark(self) -> None:
        """Mark the entry under the cursor, or unmark it."""
        if self._toggled is not None and self._shown and self._list.highlighted is not None:
            self._marking = True
            self._all = list(self._toggled(self._shown[self._list.highlighted].value))
            self._shown = ranked(self._all, self._edit.value)
            self._fill(self._list.highlighted)

    def _narrow(self, typed: str) -> None:
        if typed.lower() in self._letters:
            self.dismiss(typed)
            return
        if self._asked:
            self._edit.value = ""
            return
        self._shown = ranked(self._all, typed)
        if self._understood is not None and typed:
            try:
                meant = self._understood(typed)
            except UsageError as error:
                self._why_none = str(error)
            else:
                others = [each for each in self._shown if each[1:] != meant[1:]]
                self._shown = [meant, *others]
        self._fill(0)

    def _fill(self, cursor: int) -> None:
        """Show the matches, with the cursor on the entry at an index."""
        rows = [_row(choice, self.palette, self._cells) for choice in self._shown]
        options = [Option(content([row])) for row in rows]
        with self.prevent(OptionList.OptionHighlighted):
            self._list.clear_options()
            self._list.add_options(options or [self._nothing])
            self._list.highlighted = cursor if options else None
        self._describe()

    @property
    def _nothing(self) -> Option:
        """The placeholder of an empty list, with the reason."""
        lines = fold(self._why_none, max(1, self._cells - 6))
        return Option(Content("\n".join(f"   {line}" for line in lines)), disabled=True)

    def _point(self, cursor: int | None) -> None:
        """Call `pointed` when the cursor has reached another entry."""
        self._describe()
        if self._pointed is None or cursor is None or cursor >= len(self._shown):
            return
        value = self._shown[cursor].value
        if value != self._pointed_at:
            self._pointed_at = value
            self.palette = self._pointed(value)
            self.call_later(self._fill, cursor)

    def _describe(self) -> None:
        """Show as many useful keys as fit, and the position in the list."""
        toggles = "" if self._toggled is None else "Space on or off  "
        leaving = "Esc closes" if self._marking else "Enter chooses  Esc closes"
        place = f"{(self._list.highlighted or 0) + 1} of {len(self._shown)}" if self._shown else ""
        texts = (f"{toggles}{leaving}  {place}", f"{toggles}Esc closes", "Esc closes")
        fits = next((text for text in texts if len(text) + 4 <= self._cells), "")
        self._box.border_subtitle = Content(fits.strip())


def _row(choice: Choice, theme: Theme, cells: int) -> Line:
    """Return an entry: its mark, its text, and its note at the right."""
    base = theme.panel
    # In reverse video, which marks the cursor if used, each colour would be a separate bar.
    dim, key = (base, base) if theme.is_ansi else (theme.panel_dim, theme.key)
    mark = theme.glyphs.tick if choice.marked else " "
    about = choice.note
    if width(about) > width(choice.text):
        # The chosen entry is recognised by its text.
        about = theme.cut(about, cells - 7 - width(choice.text))
    note = [Segment(f"{about}  ", key)] if about else []
    room = cells - 4 - width(about) - (3 if about else 0)
    text = [Segment(f" {mark} ", dim), Segment(theme.cut(choice.text, room), base)]
    return spread(text, note, cells, base)
