"""The question before a signal, about processes that were pinned when it opened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.reactive import var
from textual.widgets import Static

from gpudash.actions.kill.selection import KillSelection
from gpudash.actions.kill.signals import Signal, find_signal, signals
from gpudash.model.snapshot import Snapshot
from gpudash.tui.bindings import bindings
from gpudash.tui.dialogs.dialog import Dialog
from gpudash.tui.dialogs.question import (
    LABEL,
    Question,
    clicked,
    laid_out,
    question,
    question_width,
)
from gpudash.tui.draw.line import Line, fitted
from gpudash.tui.keymap import KILL_KEYS
from gpudash.tui.page import put_above
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import content

_POLL_SECONDS = 0.1
_OWN = frozenset(
    (
        *("answer", "cancel", "press", "turn", "focus_button"),
        *("signal", "next_signal", "choose_signal", "tree"),
    )
)


class Answer(NamedTuple):
    """What is to be sent, and whether to all below too."""

    signal: Signal
    with_tree: bool


class KillScreen(Dialog["Answer | None"]):
    """Asks whether to send a signal; Cancel is the default, None the answer that it gives."""

    CSS = (
        Dialog.CSS
        + """
    KillScreen Static { height: auto; }
    KillScreen #title { color: $primary; text-style: bold; }
    KillScreen #body { height: 1; scrollbar-size: 0 0; }
    KillScreen #hint { height: 1; color: $dim; text-style: $dim-style; }
    KillScreen #buttons { height: 1; }
    KillScreen #buttons Static { width: auto; height: 1; margin-right: 2; background: $button; }
    KillScreen #buttons Static:focus {
        background: $input-cursor-background;
        color: $input-cursor-foreground;
        text-style: $input-cursor-text-style;
    }
    KillScreen #buttons #act:focus { background: $danger; }
    KillScreen.-airy #question { padding-top: 1; padding-bottom: 1; }
    KillScreen.-airy #title { margin-bottom: 1; }
    KillScreen.-airy #buttons { margin-top: 1; }
    """
    )
    BINDINGS: ClassVar[list[Any]] = bindings(KILL_KEYS)
    AUTO_FOCUS = ""
    EDGE_FROM = 40, 14

    signal: var[Signal] = var(find_signal("KILL"), init=False)
    """The one that is sent."""
    with_tree = var(False, init=False)
    """Whether those below are signalled, too."""
    again = var(False, init=False)
    """Whether this is the second question, about what is not a plain job."""

    def __init__(
        self,
        selection: KillSelection,
        signal: Signal,
        theme: Theme,
        *,
        latest: Callable[[], Snapshot],
        guard_seconds: float,
        offer: str = "",
        with_tree: bool = False,
    ) -> None:
        """Ask about a selection; `offer` is the question after a signal that was ignored.

        `with_tree` is whether those below are meant at first; `latest` returns what is shown
        behind it, whose time the ages are of.
        For `guard_seconds` after it can be read it ignores keys and clicks.
        """
        super().__init__(theme)
        self.set_reactive(KillScreen.signal, signal)
        self.set_reactive(KillScreen.with_tree, with_tree)
        self._selection, self._offer, self._latest = selection, offer, latest
        self._guard_seconds = guard_seconds
        self._asked_at = math.inf
        """When what is asked now was first on the terminal, on the monotonic clock."""
        self._readable = False
        self._width = 0
        """Of the question, which does not shrink while it is open."""
        self._room = 1, 1
        self._seen: object = None
        self._title, self._names = Static(id="title", markup=False), Static(markup=False)
        self._text, self._hint = Static(markup=False), Static(id="hint", markup=False)
        self._body = VerticalScroll(self._text, id="body", can_focus=False)
        self._choices = Static(markup=False)
        # No Button: it takes Enter and clicks past `check_action`, and shows focus by colour only.
        self._cancel, self._act = Static(id="cancel", markup=False), Static(id="act", markup=False)
        self._cancel.can_focus = self._act.can_focus = True
        for clickable in (self._choices, self._cancel, self._act):
            clickable.auto_links = False

    def compose(self) -> ComposeResult:
        """Stack what is read, what can be chosen, and the buttons."""
        yield Vertical(
            self._title,
            self._names,
            self._body,
            self._hint,
            self._choices,
            Horizontal(self._cancel, self._act, id="buttons"),
            id="question",
        )

    def on_mount(self) -> None:
        """Put the focus on Cancel, and watch for the end of the processes until it is answered."""
        self.set_focus(self._cancel)
        self.watch(self._body, "scroll_y", self._describe, init=False)
        self.set_interval(_POLL_SECONDS, self._poll)

    # What is an answer

    @property
    def obeys_from(self) -> float:
        """The instant from which it takes keys and clicks: earlier ones were for what was there.

        What was typed to a shell must not answer either.
        """
        back = self.app.taken_over_at if isinstance(self.app, TerminalApp) else -math.inf
        return max(self._asked_at, back) + self._guard_seconds

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse what comes too early, and `yes` unless the question is readable."""
        if action not in _OWN:
            return super().check_action(action, parameters)
        if time.monotonic() < self.obeys_from:
            return False
        return action in ("cancel", "press") or self._may_answer

    @property
    def _may_answer(self) -> bool:
        """Whether all that is asked is in view, and about a process that runs."""
        return self._readable and bool(self._selection.living)

    def action_answer(self) -> None:
        """Close with the selected signal, after a second question unless it is for plain jobs."""
        if self._selection.dangerous_pids(with_tree=self.with_tree) and not self.again:
            self.set_focus(self._cancel)
            self._asked_at, self.again = math.inf, True
            return
        self.dismiss(Answer(self.signal, self.with_tree))

    def action_press(self) -> None:
        """Do what the button in focus is for."""
        if self.focused is self._act and self._may_answer:
            self.action_answer()
        else:
            self.action_cancel()

    def action_turn(self) -> None:
        """Go to the other button."""
        self.action_focus_button("left" if self.focused is self._act else "right")

    def action_focus_button(self, side: str) -> None:
        """Go to the button at a side: Cancel at the left, what acts at the right."""
        self.set_focus(self._cancel if side == "left" else self._act)
        self._ask()

    # What is asked

    def watch_signal(self) -> None:
        """Ask about another signal."""
        self._ask()

    def watch_with_tree(self) -> None:
        """Ask about those below, too."""
        self._ask()

    def watch_again(self) -> None:
        """Ask in other words."""
        self._ask()

    def _poll(self) -> None:
        """Draw again when a process has ended, the trees are known, or time has passed."""
        latest = self._latest()
        seen = len(self._selection.living), self._selection.trees is None, latest.taken_at
        if seen != self._seen:
            self._seen = seen
            self._selection.age_with(latest)
            self._ask()

    def action_tree(self) -> None:
        """Signal those below too, or leave them."""
        if not self.again:
            self.with_tree = bool(self._selection.members) and not self.with_tree

    def action_signal(self, name: str) -> None:
        """Choose a signal."""
        if not self._offer and not self.again:
            self.signal = find_signal(name)

    def action_next_signal(self, step: int) -> None:
        """Choose the next signal or the one before."""
        every = signals()
        self.action_signal(every[(every.index(self.signal) + step) % len(every)].name)

    def action_choose_signal(self) -> None:
        """Choose one of all signals, by its name or number."""
        if self._offer or self.again:
            return
        from gpudash.tui.dialogs.choose import Choice, ChooseScreen

        widest = max(len(signal.name) for signal in signals())
        choices = [
            Choice(signal.name, f"{signal.name:{widest}}  {signal.help}", str(signal.number))
            for signal in signals()
        ]
        screen = ChooseScreen("Which signal?", choices, self.palette, current=self.signal.name)
        put_above(self.app, screen, self._take_signal)

    def _take_signal(self, name: str | None) -> None:
        self.action_signal(name or self.signal.name)

    # What is shown

    def fit(self, cells: int, lines: int) -> None:
        """Fit the question to the terminal."""
        self._width, self._room = 0, (cells, lines)
        self._ask()

    def _ask(self) -> None:
        """Show the question as it is now."""
        cells, lines = self._room
        asked = question(
            self._selection,
            self.signal,
            with_tree=self.with_tree,
            offer=self._offer,
            again=self.again,
        )
        theme = self.palette
        self._width = max(self._width, question_width(asked, theme, cells))
        shown = laid_out(asked, theme, self._width, lines)
        self._readable = shown.answerable
        if asked.action is None or not shown.answerable:
            self.set_focus(self._cancel)
        parts = {
            self._title: [[Segment(text)] for text in shown.title],
            self._names: shown.names,
            self._text: shown.body,
            self._choices: shown.choices,
        }
        for widget, part in parts.items():
            # A line that is wrapped would push the buttons out of view.
            _show(widget, [fitted(each, self._width - shown.indent, Style()) for each in part])
        self._show_buttons(asked.action, acts=shown.answerable and asked.action is not None)
        self._body.display = shown.room > 0
        self._body.styles.height = max(1, shown.room)
        self._hint.display = shown.hinted
        self.set_class(shown.airy, "-airy")
        box = self.query_one("#question")
        box.styles.padding = (int(shown.airy), 0, int(shown.airy), shown.indent)
        box.styles.width = self._width + self.edges
        box.styles.height = shown.height + self.edges
        box.border_subtitle = Content(self._keys(asked) if shown.answerable else "")
        self._describe()
        self.call_after_refresh(self._drawn)

    def _keys(self, asked: Question) -> str:
        """Return what the arrows do, as far as there is anything and room for it."""
        keys = ["Left Right button"] * (asked.action is not None)
        keys += ["Up Down signal"] * (asked.signal is not None)
        text = "  ".join(keys)
        return text if len(text) + 4 <= self._width else ""

    def _drawn(self) -> None:
        """Describe what was laid out, and note when the question has reached the terminal."""
        self._describe()
        if self._asked_at == math.inf and isinstance(self.app, TerminalApp):
            self.app.call_when_sent(self._sent)

    def _sent(self) -> None:
        self._asked_at = min(self._asked_at, time.monotonic())

    def _show_buttons(self, action: str | None, *, acts: bool) -> None:
        """Name the buttons; without colours only brackets mark the one that Enter presses."""
        cancel = " Close  q " if action is None else " Cancel  n "
        texts = {self._cancel: (cancel, "cancel"), self._act: (f" {action}  y ", "answer")}
        for button, (text, pressed) in texts.items():
            marked = self.focused is button and action is not None
            shown = f"[{text[1:-1]}]" if marked else text
            _show(button, [[Segment(shown, clicked(pressed))]])
        self._act.display = acts

    def _describe(self) -> None:
        """Show how many lines are out of view."""
        above = round(self._body.scroll_y)
        below = max(0, self._body.virtual_size.height - above - self._body.size.height)
        glyphs = self.palette.glyphs
        up, down = f"{glyphs.arrow_up} {above} more", f"{glyphs.arrow_down} {below} more"
        text = "   ".join([*[up] * (above > 0), *[down] * (below > 0)])
        self._hint.update(content([[Segment(" " * LABEL + text)]]))

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll what does not fit."""
        self._body.scroll_relative(y=lines, animate=False, immediate=True)

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        self.action_scroll_lines(pages * max(1, self._body.size.height - 1))


def _show(widget: Static, lines: Sequence[Line]) -> None:
    """Show lines in a widget, and hide it if there are none."""
    widget.display = bool(lines)
    widget.update(content(lines))
