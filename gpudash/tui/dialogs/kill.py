"""The question before a signal, about processes that were pinned when it opened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.errors import NoWidget
from textual.reactive import var
from textual.widget import Widget
from textual.widgets import Static

from gpudash.actions.kill.question import question
from gpudash.actions.kill.selection import KillSelection
from gpudash.actions.kill.signals import Signal, find_signal, signals
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import Level
from gpudash.model.text import width
from gpudash.tui.bindings import bindings
from gpudash.tui.dialogs.dialog import Dialog, put_above
from gpudash.tui.draw.line import Line
from gpudash.tui.keymap import KILL_KEYS
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.theme import Theme
from gpudash.tui.widgets.edit import content

_POLL_SECONDS = 0.1
_WIDTH, _AIRY_FROM, _MIN_BODY = 88, 18, 3
"""Maximum cells of the question, lines from which blank ones separate its parts, and lines
that the body keeps before there are any for choices.
"""

_MAX_CHIPS = 7
_CANCEL = {key for each in KILL_KEYS if each.action == "cancel" for key in each.keys.split(",")}
_OWN = frozenset(
    (
        *("answer", "cancel", "press", "turn", "focus_button"),
        *("signal", "next_signal", "choose_signal", "tree"),
    )
)


class Answer(NamedTuple):
    """The signal to send, and whether to all processes below too."""

    signal: Signal
    with_tree: bool


class KillScreen(Dialog["Answer | None"]):
    """Asks whether to send a signal; Cancel is the default, with the answer None."""

    CSS = (
        Dialog.CSS
        + """
    KillScreen #question { width: 100%; max-width: 90; padding: 0 1; }
    KillScreen #title { color: $primary; text-style: bold; }
    KillScreen #body { height: auto; scrollbar-size: 0 0; }
    KillScreen #buttons { height: 1; }
    KillScreen #buttons Static { width: auto; height: 1; margin-right: 2; background: $button; }
    KillScreen #buttons #hint {
        width: 1fr; margin: 0; background: $surface; color: $dim; text-style: $dim-style;
    }
    KillScreen #buttons Static:focus {
        background: $input-cursor-background;
        color: $input-cursor-foreground;
        text-style: $input-cursor-text-style;
    }
    KillScreen #buttons #act:focus { background: $danger; }
    KillScreen.-airy #question { padding: 1 3; }
    KillScreen.-airy #title, KillScreen.-airy #body { margin-bottom: 1; }
    KillScreen.-airy #choices { margin-bottom: 1; }
    KillScreen.-cramped #buttons Static { margin-right: 0; }
    KillScreen.-small #question { padding: 0; height: 100%; }
    KillScreen.-small #title { height: 1fr; }
    KillScreen.-small #body { display: none; }
    """
    )
    KEYS = KILL_KEYS
    BINDINGS: ClassVar[list[Any]] = bindings(KILL_KEYS)
    AUTO_FOCUS = ""
    EDGE_FROM = 40, 14

    answer: var[Answer] = var(Answer(find_signal("KILL"), with_tree=False), init=False)
    """What to do on yes."""

    def __init__(
        self,
        selection: KillSelection,
        answer: Answer,
        theme: Theme,
        *,
        latest: Callable[[], Snapshot],
        guard_seconds: float,
        offer: str = "",
    ) -> None:
        """Ask about a selection; `offer` precedes the question after a signal that was ignored.

        `answer` is the initial choice; `latest` returns the newest snapshot, to which ages count.
        For `guard_seconds` after the question is readable, keys and clicks are ignored.
        """
        super().__init__(theme)
        self.set_reactive(KillScreen.answer, answer)
        self._selection, self._offer, self._latest = selection, offer, latest
        self._guard_seconds = guard_seconds
        self._asked_at = math.inf
        """When the present question first reached the terminal, on the monotonic clock."""
        self._again = False
        """Whether this is the second question, about processes that are not plain jobs."""
        self._room = 1, 1
        self._seen: object = None
        self._title, self._hint = Static(id="title", markup=False), Static(id="hint", markup=False)
        self._text, self._choices = Static(markup=False), Static(id="choices", markup=False)
        self._body = VerticalScroll(self._text, id="body", can_focus=False)
        # No Buttons: they take Enter and clicks past `check_action`, and show focus by colour only.
        self._cancel, self._act = Static(id="cancel", markup=False), Static(id="act", markup=False)
        self._cancel.can_focus = self._act.can_focus = True
        for clickable in (self._choices, self._cancel, self._act):
            clickable.auto_links = False

    def compose(self) -> ComposeResult:
        """Stack the text, the choices, and the buttons."""
        buttons = Horizontal(self._cancel, self._act, self._hint, id="buttons")
        yield Vertical(self._title, self._body, self._choices, buttons, id="question")

    def on_mount(self) -> None:
        """Focus Cancel, and watch for the end of the processes until it is answered."""
        self.set_focus(self._cancel)
        self.watch(self._body, "scroll_y", self._describe, init=False)
        self.set_interval(_POLL_SECONDS, self._poll)

    # What is an answer

    @property
    def obeys_from(self) -> float:
        """The instant from which it accepts keys and clicks: earlier ones were for what was there.

        Text typed to a shell must not answer either.
        """
        back = self.app.taken_over_at if isinstance(self.app, TerminalApp) else -math.inf
        return max(self._asked_at, back) + self._guard_seconds

    def ignore_key(self, key: str, at: float) -> None:
        """Restart the wait after a key that came too early: the next may complete it.

        But not after one that would send nothing, which may be held down.
        """
        if self._asked_at < math.inf and key not in _CANCEL:
            self._asked_at = max(self._asked_at, at)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse input that comes too early, and `yes` unless the question is readable."""
        if action not in _OWN:
            return super().check_action(action, parameters)
        if time.monotonic() < self.obeys_from:
            return False
        return action in ("cancel", "press") or self._may_answer

    @property
    def _may_answer(self) -> bool:
        """Whether the whole question is in view, and about a running process."""
        # Hidden as soon as there is no room, possibly before the others are laid out again.
        able = self._act.display and bool(self._selection.living)
        return able and all(
            map(self._is_in_view, (self._title, self._body, self._cancel, self._act))
        )

    def _is_in_view(self, widget: Widget) -> bool:
        """Whether a widget is entirely visible."""
        try:
            found = self.find_widget(widget)
        except NoWidget:
            return False
        return bool(found.region) and found.visible_region == found.region

    def action_answer(self) -> None:
        """Close with the answer, after a second question unless it is for plain jobs."""
        dangerous = self._selection.dangerous_pids(with_tree=self.answer.with_tree)
        if not dangerous or self._again:
            self.dismiss(self.answer)
            return
        self.set_focus(self._cancel)
        self._asked_at, self._again = math.inf, True
        self._ask()

    def action_press(self) -> None:
        """Press the focused button."""
        if self.focused is self._act and self._may_answer:
            self.action_answer()
        else:
            self.action_cancel()

    def action_turn(self) -> None:
        """Focus the other button."""
        self.action_focus_button("left" if self.focused is self._act else "right")

    def action_focus_button(self, side: str) -> None:
        """Focus the button on a side: Cancel at the left, the action at the right."""
        self.set_focus(self._cancel if side == "left" else self._act)
        self._ask()

    # What is asked

    def watch_answer(self) -> None:
        """Ask about the changed choice."""
        self._ask()

    def _poll(self) -> None:
        """Redraw when a process has ended, the trees are known, or time has passed."""
        latest = self._latest()
        seen = len(self._selection.living), self._selection.trees is None, latest.taken_at
        if seen != self._seen:
            self._seen = seen
            self._ask()

    def action_tree(self) -> None:
        """Toggle whether processes below are signalled too."""
        if not self._again:
            with_tree = bool(self._selection.members) and not self.answer.with_tree
            self.answer = self.answer._replace(with_tree=with_tree)

    @property
    def _takes_signal(self) -> bool:
        """Whether another signal may be chosen."""
        return not self._offer and not self._again

    def action_signal(self, name: str) -> None:
        """Choose a signal."""
        if self._takes_signal:
            self.answer = self.answer._replace(signal=find_signal(name))

    def action_next_signal(self, step: int) -> None:
        """Choose the next or the previous signal, if there is one."""
        every = signals()
        index = max(0, min(every.index(self.answer.signal) + step, len(every) - 1))
        self.action_signal(every[index].name)

    def action_choose_signal(self) -> None:
        """Choose from all signals, by name or number."""
        if not self._takes_signal:
            return
        from gpudash.tui.dialogs.choose import Choice, ChooseScreen

        widest = max(len(signal.name) for signal in signals())
        choices = [
            Choice(signal.name, f"{signal.name:{widest}}  {signal.help}", str(signal.number))
            for signal in signals()
        ]
        current = self.answer.signal.name
        screen = ChooseScreen("Which signal?", choices, self.palette, current=current)
        put_above(self.app, screen, lambda name: self.action_signal(name or current))

    # What is shown

    def fit(self, cells: int, lines: int) -> None:
        """Fit the question to the terminal."""
        self._room = min(_WIDTH, cells), lines
        self.set_class(lines >= _AIRY_FROM, "-airy")
        self._ask()

    def _ask(self) -> None:
        """Show the present question."""
        signal, with_tree = self.answer
        asked = question(
            self._selection,
            signal,
            now=self._latest(),
            with_tree=with_tree,
            offer=self._offer,
            again=self._again,
        )
        acts, cut = asked.action is not None, self.palette.cut
        cells = max(1, self._room[0] - (6 if self.has_class("-airy") else 2))
        self._title.update(Content(asked.title))
        listed = (each._replace(text=cut(each.text, cells)) for each in asked.processes)
        self._text.update(content(self._line(*each) for each in (*asked.facts, *listed)))
        choices = self._choice_lines() if acts else []
        self._choices.update(content(choices))
        buttons = width(f"[Cancel  n]  [{asked.action}  y]" if acts else " Close  q ")
        is_small = not self._fit_parts(cells, has_choices=bool(choices)) or buttons > cells
        if is_small:
            self._title.update(Content("Terminal too small for this question"))
        self.set_class(is_small, "-small")
        self._act.display = acts and not is_small
        if not self._act.display:
            self.set_focus(self._cancel)
        self._show_buttons(asked.action)
        self.call_after_refresh(self._drawn)

    def _fit_parts(self, cells: int, *, has_choices: bool) -> bool:
        """Divide the lines among the parts; return whether there are enough.

        The body scrolls, with at least one line in view.
        """

        def height(widget: Static) -> int:
            return widget.get_content_height(self.size, self.size, cells)

        blank = 5 if self.has_class("-airy") else 0
        left = self._room[1] - height(self._title) - 1 - blank
        choices = height(self._choices) if has_choices else 0
        self._choices.display = 0 < choices <= left - _MIN_BODY
        self._body.styles.max_height = max(1, left - choices * self._choices.display)
        return left >= 1

    def _line(self, text: str, level: Level) -> Line:
        theme = self.palette
        style = theme.panel
        if level != "ok":
            style = theme.level(level) + Style(bgcolor=theme.panel.bgcolor)
        return [Segment(text, style)]

    def _choice_lines(self) -> list[Line]:
        """Return the choices: the signal, and whether processes below are signalled too."""
        theme, (chosen, with_tree) = self.palette, self.answer
        lines: list[Line] = []
        if self._takes_signal:
            chips = [
                _clickable(f" {each.name} ", theme.panel, f"signal('{each.name}')")
                if each != chosen
                else Segment(f"[{each.name} {each.number}: {each.help}]", theme.key)
                for each in dict.fromkeys((*signals()[:_MAX_CHIPS], chosen))
            ]
            chips.append(_clickable(" s ", theme.key, "choose_signal"))
            chips.append(_clickable("all", theme.panel_dim, "choose_signal"))
            lines.append([Segment("signal ", theme.panel_dim), *chips])
        if self._selection.members and not self._again:
            box = f"[{'x' if with_tree else ' '}] with the children"
            tree = _clickable(box, theme.panel, "tree"), _clickable("  t", theme.key, "tree")
            lines.append([Segment("tree   ", theme.panel_dim), *tree])
        return lines

    def _drawn(self) -> None:
        """Describe the layout, and note when the question has reached the terminal."""
        self._describe()
        if self._asked_at == math.inf and isinstance(self.app, TerminalApp):
            self.app.call_when_sent(self._sent)

    def _sent(self) -> None:
        self._asked_at = min(self._asked_at, time.monotonic())

    def _show_buttons(self, action: str | None) -> None:
        """Label the buttons; without colours, only brackets mark the one that Enter presses."""
        cancel = " Close  q " if action is None else " Cancel  n "
        texts = {self._cancel: (cancel, "cancel"), self._act: (f" {action}  y ", "answer")}
        for button, (text, pressed) in texts.items():
            marked = self.focused is button and action is not None
            shown = f"[{text[1:-1]}]" if marked else text
            button.update(content([[_clickable(shown, Style(), pressed)]]))

    def _describe(self) -> None:
        """Show how many lines are out of view; only those above if there are no others."""
        above = round(self._body.scroll_y)
        below = max(0, self._body.virtual_size.height - above - self._body.size.height)
        glyphs = self.palette.glyphs
        arrow, count = (glyphs.arrow_down, below) if below else (glyphs.arrow_up, above)
        texts = (f"{arrow} {count} more", f"{arrow}{count}", arrow) if count else ()
        room = self._hint.size.width
        self._hint.update(Content(next((text for text in texts if len(text) <= room), "")))
        keys = ["PgDn scroll"] * bool(count) + ["Left Right button"] * self._act.display
        keys += ["Up Down signal"] * (self._act.display and self._takes_signal)
        while keys and len("  ".join(keys)) + 4 > self._room[0]:
            del keys[-1]
        self.query_one("#question").border_subtitle = Content("  ".join(keys))


def _clickable(text: str, style: Style, action: str) -> Segment:
    """Return a text with an action for clicks."""
    return Segment(text, style + Style(meta={"@click": f"screen.{action}"}))
