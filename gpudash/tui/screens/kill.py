"""The question before a kill, about one process that was pinned when it opened."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Click
from textual.message import Message
from textual.screen import ModalScreen

from gpudash.cells import cut, pad, wrap
from gpudash.labels import command
from gpudash.rows import ProcessRow
from gpudash.tui.renderables.line import Line
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.lines import Lines
from gpudash.units import duration, size

if TYPE_CHECKING:
    from gpudash.actions import Target

_WIDTH = 72
_INDENT = 3
_COMMAND_LINES = 6
_SHARE_LINES = 4
_GUARD_SECONDS = 0.3
"""Keys are ignored for so long after opening: a held key must not answer."""

_BUTTONS = (" Cancel  n ", " Kill  y ")
_CANCEL, _KILL = 0, 1


class Question(Lines):
    """The text of the question and its two buttons."""

    class Answered(Message):
        """A button was clicked."""

        def __init__(self, button: int) -> None:
            super().__init__()
            self.button = button

    def present(self, texts: list[tuple[str, str]], focused: int, look: Theme) -> None:
        """Draw labelled texts and the buttons below them."""
        rows: list[Line] = [
            [],
            _indented([Segment("Kill this process?", look.header_strong)], look),
        ]
        rows.append([])
        for label, text in texts:
            parts = [Segment(pad(label, 9), look.panel_dim), Segment(text, look.panel)]
            rows.append(_indented(parts, look))
        rows += [[], _indented(_buttons(focused, look), look), []]
        self._button_row = len(rows) - 2
        self.show(rows)

    def on_click(self, event: Click) -> None:
        """Answer with the button under the pointer."""
        event.stop()
        left = _INDENT
        for button, text in enumerate(_BUTTONS):
            if event.y == self._button_row and left <= event.x < left + len(text):
                self.post_message(self.Answered(button))
            left += len(text) + 2


class Answer(Enum):
    """How the question ended; GONE when the process did."""

    CANCEL = "cancel"
    KILL = "kill"
    GONE = "gone"


class KillScreen(ModalScreen[Answer]):
    """Asks whether to kill; Cancel is the default."""

    DEFAULT_CSS = """
    KillScreen { align: center middle; background: $background 60%; }
    """
    BINDINGS: ClassVar[list[Any]] = [
        Binding("escape,n,q,ctrl+c", "answer(0)", "cancel", show=False),
        Binding("y", "answer(1)", "kill", show=False),
        Binding("left,right,tab,shift+tab,h,l", "turn", "other button", show=False),
        Binding("enter", "press", "press the button", show=False),
    ]
    AUTO_FOCUS = None

    def __init__(
        self,
        row: ProcessRow,
        target: Target,
        look: Theme,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._row = row
        self._target = target
        self._look = look
        self._clock = clock
        self._opened_at = clock()
        self._focused_button = _CANCEL
        self._question = Question(look.panel, id="question")

    def compose(self) -> ComposeResult:
        """Show the question alone."""
        yield self._question

    def on_mount(self) -> None:
        """Watch for the end of the process while nobody has answered."""
        self.set_interval(0.5, self._notice_end)

    def on_resize(self) -> None:
        """Fit the question to the terminal."""
        width = max(1, min(_WIDTH, self.app.size.width))
        self._texts = describe(self._row, width - 2 * _INDENT - 9)
        if not self._target.protected:
            self._texts.append(("", "This kernel cannot pin it: a reused PID may go unnoticed."))
        self._question.styles.width = width
        self._question.styles.height = len(self._texts) + 6
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        self._question.present(self._texts, self._focused_button, self._look)

    def _notice_end(self) -> None:
        if not self._target.alive():
            self.dismiss(Answer.GONE)

    def action_turn(self) -> None:
        """Go to the other button."""
        self._focused_button = _CANCEL if self._focused_button else _KILL
        self._draw()

    def action_press(self) -> None:
        """Answer with the button in focus."""
        self.action_answer(self._focused_button)

    def action_answer(self, button: int) -> None:
        """Close with an answer, unless the key was still held from before."""
        if self._clock() - self._opened_at >= _GUARD_SECONDS:
            self.dismiss(Answer.KILL if button == _KILL else Answer.CANCEL)

    def on_question_answered(self, message: Question.Answered) -> None:
        """Close with the button that was clicked."""
        self.action_answer(message.button)


def describe(row: ProcessRow, room: int) -> list[tuple[str, str]]:
    """Return what a person must know before they say yes: label and text per line."""
    process = row.process
    lines = wrap(command(process), room, lines=_COMMAND_LINES)
    held = size(process.used_gpu_memory_bytes)
    texts = [
        ("PID", str(process.pid)),
        ("owner", process.username or "unknown"),
        ("age", duration(row.age_seconds)),
        *[("command" if number == 0 else "", line) for number, line in enumerate(lines)],
    ]
    if process.job is not None:
        texts.append(("job", process.job.label))
    texts.append(("frees", f"{held} on GPU {row.gpus}"))
    shares = [
        f"GPU {share.index}: {size(share.used_gpu_memory_bytes)}" for share in process.devices
    ]
    if len(shares) > 1:
        texts += [("", line) for line in wrap(", ".join(shares), room, lines=_SHARE_LINES)]
    return [(label, cut(text, room)) for label, text in texts]


def _buttons(focused: int, look: Theme) -> Line:
    styles = [look.button, look.button]
    styles[focused] = look.danger_focused if focused == _KILL else look.button_focused
    cancel, kill = _BUTTONS
    return [
        Segment(cancel, styles[_CANCEL]),
        Segment("  ", look.panel),
        Segment(kill, styles[_KILL]),
    ]


def _indented(segments: Line, look: Theme) -> Line:
    return [Segment(" " * _INDENT, look.panel), *segments]
