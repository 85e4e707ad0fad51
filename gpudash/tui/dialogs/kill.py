"""The question before a signal, about processes that were pinned when it opened."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.screen import ModalScreen

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.selection import (
    KillSelection,
    describe_member,
    describe_memory,
    describe_process,
)
from gpudash.actions.kill.signals import Signal, find_signal, signals
from gpudash.actions.kill.tree import Member
from gpudash.analysis.labels import device_labels
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.units import duration, size
from gpudash.tui.bindings import bindings
from gpudash.tui.dialogs.dialog import Dialog
from gpudash.tui.draw.question import (
    ACT,
    CANCEL,
    Drawing,
    Entry,
    Fact,
    Question,
    QuestionBox,
    box_width,
    draw,
)
from gpudash.tui.keymap import KILL_KEYS
from gpudash.tui.terminal import TerminalApp
from gpudash.tui.theme import Theme
from gpudash.tui.views.view import Closing, put_above
from gpudash.tui.widgets.lines import Wheel

_POLL_SECONDS = 0.1
_GUARD_SECONDS = 0.3
"""Keys are ignored for so long after opening, or back from a stop: no held key must answer."""

_OFFER_GUARD_SECONDS = 1.0
"""The same for a question that opens unasked: keys may be meant for what was there before."""

_OWN = frozenset(
    ("answer", "cancel", "press", "turn", "signal", "next_signal", "choose_signal", "tree")
)
_VERBS = {
    "KILL": "Kill",
    "TERM": "Terminate",
    "INT": "Interrupt",
    "STOP": "Pause",
    "CONT": "Resume",
}
_REFUSED = "refused"
_MAX_MEMBERS = 200
_MAX_INDENT = 7


class Answer(NamedTuple):
    """What is to be sent, and whether to all below too."""

    signal: Signal
    with_tree: bool


class KillScreen(Wheel, ModalScreen["Answer | None"], Closing["Answer | None"]):
    """Asks whether to send a signal; Cancel is the default, None the answer that it gives."""

    DEFAULT_CSS = """
    KillScreen { align: center middle; background: transparent; }
    """
    BINDINGS: ClassVar[list[Any]] = [*Dialog.BINDINGS, *bindings(KILL_KEYS)]
    AUTO_FOCUS = None

    def __init__(
        self,
        selection: KillSelection,
        signal: Signal,
        theme: Theme,
        *,
        offer: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask about a selection; `offer` is the question after a signal that was ignored."""
        super().__init__()
        self._selection, self._signal, self._theme = selection, signal, theme
        self._offer = offer
        self._clock = clock
        self._guard = _OFFER_GUARD_SECONDS if offer else _GUARD_SECONDS
        self._obeys_from = clock() + self._guard
        self._with_tree = self._again = False
        self._button = CANCEL
        self._width = 0
        """Of the box, which does not shrink while it is open."""
        self._first = 0
        self._seen: object = None
        self._box = QuestionBox(theme.panel, id="question")

    def compose(self) -> ComposeResult:
        """Show the question alone."""
        yield self._box

    def on_mount(self) -> None:
        """Watch for the end of the processes until it is answered."""
        self.set_interval(_POLL_SECONDS, self._poll)

    def on_resize(self) -> None:
        """Fit the question to the terminal."""
        self._width = 0
        self._fit()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Refuse early keys, and `yes` unless the question is readable and a process runs."""
        if action not in _OWN:
            return super().check_action(action, parameters)
        if self._clock() < self.obeys_from:
            return False
        return action in ("cancel", "press") or (self._readable and bool(self._selection.living))

    @property
    def obeys_from(self) -> float:
        """When keys begin to count, on the monotonic clock: those typed earlier are discarded."""
        return max(self._obeys_from, self._back_at + self._guard)

    @property
    def _readable(self) -> bool:
        """Whether there is room for the question; if not, the button in focus is Cancel."""
        return self._box.drawing is not None and self._box.drawing.answerable

    @property
    def _back_at(self) -> float:
        """When the terminal was last taken over: what was typed to a shell must not answer."""
        return self.app.taken_over_at if isinstance(self.app, TerminalApp) else -math.inf

    def _poll(self) -> None:
        """Draw again when a process has ended or the trees are known."""
        seen = len(self._selection.living), self._selection.trees is None
        if seen != self._seen:
            self._seen = seen
            self._fit()

    def _drawing(self) -> Drawing:
        cells, height = self.app.size
        asked = question(
            self._selection,
            self._signal,
            with_tree=self._with_tree,
            offer=self._offer,
            again=self._again,
        )
        if asked.action is None:
            self._button = CANCEL
        self._width = width = max(self._width, box_width(asked, self._theme, cells))
        self._box.styles.width = width
        first, button = self._first, self._button
        drawing = draw(asked, self._theme, width, max(1, height), first=first, button=button)
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
        """Close with the selected signal, after a second question unless it is for plain jobs."""
        if self._selection.is_dangerous and not self._again:
            self._again, self._button = True, CANCEL
            self._obeys_from = self._clock() + _GUARD_SECONDS
            self._fit()
            return
        self.dismiss(Answer(self._signal, self._with_tree))

    def action_press(self) -> None:
        """Do what the button in focus is for."""
        if self._button == ACT and self._selection.living:
            self.action_answer()
        else:
            self.action_cancel()

    def action_turn(self) -> None:
        """Go to the other button."""
        self._button = CANCEL if self._button == ACT else ACT
        self._fit()

    def action_tree(self) -> None:
        """Signal those below too, or leave them."""
        if self._again:
            return
        self._with_tree = bool(self._selection.members) and not self._with_tree
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
        screen = ChooseScreen("Which signal?", choices, self._theme, current=self._signal.name)
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


def question(
    selection: KillSelection,
    signal: Signal,
    *,
    with_tree: bool,
    offer: str = "",
    again: bool = False,
) -> Question:
    """Return the question; `offer` is its title after a signal that was ignored.

    `again` asks a second time, in other words, about what is not a plain job.
    """
    possible = bool(selection.living)
    members = selection.members
    verb = _VERBS.get(signal.name, f"Send SIG{signal.name}")
    title = offer or _title(selection, verb if signal.name in _VERBS else f"{verb} to")
    if again:
        is_one = len(selection.living) == 1
        title = "This is not a plain job." if is_one else "Not all of these are plain jobs."
        verb = f"{verb} anyway"
        title = f"{title} {verb}?"
    return Question(
        title if possible else _reason(selection),
        tuple(_notices(selection)),
        tuple(_facts(selection, signal, with_tree=with_tree, brief=bool(offer))),
        tuple(_entries(selection, members if with_tree else ())),
        verb if possible else None,
        signal if possible and not offer and not again else None,
        with_tree if possible and members and not again else None,
    )


def _title(selection: KillSelection, verb: str) -> str:
    count = len(selection.living)
    return f"{verb} this process?" if count == 1 else f"{verb} these {count} processes?"


def _reason(selection: KillSelection) -> str:
    """Return why nothing can be done."""
    one = len(selection.rows) == 1
    if selection.targets:
        return f"{'It has' if one else 'They have'} ended: there is nothing to signal"
    return f"{'This process' if one else 'These processes'} cannot be signalled"


def _notices(selection: KillSelection) -> Iterator[Entry]:
    if len(selection.rows) == 1:
        yield from (Entry(_REFUSED, each.reason, "critical") for each in selection.refusals)
    elif selection.refusals:
        reasons = {refusal.reason for refusal in selection.refusals}
        why = f": {reasons.pop()}" if len(reasons) == 1 else ", see below"
        count = f"{len(selection.refusals)} of {len(selection.rows)}"
        yield Entry(_REFUSED, f"{count} cannot be signalled{why}", "critical")
    living = len(selection.living)
    if 0 < living < len(selection.targets):
        gone = len(selection.targets) - living
        verb = "has" if gone == 1 else "have"
        text = f"{gone} of {len(selection.targets)} {verb} ended: nothing is sent there"
        yield Entry("ended", text, "warn")
    if living:
        for warning in selection.warnings:
            yield Entry("warning", warning.text, "critical" if warning.dangerous else "warn")


def _facts(
    selection: KillSelection, signal: Signal, *, with_tree: bool, brief: bool
) -> Iterator[Fact]:
    if len(selection.rows) == 1:
        (row,) = selection.rows
        yield Fact("PID", (str(row.process.pid),), names=True)
        yield Fact("owner", (row.process.username or "unknown",))
        if not brief:
            yield Fact("age", (duration(row.age_seconds),))
            if row.process.job is not None:
                yield Fact("job", (row.process.job.label,))
    else:
        owners = {each.username or "unknown" for each in selection.processes(with_tree=False)}
        yield Fact("owners", (", ".join(sorted(owners)),))
    held = selection.processes(with_tree=with_tree)
    if brief and not any(process.devices for process in held):
        return
    yield Fact(
        "frees" if signal.ends and selection.targets else "holds",
        (describe_memory(held, selection.snapshot),),
    )
    shares = _shares(held, selection.snapshot)
    if len(shares) > 1 and not brief:
        yield Fact("", tuple(shares))
    if selection.targets and not brief:
        yield Fact("children", (_children(selection, signal, with_tree=with_tree),))


def _shares(processes: Iterable[Process], snapshot: Snapshot) -> list[str]:
    """Return what is held on each device: `GPU 0 9.3 GiB`."""
    labels = device_labels(snapshot.devices)
    held: dict[str, int | None] = {}
    for process in processes:
        for share in process.devices:
            label = labels.get(share.uuid or "", str(share.index))
            amount, more = held.get(label), share.used_gpu_memory_bytes
            held[label] = more if amount is None else amount + (more or 0)
    return [f"GPU {label} {size(amount)}" for label, amount in held.items()]


def _children(selection: KillSelection, signal: Signal, *, with_tree: bool) -> str:
    if selection.trees is None:
        return "not known yet"
    members = selection.members
    if not members:
        return "1: gpudash itself runs below it" if selection.is_above_gpudash else "none"
    held = describe_memory([member.process for member in members], selection.snapshot)
    text = f"{len(members)}, with {held}"
    if selection.is_above_gpudash:
        text = f"{text}, and gpudash itself"
    if not with_tree:
        return f"{text}: they stay"
    return text if signal.name == "KILL" else f"{text}: those that outlive it get the signal too"


def _entries(selection: KillSelection, members: tuple[Member, ...]) -> Iterator[Entry]:
    if len(selection.rows) == 1:
        yield Entry("command", masked_command(selection.rows[0].process), is_folded=True)
    else:
        refused = {refusal.process.key: refusal.reason for refusal in selection.refusals}
        ended = {each.process.key for each in selection.targets} - {
            e.process.key for e in selection.living
        }
        for row in selection.rows:
            text = f"{describe_process(row)}: {masked_command(row.process)}"
            yield Entry(str(row.process.pid), text)
            if row.process.key in refused:
                yield Entry("", refused[row.process.key], "critical")
            elif row.process.key in ended:
                yield Entry("", "it has ended by itself", "warn")
    for index, member in enumerate(members[:_MAX_MEMBERS]):
        indent = "  " * min(member.depth - 1, _MAX_INDENT)
        yield Entry("" if index else "with it", f"{indent}{describe_member(member)}")
    if len(members) > _MAX_MEMBERS:
        yield Entry("", f"and {len(members) - _MAX_MEMBERS} more")
