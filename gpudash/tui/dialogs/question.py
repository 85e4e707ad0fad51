"""What a question before a signal says, in words and in lines, and whether it can be read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.actions.kill.pin import masked_command
from gpudash.actions.kill.selection import (
    KillSelection,
    describe_member,
    describe_memory,
    describe_process,
    listed,
)
from gpudash.actions.kill.signals import Signal, signals
from gpudash.actions.kill.tree import Member
from gpudash.model.device import device_labels
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import Level
from gpudash.model.text import cut, fold, pad, width
from gpudash.model.units import duration, size
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.theme import Theme

_VERBS = {
    "KILL": "Kill",
    "TERM": "Terminate",
    "INT": "Interrupt",
    "STOP": "Pause",
    "CONT": "Resume",
}
_REFUSED = "refused"
_MAX_NAMED = 3
_MAX_MEMBERS = 200
_MAX_INDENT = 7

LABEL = 10
"""Cells of the labels at the left."""

_MAX_CHIPS = 8
_INDENT = 3
_NARROW, _WIDE = 76, 106
_MARGIN = 12
_GAP = "   "
_MAX_ENTRIES, _MIN_ENTRIES = 14, 2
_MIN_CELLS = 24
"""What is narrower is cut off."""

_TOO_SMALL = (
    "The terminal is too small for this question.",
    "The terminal is too small.",
    "too small to ask",
    "too small",
)
"""Shown instead of a question that has no room: the first of them that fits."""


class Fact(NamedTuple):
    """A label and its text, in parts that are not broken."""

    label: str
    parts: tuple[str, ...]
    names: bool = False
    """Whether it names the process: unless it is in view, yes is not accepted."""


class Entry(NamedTuple):
    """A text under a label, cut to one line unless `is_folded`."""

    label: str
    text: str
    level: Level = "ok"
    is_folded: bool = False


class Question(NamedTuple):
    """Everything that the dialog shows; without an action only Close is offered."""

    title: str
    notices: tuple[Entry, ...]
    """Read first and shown in full: why it is refused, what else a signal would affect."""
    facts: tuple[Fact, ...]
    entries: tuple[Entry, ...]
    action: str | None
    signal: Signal | None
    """The one that is selected, None where it cannot be changed."""
    with_tree: bool | None
    """Whether those below are signalled too, None if there are none."""


class Layout(NamedTuple):
    """The parts of a question within a width and a height."""

    title: Sequence[str]
    names: Sequence[Line]
    """What names the process; it and the title stay while the body scrolls."""
    body: Sequence[Line]
    room: int
    """Lines for the body."""
    hinted: bool
    """Whether there is a line below the body for how much is out of view."""
    choices: Sequence[Line]
    height: int
    """Lines of all."""
    airy: bool = False
    """Whether blank lines set the parts apart."""
    indent: int = _INDENT
    answerable: bool = True
    """Whether the title, the process and the button that acts can be read."""


def question_width(asked: Question, theme: Theme, cells: int) -> int:
    """Return the width of a question where there are so many cells: no wider than its text."""
    if cells < _NARROW + 2 * _MARGIN:
        return max(1, min(_NARROW, cells))
    widest = min(_WIDE, cells - _MARGIN)
    shown = laid_out(asked, theme, widest, 1000)
    longest = max(map(cells_of, [*shown.names, *shown.body, *shown.choices]))
    return max(_NARROW, min(widest, longest + 2 * _INDENT))


def laid_out(asked: Question, theme: Theme, cells: int, lines: int) -> Layout:
    """Return the parts of a question for a width, in at most so many lines.

    Where there is no room for the title, the process and the button that acts, it says so and
    offers Cancel alone.
    """
    # Not left to containers: only lines counted beforehand are known to be all on the terminal.
    room = max(_MIN_CELLS, cells - 2 * _INDENT)
    acts = asked.action is not None
    title = fold(asked.title, room)
    names = _fact_lines([fact for fact in asked.facts if fact.names], theme, room)
    facts = _fact_lines([fact for fact in asked.facts if not fact.names], theme, room)
    notices = _notice_lines(asked, theme, room)
    # A refusal is read before the process that it is about.
    pinned, read = (names, [*facts, *notices]) if acts else ([], [*notices, *names, *facts])
    entries = [line for entry in asked.entries for line in _entry_lines(entry, theme, room)]
    body = [*read, *entries]
    choices = _choice_lines(asked, theme, room)
    buttons = width(f"[Cancel  n]   {asked.action}  y ") if acts else 0
    if acts and max(buttons, *map(width, title), *map(cells_of, pinned)) + _INDENT > cells:
        return _too_small(cells, lines)
    # Above and below all, below the title, and above the buttons and what can be chosen.
    fixed = len(title) + len(pinned) + len(choices) + 1 + 5
    most = len(read) + min(len(entries), max(lines - fixed - len(read), _MIN_ENTRIES))
    most = min(most, len(read) + _MAX_ENTRIES)
    if fixed + most <= lines:
        hinted = most < len(body) or bool(choices)
        height = fixed + most - (not hinted)
        return Layout(title, pinned, body, most, hinted, choices, height, airy=True)
    if acts:
        spare = lines - len(title) - len(pinned) - 2
        if len(choices) > spare:
            choices = choices[-1:] if asked.with_tree else []
        if len(choices) > spare:
            return _too_small(cells, lines)
    else:
        title = title[: max(0, lines - 1 - _MIN_ENTRIES, lines - 1 > 0)]
    left = max(0, lines - len(title) - len(pinned) - len(choices) - 1)
    hinted = len(body) > left > 1
    height = min(lines, len(title) + len(pinned) + min(len(body), left) + len(choices) + 1)
    room = min(len(body), left - hinted)
    return Layout(title, pinned, body, room, hinted, choices, height, indent=_indent(cells))


def _indent(cells: int) -> int:
    """Return the blank cells at the left, none where Cancel would not fit with them."""
    return max(0, min(_INDENT, (cells - width("[Cancel  n]")) // 2))


def _too_small(cells: int, lines: int) -> Layout:
    """Return the layout of a question that has no room: the reason, as far as it fits."""
    indent = _indent(cells)
    room = cells - 2 * indent
    folded = (fold(text, max(1, room)) for text in _TOO_SMALL)
    fits = (t for t in folded if len(t) < lines and max(map(width, t)) <= room)
    text = next(fits, [])
    return Layout(text, [], [], 0, False, [], len(text) + 1, indent=indent, answerable=False)


def _choice_lines(asked: Question, theme: Theme, room: int) -> list[Line]:
    """Return what can be chosen: the signal among its neighbours, and the tree."""
    lines: list[Line] = []
    if asked.signal is not None:
        more = [Segment(" s ", theme.key), Segment("all", theme.panel_dim)]
        line: Line = [Segment(pad("signal", LABEL), theme.panel_dim)]
        for each in _neighbours(asked.signal, room - LABEL - cells_of(more)):
            style = theme.key if each == asked.signal else theme.panel
            click = clicked(f"signal('{each.name}')")
            line.append(Segment(_chip(each, asked.signal), style + click))
        opens = clicked("choose_signal")
        lines.append([*line, *(Segment(text, (look or opens) + opens) for text, look, _ in more)])
    if asked.with_tree is not None:
        click = clicked("tree")
        box = f"[{'x' if asked.with_tree else ' '}] with the children"
        lines.append(
            [
                Segment(pad("tree", LABEL), theme.panel_dim),
                Segment(box, theme.panel + click),
                Segment("  t", theme.key + click),
            ]
        )
    return lines


def _neighbours(chosen: Signal, room: int) -> Sequence[Signal]:
    """Return the signals around the chosen one; it itself is there however little room there is."""
    every = signals()
    index = every.index(chosen)
    first = max(0, index - _MAX_CHIPS + 1)

    def cells(end: int) -> int:
        return sum(width(_chip(each, chosen)) for each in every[first:end])

    while first < index and cells(index + 1) > room:
        first += 1
    end = index + 1
    while end < min(len(every), first + _MAX_CHIPS) and cells(end + 1) <= room:
        end += 1
    return every[first:end]


def _chip(signal: Signal, chosen: Signal) -> str:
    if signal == chosen:
        return f"[{signal.name} {signal.number}: {signal.help}]"
    return f" {signal.name} "


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
        verb = f"{verb} anyway"
        title = f"{_doubt(selection, with_tree=with_tree)} {verb}?"
    return Question(
        title if possible else _reason(selection),
        tuple(_notices(selection, with_tree=with_tree)),
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


def _doubt(selection: KillSelection, *, with_tree: bool) -> str:
    """Return which of the processes are not plain jobs."""
    if len(selection.processes(with_tree=with_tree)) == 1:
        return "This is not a plain job."
    pids = selection.dangerous_pids(with_tree=with_tree)
    if len(pids) == 1:
        return f"PID {pids[0]} is not a plain job."
    which = f"PIDs {listed(pids)}" if len(pids) <= _MAX_NAMED else f"{len(pids)} of these"
    return f"{which} are not plain jobs."


def _notices(selection: KillSelection, *, with_tree: bool) -> Iterator[Entry]:
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
        for warning in selection.warnings(with_tree=with_tree):
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
    if signal.name == "KILL" or not signal.ends:
        return text
    return f"{text}: those that still run soon after get the signal too"


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


def _notice_lines(question: Question, theme: Theme, room: int) -> list[Line]:
    lines: list[Line] = []
    before = ""
    for label, text, level, _ in question.notices:
        mark = f"{theme.glyphs.cross if label == _REFUSED else '!'} "
        texts = fold(text, room - LABEL - len(mark))
        marked = [f"{mark if not number else '  '}{part}" for number, part in enumerate(texts)]
        lines += _labelled("" if label == before else label, marked, _on_panel(level, theme), theme)
        before = label
    return lines


def _fact_lines(facts: Iterable[Fact], theme: Theme, room: int) -> list[Line]:
    return [line for fact in facts for line in _fact(fact, theme, room)]


def _fact(fact: Fact, theme: Theme, room: int) -> list[Line]:
    return _labelled(fact.label, _flowed(fact.parts, room - LABEL), theme.panel, theme)


def _entry_lines(entry: Entry, theme: Theme, room: int) -> list[Line]:
    cells = room - LABEL
    mark = theme.glyphs.ellipsis
    texts = fold(entry.text, cells) if entry.is_folded else [cut(entry.text, cells, mark=mark)]
    return _labelled(entry.label, texts, _on_panel(entry.level, theme), theme)


def _labelled(label: str, texts: Sequence[str], style: Style, theme: Theme) -> list[Line]:
    labels = [label, *[""] * (len(texts) - 1)]
    return [
        [Segment(pad(each, LABEL), theme.panel_dim), Segment(text, style)]
        for each, text in zip(labels, texts, strict=True)
    ]


def _flowed(parts: Sequence[str], cells: int) -> list[str]:
    """Return parts side by side in columns, as many in a line as fit; a long one is folded."""
    column = max(map(width, parts))
    across = (cells + len(_GAP)) // (column + len(_GAP))
    if across < 2 or len(parts) == 1:
        return [line for part in parts for line in fold(part, cells)]
    return [
        _GAP.join(pad(part, column) for part in parts[start : start + across])
        for start in range(0, len(parts), across)
    ]


def _on_panel(level: Level, theme: Theme) -> Style:
    """Return the style of a text of this level within the box."""
    return theme.panel if level == "ok" else theme.level(level) + Style(bgcolor=theme.panel.bgcolor)


def clicked(action: str) -> Style:
    """Return what makes a text do something when it is clicked."""
    return Style(meta={"@click": f"screen.{action}"})
