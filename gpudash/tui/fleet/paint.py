"""What a cell of the heat map shows: a letter for a state, or a value as height and colour."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import chain, groupby
from typing import NamedTuple

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
from gpudash.model.fleet import FleetDevice, FleetHost
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

    key: str
    title: str
    help: str
    """The meaning of blocks and letters, besides those of states."""
    of_host: Callable[[HostRow], float | None] = lambda _row: None
    """The height of a host, from 0 to 1; None if unknown, or if letters are drawn."""
    of_device: Callable[[FleetHost, FleetDevice], float | None] = lambda _host, _device: None
    """The same of a GPU."""


PAINTINGS = (
    Painting(
        "utilization",
        "utilization",
        "height: mean",
        lambda row: ratio(row.utilization, 100),
        lambda _, device: ratio(device.gpu_utilization_percent, 100),
    ),
    Painting("held", HELD.word, "number of GPUs held idle"),
    Painting("free", "free", "number of free GPUs"),
    Painting(
        "memory",
        "memory",
        "height: in use",
        lambda row: ratio(row.memory_used_bytes, row.memory_total_bytes),
        lambda _, device: ratio(device.memory_used_bytes, device.memory_total_bytes),
    ),
    Painting(
        "power",
        "power",
        "height: of its limit",
        lambda row: ratio(row.power_mw, row.limit_mw),
        lambda _, device: ratio(device.power_usage_mw, device.enforced_power_limit_mw),
    ),
    Painting(
        "temperature",
        "temperature",
        "height: hottest, 30 to 90 C",
        lambda row: _degrees(row.temperature),
        lambda _, device: _degrees(device.temperature_celsius),
    ),
    Painting("xid", "XID errors", "x a recent XID error"),
    Painting("driver", "driver", ""),
    Painting("owner", "owner", ""),
    Painting(
        "age",
        "age",
        "height: age, up to 2 minutes",
        lambda row: ratio(row.host.age_seconds, _OLD_SECONDS),
        lambda host, device: ratio(age_of(host, device), _OLD_SECONDS),
    ),
)
"""In the order in which a key goes through them."""


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
        self._names: dict[str, tuple[str, str]] = {}
        if painting.key == "driver":
            self._name(Counter(row.host.driver_version or "?" for row in rows if row.is_known))
        elif painting.key == "owner":
            self._name(
                Counter(u for row in rows if row.is_known for d in row.devices for u in d.users)
            )

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

    def _name(self, counts: Counter[str]) -> None:
        """Assign letters to the most frequent names."""
        for letter, (name, count) in zip(_OWNERS, counts.most_common(len(_OWNERS)), strict=False):
            self._names[name] = letter, f"{name} {count}"

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
        glyph = self._of_host(row)
        if glyph is not None:
            return glyph
        if self._painting.key == "utilization":
            if row.worst is not None and row.letter:
                return self._finding(row.worst)
            for state in (UNKNOWN, DRAINED):
                if row.count(state) == row.gpus:
                    return self._state(state)
        return self._several([row])

    def _several(self, rows: Sequence[HostRow]) -> Glyph:
        """Return the common character of several answering hosts."""
        key = self._painting.key
        if key in ("held", "free"):
            return self._number(sum(row.count(HELD if key == "held" else FREE) for row in rows))
        if key == "xid":
            return self._xid(any(d.xid is not None for row in rows for d in row.devices))
        if key == "driver":
            return self._one_of({row.host.driver_version or "?" for row in rows})
        if key == "owner":
            return self._one_of({user for row in rows for user in row.users})
        held = sum([row.count(HELD) for row in rows])
        if key == "utilization":
            if all(map(is_whole_and_free, rows)):
                return self._letter(self._free, "all free", self._theme.ok)
            # Without colours, nothing else shows that some are.
            is_enough = held > 0 and self._theme.warn.color is None
            if is_enough or (held and 2 * held >= sum(row.gpus for row in rows)):
                return self._state(HELD)
        known = [value for row in rows if (value := self._painting.of_host(row)) is not None]
        mean = sum(known) / len(known) if known else None
        if mean is None and key == "utilization" and any(row.count(IN_USE) for row in rows):
            return self._letter(_IN_USE, IN_USE.word, self._theme.base)
        return self._block(mean, marked=key == "utilization" and held > 0)

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
        device, key = gpus[number], self._painting.key
        if key != "utilization" or device.status == DIVIDED.id:
            return self._device(row, device)
        if row.worst is not None and device.uuid in row.worst.uuids and row.letter:
            return self._finding(row.worst)
        # Most GPUs are painted like many others.
        share = device.gpu_utilization_percent
        key_of = device.status, None if share is None else int(share)
        known = self._glyphs.get(key_of)
        if known is None:
            known = self._glyphs[key_of] = self._device(row, device)
        return known

    def _device(self, row: HostRow, device: FleetDevice) -> Glyph:
        """Return the character of a GPU on an answering host."""
        key = self._painting.key
        state = state_of(device.status)
        if state is DIVIDED or device.parent_uuid is not None:
            gpu = gpu_of(device)
            (status,) = statuses_of([each for each in row.devices if gpu_of(each) == gpu])
            state = state_of(status)
        if key in ("held", "free"):
            return self._number(int(state is (HELD if key == "held" else FREE)))
        if key == "xid":
            return self._xid(device.xid is not None)
        if key == "driver":
            return self._named(row.host.driver_version or "?")
        if key == "owner":
            return self._one_of(device.users)
        if key == "utilization":
            if state is FREE:
                return self._letter(self._free, state.word, self._theme.ok)
            if state.letter:
                return self._state(state)
            if state in (IN_USE, BUSY) and device.gpu_utilization_percent is None:
                return self._letter(_IN_USE, IN_USE.word, self._theme.base)
        return self._block(self._painting.of_device(row.host, device))

    def _state(self, state: State) -> Glyph:
        return self._letter(state.letter, state.word, self._theme.level(state.level))

    def _finding(self, worst: Worst) -> Glyph:
        words = finding_words(worst.rule)
        return self._letter(words.letter, words.word, self._theme.level(worst.level))

    def _number(self, count: int) -> Glyph:
        if not count:
            return self._none()
        style = self._theme.warn if self._painting.key == "held" else self._theme.ok
        return (str(count) if count < 10 else _MANY), style

    def _xid(self, has_one: bool) -> Glyph:
        return ("x", self._theme.critical) if has_one else self._none()

    def _none(self) -> Glyph:
        return self._letter(self._free, "none", self._theme.faint)

    def _named(self, name: str) -> Glyph:
        letter, word = self._names.get(name, (_MANY, "others"))
        curves = self._theme.curves
        style = curves[_OWNERS.find(letter) % len(curves)]
        return self._letter(letter, word, style)

    def _one_of(self, names: Collection[str]) -> Glyph:
        """Return the letter of the only name."""
        if not names:
            return self._none()
        if len(names) > 1:
            return self._letter(_MANY, "several", self._theme.dim)
        return self._named(*names)

    def _block(self, share: float | None, *, marked: bool = False) -> Glyph:
        """Return a value from 0 to 1 as a height; an unknown one has none."""
        if share is None:
            return self._state(UNKNOWN)
        key, theme, blocks = self._painting.key, self._theme, self._blocks
        share = min(max(share, 0.0), 1.0)
        steps = theme.memory if key == "memory" else theme.utilization
        style = steps[min(int(share * len(steps)), len(steps) - 1)]
        too_hot = (_TOO_HOT - _COLD) / (_HOT - _COLD)
        if marked or (key == "temperature" and share >= too_hot) or (key == "age" and share >= 1):
            style = theme.warn
        if marked:
            self.used.setdefault((blocks[len(blocks) // 2], "some held idle"), style)
        return blocks[min(int(share * len(blocks)), len(blocks) - 1)], style


def _rank(letter: str) -> int:
    """Return a sort key of the legend: the worst first."""
    found = _LEGEND.find(letter)
    return len(_LEGEND) if found < 0 else found
