"""The question before a signal, about processes that were pinned when it opened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.events import Key
from textual.screen import ModalScreen

from gpudash.actions.kill.signals import Signal, find_signal, signals
from gpudash.tui.actions.kill.aim import Aim
from gpudash.tui.actions.kill.question import question
from gpudash.tui.bindings import bindings
from gpudash.tui.draw.question import ACT, CANCEL, Drawing, QuestionBox, box_width, draw
from gpudash.tui.keymap import KILL_KEYS
from gpudash.tui.terminal.app import TerminalApp
from gpudash.tui.terminal.input import has_use_for
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import Closing, put_above
from gpudash.tui.widgets.lines import Wheel

_LOOK_SECONDS = 0.1
_GUARD_SECONDS = 0.3
"""Nothing is obeyed for so long after opening, or back from a stop: no held key must answer."""

_OFFER_GUARD_SECONDS = 1.0
"""The same where nobody asked for the question: keys may be meant for what was there before."""

_OWN = frozenset(
    ("answer", "cancel", "press", "turn", "signal", "next_signal", "choose_signal", "tree")
)


class Answer(NamedTuple):
    """What is to be sent, and whether to all below too."""

    signal: Signal
    whole: bool


class KillScreen(Wheel, ModalScreen["Answer | None"], Closing["Answer | None"]):
    """Asks whether to send a signal; Cancel is the default, None the answer that it gives."""

    DEFAULT_CSS = """
    KillScreen { align: center middle; background: transparent; }
    """
    BINDINGS: ClassVar[list[Any]] = bindings(KILL_KEYS)
    AUTO_FOCUS = None

    def __init__(
        self,
        aim: Aim,
        signal: Signal,
        look: Theme,
        *,
        offer: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask about an aim; `offer` is the question after a signal that was ignored."""
        super().__init__()
        self._aim, self._signal, self._look, self._offer = aim, signal, look, offer
        self._clock = clock
        self._guard = _OFFER_GUARD_SECONDS if offer else _GUARD_SECONDS
        self._obeys_from = clock() + self._guard
        self._whole = self._again = False
        self._button = CANCEL
        self._width = 0
        """What the box has grown to: it does not shrink while it is open."""
        self._first = 0
        self._seen: object = None
        self._box = QuestionBox(look.panel, id="question")

    def compose(self) -> ComposeResult:
        """Show the question alone."""
        yield self._box

    def on_mount(self) -> None:
        """Watch for the end of the processes while nobody has answered."""
        self.set_interval(_LOOK_SECONDS, self._look_again)

    def on_resize(self) -> None:
        """Fit the question to the terminal."""
        self._width = 0
        self._fit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Obey nothing too early, no answer in vain, and none to what has no room to be read."""
        if action not in _OWN:
            return super().check_action(action, parameters)
        if self._clock() < self._guarded_until:
            return False
        return action in ("cancel", "press") or (self._readable and bool(self._aim.living))

    def on_key(self, event: Key) -> None:
        """Take no key that was typed too early, however late its turn comes behind others."""
        if event.time < self._guarded_until and has_use_for(self, event.key):
            event.stop()

    @property
    def _guarded_until(self) -> float:
        return max(self._obeys_from, self._back_at + self._guard)

    @property
    def _readable(self) -> bool:
        """Whether there is room for the question; without, the button in focus is Cancel."""
        return self._box.drawing is not None and self._box.drawing.answerable

    @property
    def _back_at(self) -> float:
        """When the terminal was last taken: what was typed to a shell must not answer."""
        return self.app.taken_over_at if isinstance(self.app, TerminalApp) else -math.inf

    def _look_again(self) -> None:
        """Draw again when a process has ended or those below are known."""
        seen = len(self._aim.living), self._aim.trees is None
        if seen != self._seen:
            self._seen = seen
            self._fit()

    def _drawing(self) -> Drawing:
        cells, height = self.app.size
        told = {"whole": self._whole, "again": self._again}
        asked = question(self._aim, self._signal, offer=self._offer, **told)
        if asked.action is None:
            self._button = CANCEL
        self._width = width = max(self._width, box_width(asked, self._look, cells))
        self._box.styles.width = width
        first, button = self._first, self._button
        drawing = draw(asked, self._look, width, max(1, height), first=first, button=button)
        if not drawing.answerable:
            self._button = CANCEL
        return drawing

    def _fit(self) -> None:
        """Draw, after the box has taken the size that it needs."""
        drawing = self._drawing()
        self._first = drawing.first
        if self._box.size.height != len(drawing.lines):
            self._box.styles.height = max(1, len(drawing.lines))
            self.call_after_refresh(self._box.present, drawing)
        self._box.present(drawing)

    # Keys

    def action_cancel(self) -> None:
        """Close without a signal."""
        self.dismiss(None)

    def action_answer(self) -> None:
        """Close with the signal that is chosen, asked once more where that is no plain job."""
        if self._aim.grave and not self._again:
            self._again, self._button = True, CANCEL
            self._obeys_from = self._clock() + _GUARD_SECONDS
            self._fit()
            return
        self.dismiss(Answer(self._signal, self._whole))

    def action_press(self) -> None:
        """Do what the button in focus says."""
        if self._button == ACT and self._aim.living:
            self.action_answer()
        else:
            self.action_cancel()

    def action_turn(self) -> None:
        """Go to the other button."""
        self._button = CANCEL if self._button == ACT else ACT
        self._fit()

    def action_tree(self) -> None:
        """Take those below along, or leave them."""
        if self._again:
            return
        self._whole = bool(self._aim.members) and not self._whole
        self._fit()

    def action_signal(self, name: str) -> None:
        """Choose a signal."""
        if not self._offer and not self._again:
            self._signal = find_signal(name)
            self._fit()

    def action_next_signal(self, step: int) -> None:
        """Choose the next signal or the one before."""
        every = signals()
        self.action_signal(every[(every.index(self._signal) + step) % len(every)].name)

    def action_choose_signal(self) -> None:
        """Choose one of all signals, by its name or number."""
        if self._offer or self._again:
            return
        from gpudash.tui.dialogs.choose import Choice, ChooseScreen

        widest = max(len(signal.name) for signal in signals())
        choices = [
            Choice(signal.name, f"{signal.name:{widest}}  {signal.help}", str(signal.number))
            for signal in signals()
        ]
        screen = ChooseScreen("Which signal?", choices, self._look, current=self._signal.name)
        put_above(self.app, screen, self._take_signal)

    def _take_signal(self, name: str | None) -> None:
        self.action_signal(name or self._signal.name)

    def action_scroll_lines(self, lines: int) -> None:
        """Scroll what does not fit."""
        self._first += lines
        self._fit()

    def action_scroll_pages(self, pages: int) -> None:
        """Scroll by what is in view."""
        drawing = self._box.drawing
        self.action_scroll_lines(pages * max(1, drawing.page - 1 if drawing else 1))

    # Mouse

    async def on_question_box_pressed(self, message: QuestionBox.Pressed) -> None:
        """Do what was clicked."""
        await self.run_action(message.action)

    def turned(self, lines: int) -> None:
        """Scroll by the wheel."""
        self.action_scroll_lines(lines)
