"""What a cell of the heat map shows: a letter for a state, or a value as height and colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, groupby
from math import inf
from typing import Any, NamedTuple

from rich.segment import Segment
from rich.style import Style

from gpudash.fleet.summary import (
    HostRow,
    Worst,
    age_of,
    gpu_of,
    is_whole_and_free,
    statuses_of,
)
from gpudash.model.fleet import FleetDevice
from gpudash.model.host_words import FINDING_WORDS, HOST_STATES, finding_words
from gpudash.model.state import (
    BUSY,
    DIVIDED,
    DRAINED,
    FREE,
    HELD,
    IN_USE,
    STATES,
    UNKNOWN,
    Level,
    State,
    state_of,
)
from gpudash.model.units import ratio
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.fleet.heatmap import Cell
from gpudash.tui.theme import Theme

_FREE, _FREE_ASCII, _MISSING = "·", ".", "M"
_COLD, _HOT, _TOO_HOT = 30.0, 90.0, 85.0
_OLD_SECONDS = 120.0
_IN_USE = "u"
"""A GPU in use with unknown utilization, such as one divided by MIG."""
_OWNERS = "abcdefghijklmnopqrstuvwxyz"
_MANY = "+"

_LEVELS: tuple[Level, ...] = ("critical", "warn", "ok", "unknown")
_OF_STATES = [
    [
        *(each.letter for each in STATES if each.level == level),
        *(each.letter for each in HOST_STATES.values() if each.level == level),
    ]
    for level in _LEVELS
]
_OF_FINDINGS = {each.letter for each in FINDING_WORDS.values()}.difference(*_OF_STATES)
_LEGEND = "".join(dict.fromkeys([*_OF_STATES[0], *sorted(_OF_FINDINGS), *chain(*_OF_STATES[1:])]))
"""Letters, the worst first."""

Glyph = tuple[str, Style]


def _degrees(value: float | None) -> float | None:
    return None if value is None else (value - _COLD) / (_HOT - _COLD)


class Painting(NamedTuple):
    """A way to paint the cells."""

    title: str
    help: str
    """The meaning of blocks and letters, besides those of states."""
    of_host: Callable[[HostRow], Any]
    """The value of a host that is painted."""
    of_gpu: Callable[[HostRow, FleetDevice], Any]
    """The same of a GPU."""
    paint: Callable[[Painter, Sequence[Any]], Glyph]
    """Paints the values of several hosts together, or of one GPU."""
    hosts: Callable[[Painter, Sequence[HostRow]], Glyph | None] = lambda *_: None
    """Returns a character that replaces the value of hosts, None for none."""
    gpu: Callable[[Painter, HostRow, FleetDevice], Glyph | None] = lambda *_: None
    """The same of a GPU."""


class Painter:
    """Paints cells in one way; the letters used make up its legend."""

    def __init__(self, painting: Painting, rows: Sequence[HostRow], theme: Theme) -> None:
        self.used: dict[tuple[str, str], Style] = {}
        """The letters used and their meanings, with their style."""
        self._rows, self._theme, self._painting = rows, theme, painting
        self._blocks = theme.glyphs.eighths[1:] if not theme.is_ascii else "0123456789"
        self._free = _FREE_ASCII if theme.is_ascii else _FREE
        self._gpus_of: HostRow | None = None
        self._gpus: list[FleetDevice] = []
        """The GPUs of the last host, whose cells are painted in a row."""
        self._glyphs: dict[tuple[str, int | None], Glyph] = {}
        """Characters of GPUs by state and utilization."""
        self._names: dict[str, tuple[str, str]] = {}

    def line(self, cells: Sequence[Cell | None]) -> Line:
        """Return a run of cells; neighbours of one style are one segment."""
        base = self._theme.base
        glyphs = [(" ", base) if cell is None else self.glyph(cell) for cell in cells]
        return [
            Segment("".join(text for text, _ in run), style)
            for style, run in groupby(glyphs, key=lambda glyph: glyph[1])
        ]

    def glyph(self, cell: Cell) -> Glyph:
        """Return the character of a cell with its style."""
        rows = self._rows
        if cell.gpu is not None:
            row = rows[cell.hosts[0]]
            return self._gpu(row, cell.gpu)
        if len(cell.hosts) == 1:
            return self._host(rows[cell.hosts[0]])
        # Several hosts show the state of the worst; if nothing is wrong, their mean.
        worst = min((rows[n] for n in cell.hosts), key=lambda row: row.worst_first)
        if worst.letter:
            return self._host(worst)
        return self._several([rows[n] for n in cell.hosts])

    def digit(self, cell: Cell) -> str:
        """Return the character of a cell under the cursor: heights become digits."""
        text, _ = self.glyph(cell)
        level = self._blocks.find(text)
        if level < 0:
            return text
        self.used.setdefault(("0-9", "height under the cursor"), self._theme.button_focused)
        return str(round(level * 9 / (len(self._blocks) - 1)))

    def legend(self, *lines: int) -> list[Line]:
        """Return what heights and letters mean in lines of these widths, as far as they fit."""
        dim = self._theme.dim
        meaning = self._painting.help
        entries = [[Segment(f"{meaning}  ", dim)]] if meaning else []
        for (letter, word), style in sorted(self.used.items(), key=self._place):
            entries.append([Segment(letter, style), Segment(f" {word}  ", dim)])
        found: list[Line] = [[]]
        for entry in entries:
            if cells_of([*found[-1], *entry]) > lines[len(found) - 1]:
                if len(found) == len(lines):
                    break
                found.append([])
            found[-1] += entry
        return [*found, *([] for _ in lines[len(found) :])]

    def _place(self, entry: tuple[tuple[str, str], Style]) -> tuple[bool, int]:
        """Return a sort key of the legend: states, the worst first, then names."""
        (letter, word), _ = entry
        is_name = (letter, word) in self._names.values()
        return is_name, _OWNERS.find(letter) if is_name else _rank(letter)

    def _letter(self, letter: str, word: str, style: Style) -> Glyph:
        self.used.setdefault((letter, word), style)
        return letter, style

    def _of_host(self, row: HostRow) -> Glyph | None:
        """Return the letter of a silent host, None for one that answers."""
        state = row.host.state
        if state == "ok":
            return None
        words = HOST_STATES[state]
        return self._letter(words.letter, words.word, self._theme.level(words.level))

    def _host(self, row: HostRow) -> Glyph:
        return self._of_host(row) or self._several([row])

    def _several(self, rows: Sequence[HostRow]) -> Glyph:
        """Return the common character of several answering hosts."""
        each = self._painting
        return each.hosts(self, rows) or each.paint(self, [each.of_host(row) for row in rows])

    def _gpu(self, row: HostRow, number: int) -> Glyph:
        glyph = self._of_host(row)
        if glyph is not None:
            return glyph
        if self._gpus_of is not row:
            self._gpus_of = row
            # If a filter leaves only instances, the first stands for their GPU.
            self._gpus = list({gpu_of(each): each for each in reversed(row.devices)}.values())[::-1]
        gpus = self._gpus
        if number >= len(gpus):
            return self._letter(_MISSING, "GONE", self._theme.critical)
        device, each = gpus[number], self._painting
        return each.gpu(self, row, device) or each.paint(self, [each.of_gpu(row, device)])

    # The kinds of values

    def height(
        self,
        values: Sequence[float | None],
        steps: Callable[[Theme], Sequence[Style]] = lambda theme: theme.utilization,
        bad: float = inf,
    ) -> Glyph:
        """Return the mean of values from 0 to 1 as a height, a warning from `bad` on.

        An unknown one has none.
        """
        known = [value for value in values if value is not None]
        if not known:
            return self._state(UNKNOWN)
        share, blocks = min(max(sum(known) / len(known), 0.0), 1.0), self._blocks
        styles = steps(self._theme)
        style = styles[min(int(share * len(styles)), len(styles) - 1)]
        block = blocks[min(int(share * len(blocks)), len(blocks) - 1)]
        return block, self._theme.warn if share >= bad else style

    def count(
        self, values: Sequence[int], style: Callable[[Theme], Style], mark: str = ""
    ) -> Glyph:
        """Return the sum as a digit, or a mark instead of it."""
        count = sum(values)
        if not count:
            return self._none()
        return mark or (str(count) if count < 10 else _MANY), style(self._theme)

    def name(self, values: Sequence[Iterable[str]]) -> Glyph:
        """Return the letter of the only name; the most frequent names have one each."""
        names = set(chain(*values))
        if not names:
            return self._none()
        if len(names) > 1:
            return self._letter(_MANY, "several", self._theme.dim)
        if not self._names:
            rows = (row for row in self._rows if row.is_known)
            counts = Counter(chain(*map(self._painting.of_host, rows)))
            for letter, (name, count) in zip(_OWNERS, counts.most_common(), strict=False):
                self._names[name] = letter, f"{name} {count}"
        letter, word = self._names.get(names.pop(), (_MANY, "others"))
        curves = self._theme.curves
        return self._letter(letter, word, curves[_OWNERS.find(letter) % len(curves)])

    def use_of_hosts(self, rows: Sequence[HostRow]) -> Glyph | None:
        """Return the letter of a state or problem of hosts, None if their height shows it."""
        if len(rows) == 1:
            (row,) = rows
            if row.worst is not None and row.letter:
                return self._finding(row.worst)
            for state in (UNKNOWN, DRAINED):
                if row.count(state) == row.gpus:
                    return self._state(state)
        if all(map(is_whole_and_free, rows)):
            return self._letter(self._free, "all free", self._theme.ok)
        held, values = sum([row.count(HELD) for row in rows]), [row.utilization for row in rows]
        # Without colours, nothing else shows that some are.
        is_enough = held > 0 and self._theme.warn.color is None
        if is_enough or (held and 2 * held >= sum(row.gpus for row in rows)):
            return self._state(HELD)
        if all(value is None for value in values):
            in_use = any(row.count(IN_USE) for row in rows)
            return self._letter(_IN_USE, IN_USE.word, self._theme.base) if in_use else None
        if not held:
            return None
        self._letter(self._blocks[len(self._blocks) // 2], "some held idle", self._theme.warn)
        return self.height([ratio(each, 100) for each in values], bad=0.0)

    def use_of_gpu(self, row: HostRow, device: FleetDevice) -> Glyph:
        """Return the letter of a state or problem of a GPU, else its height."""
        state, share, worst = _state(row, device), device.gpu_utilization_percent, row.worst
        is_wrong = worst is not None and row.letter and device.uuid in worst.uuids
        if worst is not None and is_wrong and device.status != DIVIDED.id:
            return self._finding(worst)
        # Most GPUs are painted like many others.
        key = state.id, None if share is None else int(share)
        if key not in self._glyphs:
            self._glyphs[key] = self._use(state, share)
        return self._glyphs[key]

    def _use(self, state: State, share: float | None) -> Glyph:
        if state is FREE:
            return self._letter(self._free, state.word, self._theme.ok)
        if state.letter:
            return self._state(state)
        if state in (IN_USE, BUSY) and share is None:
            return self._letter(_IN_USE, IN_USE.word, self._theme.base)
        return self.height([ratio(share, 100)])

    # Letters

    def _state(self, state: State) -> Glyph:
        return self._letter(state.letter, state.word, self._theme.level(state.level))

    def _finding(self, worst: Worst) -> Glyph:
        words = finding_words(worst.rule)
        return self._letter(words.letter, words.word, self._theme.level(worst.level))

    def _none(self) -> Glyph:
        return self._letter(self._free, "none", self._theme.faint)


def _rank(letter: str) -> int:
    """Return a sort key of the legend: the worst first."""
    found = _LEGEND.find(letter)
    return len(_LEGEND) if found < 0 else found


def _state(row: HostRow, device: FleetDevice) -> State:
    """Return the state of a GPU; one divided into instances has their common state."""
    state = state_of(device.status)
    if state is DIVIDED or device.parent_uuid is not None:
        gpu = gpu_of(device)
        (status,) = statuses_of([each for each in row.devices if gpu_of(each) == gpu])
        state = state_of(status)
    return state


def _in(state: State) -> tuple[Callable[[HostRow], int], Callable[[HostRow, FleetDevice], int]]:
    return lambda row: row.count(state), lambda row, device: _state(row, device) is state


def _driver(row: HostRow, _device: FleetDevice | None = None) -> Sequence[str]:
    return [row.host.driver_version or "?"]


def _owners(row: HostRow) -> Sequence[str]:
    """Return the users of each GPU: those of its instances once."""
    found = ((gpu_of(each), user) for each in row.devices for user in each.users)
    return [user for _, user in dict.fromkeys(found)]


PAINTINGS = (
    Painting(
        "utilization",
        "height: mean",
        lambda row: ratio(row.utilization, 100),
        lambda _, device: ratio(device.gpu_utilization_percent, 100),
        Painter.height,
        Painter.use_of_hosts,
        Painter.use_of_gpu,
    ),
    Painting(
        HELD.word,
        "number of GPUs held idle",
        *_in(HELD),
        partial(Painter.count, style=lambda theme: theme.warn),
    ),
    Painting(
        "free",
        "number of free GPUs",
        *_in(FREE),
        partial(Painter.count, style=lambda theme: theme.ok),
    ),
    Painting(
        "memory",
        "height: in use",
        lambda row: ratio(row.memory_used_bytes, row.memory_total_bytes),
        lambda _, device: ratio(device.memory_used_bytes, device.memory_total_bytes),
        partial(Painter.height, steps=lambda theme: theme.memory),
    ),
    Painting(
        "power",
        "height: of its limit",
        lambda row: ratio(row.power_mw, row.limit_mw),
        lambda _, device: ratio(device.power_usage_mw, device.enforced_power_limit_mw),
        Painter.height,
    ),
    Painting(
        "temperature",
        "height: hottest, 30 to 90 C",
        lambda row: _degrees(row.temperature),
        lambda _, device: _degrees(device.temperature_celsius),
        partial(Painter.height, bad=(_TOO_HOT - _COLD) / (_HOT - _COLD)),
    ),
    Painting(
        "XID errors",
        "x a recent XID error",
        lambda row: sum(each.xid is not None for each in row.devices),
        lambda _, device: device.xid is not None,
        partial(Painter.count, style=lambda theme: theme.critical, mark="x"),
    ),
    Painting("driver", "", _driver, _driver, Painter.name),
    Painting(
        "owner",
        "",
        _owners,
        lambda _, device: device.users,
        Painter.name,
    ),
    Painting(
        "age",
        "height: age, up to 2 minutes",
        lambda row: ratio(row.host.age_seconds, _OLD_SECONDS),
        lambda row, device: ratio(age_of(row.host, device), _OLD_SECONDS),
        partial(Painter.height, bad=1.0),
    ),
)
"""In the order in which a key goes through them."""
