"""Positions of hosts on the heat map: a cell for a GPU, a host or several, groups side by side.

The finest form that fits is used: a line per host with its name and a cell per GPU, then groups
with a cell per GPU, then groups with a cell per host, then one for several hosts of a group, and
last one for several hosts of any group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from math import ceil
from typing import NamedTuple

from gpudash.fleet.summary import HostRow
from gpudash.model.text import pad, width

_GAP = 2
"""Cells between two columns of groups."""
_MAX_LABEL = 18
_SHORT_LABEL = 10
"""Maximum width of a group's name where it matters less than room for cells."""
_MAX_GAP = 10
"""Maximum extra gap between two columns of groups."""
_DIGITS = re.compile(r"(\d+)")


class Cell(NamedTuple):
    """One cell of the map: a GPU of a host, or one or several hosts."""

    hosts: tuple[int, ...]
    """Indices of the hosts among the rows shown."""
    gpu: int | None = None
    """The position of the GPU on its host, None for the host as a whole."""


class Piece(NamedTuple):
    """Consecutive cells of one group on one line."""

    x: int
    """The column of its first cell."""
    label: str
    """The text before it, empty if the group continues from another line."""
    cells: tuple[Cell | None, ...]
    """None is a blank between two hosts."""


class Arrangement(NamedTuple):
    """The lines of the map, from top to bottom."""

    unit: str
    """What a cell stands for: `a GPU`, `a host`, `3 hosts`."""
    lines: tuple[tuple[Piece, ...], ...]

    def cell_at(self, x: int, y: int) -> Cell | None:
        """Return the map cell at a position, None for none."""
        if not 0 <= y < len(self.lines):
            return None
        for piece in self.lines[y]:
            index = x - piece.x
            if 0 <= index < len(piece.cells):
                return piece.cells[index]
        return None

    def spots(self) -> Iterator[tuple[int, int, Cell]]:
        """Return the first cell of each host or hosts with its x and y, in the order of the map."""
        for y, line in enumerate(self.lines):
            for piece in line:
                before: tuple[int, ...] = ()
                for index, cell in enumerate(piece.cells):
                    if cell is not None and cell.hosts != before:
                        before = cell.hosts
                        yield piece.x + index, y, cell

    def beside(self, host: int, across: int, down: int) -> Cell | None:
        """Return the cell to the right or left of a host's, or on a line below or above.

        The first cell if the host is not on the map, None if there is none.
        """
        spots = list(self.spots())
        here = next((n for n, (_, _, cell) in enumerate(spots) if host in cell.hosts), None)
        if here is None:
            return spots[0][2] if spots else None
        x, y, cell = spots[here]
        if not down:
            in_order = sorted(spots, key=lambda spot: spot[2].hosts)
            index = in_order.index(spots[here]) + across
            return in_order[max(0, min(index, len(spots) - 1))][2]
        # The nearest line in that direction, and its nearest cell.
        lines = {spot[1] for spot in spots if (spot[1] - y) * down > 0}
        if not lines:
            return cell
        target = sorted(lines, reverse=down < 0)[min(abs(down), len(lines)) - 1]
        return min((spot for spot in spots if spot[1] == target), key=lambda s: abs(s[0] - x))[2]


def ordered(rows: Sequence[HostRow]) -> list[HostRow]:
    """Return hosts by group, with numbers in names sorted by value."""
    return sorted(rows, key=lambda row: _order(row.host.group or "", row.title))


@lru_cache(maxsize=1 << 16)
def _order(group: str, name: str) -> tuple[list[tuple[int, int, str]], ...]:
    return _natural(group), _natural(name)


def arrange(rows: Sequence[HostRow], cells: int, height: int) -> Arrangement:
    """Return the finest map of `ordered` hosts that fits into cells and lines."""
    if not rows:
        return Arrangement("a host", ())
    groups = [
        (label, [n for n, _ in found])
        for label, found in groupby(enumerate(rows), lambda pair: pair[1].host.group or "")
    ]
    sizes = [max(1, row.gpus + row.missing) for row in rows]

    def by_gpu(unit: tuple[int, ...]) -> list[Cell]:
        return [Cell(unit, gpu) for gpu in range(sizes[unit[0]])]

    def as_one(unit: tuple[int, ...]) -> list[Cell]:
        return [Cell(unit)]

    singles = [
        _Run(row.title, [(n,)], [size])
        for n, (row, size) in enumerate(zip(rows, sizes, strict=True))
    ]
    whole = [_Run(label, [(n,) for n in ns], [sizes[n] for n in ns]) for label, ns in groups]
    for runs, limit, gap in ((singles, _MAX_LABEL, 0), (whole, _SHORT_LABEL, 1), (whole, 6, 0)):
        if found := _fitted(runs, "a GPU", by_gpu, cells, height, limit, gap):
            return found
    if found := _streamed(whole, by_gpu, cells, height):
        return found
    fewest = max(1, len(rows) // max(1, cells * height))
    # Each group takes a line, with its name; without groups, a line and a cell suffice.
    for parted in (groups, [("", list(range(len(rows))))]):
        most = max(len(ns) for _, ns in parted)
        for several in range(fewest, max(fewest, most) + 1):
            units = [(label, list(_parts(ns, several))) for label, ns in parted]
            runs = [_Run(label, found, [1] * len(found)) for label, found in units]
            unit = "a host" if several == 1 else f"{several} hosts"
            if found := _fitted(runs, unit, as_one, cells, height, _SHORT_LABEL, 0):
                return found
    return Arrangement("a host", ())


class _Run(NamedTuple):
    """A group: its hosts, one or several per unit, and the cells of each unit."""

    label: str
    units: list[tuple[int, ...]]
    sizes: list[int]


def _fitted(
    runs: Sequence[_Run],
    unit: str,
    draw: Callable[[tuple[int, ...]], list[Cell]],
    cells: int,
    height: int,
    limit: int,
    gap: int,
) -> Arrangement | None:
    """Return groups in the fewest columns with the fewest lines, None if they do not fit.

    That leaves most room to what is below the map.
    """
    widest = max((max(run.sizes) for run in runs), default=0)
    if not height or not widest or sum(sum(run.sizes) for run in runs) > cells * height:
        return None
    longest = max(width(run.label) for run in runs)
    label_cells = min(limit, longest) + (longest > 0)
    most = (cells + _GAP) // (widest + _GAP + label_cells)
    depths = [
        (ceil(sum(_line_count(run.sizes, room, gap) for run in runs) / columns), columns, room)
        for columns in range(1, most + 1)
        if (room := (cells + _GAP) // columns - _GAP - label_cells) >= widest
    ]
    deep, columns, room = min(depths, default=(height + 1, 1, 0))
    if deep > height:
        return None
    lines = [
        (run.label if first else "", line)
        for run in runs
        for first, line in _wrapped([draw(each) for each in run.units], room, gap)
    ]
    used = max(len(line) for _, line in lines) + label_cells + _GAP
    step = max(used, min((cells + _GAP) // columns, used + _MAX_GAP))
    return Arrangement(unit, _placed(lines, deep, step, label_cells))


def _streamed(
    runs: Sequence[_Run],
    draw: Callable[[tuple[int, ...]], list[Cell]],
    cells: int,
    height: int,
) -> Arrangement | None:
    """Return groups one after the other with a cell per GPU, None if they do not fit."""
    if not runs or sum(sum(run.sizes) for run in runs) > cells * height:
        return None
    lines: list[list[Piece]] = [[]]
    x = 0
    for run in runs:
        label = pad(run.label, min(_SHORT_LABEL, width(run.label))) + " "
        if width(label) + max(run.sizes) > cells:
            return None
        x += _GAP if x else 0
        if x + width(label) + run.sizes[0] > cells:
            lines.append([])
            x = 0
        x += width(label)
        line: list[Cell | None] = []
        for unit, size in zip(run.units, run.sizes, strict=True):
            if x + len(line) + size > cells:
                lines[-1].append(Piece(x, label, tuple(line)))
                lines.append([])
                x, label, line = 0, "", []
            line += draw(unit)
        lines[-1].append(Piece(x, label, tuple(line)))
        x += len(line)
        if len(lines) > height:
            return None
    return Arrangement("a GPU", tuple(map(tuple, lines)))


def _line_count(sizes: Sequence[int], room: int, gap: int) -> int:
    """Return how many lines of `room` cells hosts of these sizes take."""
    if sizes.count(sizes[0]) == len(sizes):
        return ceil(len(sizes) / ((room + gap) // (sizes[0] + gap)))
    lines, used = 1, 0
    for size in sizes:
        between = gap if used else 0
        if used and used + between + size > room:
            lines, used, between = lines + 1, 0, 0
        used += between + size
    return lines


def _wrapped(
    hosts: Sequence[Sequence[Cell]], room: int, gap: int
) -> Iterator[tuple[bool, tuple[Cell | None, ...]]]:
    """Return a group's cells line by line without splitting hosts, and whether it is the first."""
    line: list[Cell | None] = []
    first = True
    for host in hosts:
        between = gap if line else 0
        if line and len(line) + between + len(host) > room:
            yield first, tuple(line)
            line, first, between = [], False, 0
        line += [None] * between
        line += host
    if line:
        yield first, tuple(line)


def _placed(
    lines: Sequence[tuple[str, tuple[Cell | None, ...]]], deep: int, step: int, label_cells: int
) -> tuple[tuple[Piece, ...], ...]:
    """Return the lines of groups in columns from top to bottom."""
    return tuple(
        tuple(
            Piece(
                column * step + label_cells,
                pad(label, label_cells - 1) + " " * bool(label_cells),
                line,
            )
            for column, (label, line) in enumerate(lines[y::deep])
        )
        for y in range(deep)
    )


def _parts(indices: Sequence[int], several: int) -> Iterator[tuple[int, ...]]:
    for start in range(0, len(indices), several):
        yield tuple(indices[start : start + several])


def _natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key for names: `r9` before `r10`."""
    parts = (part for part in _DIGITS.split(text) if part)
    return [
        (0, int(part[:18]), part) if part.isascii() and part.isdigit() else (1, 0, part)
        for part in parts
    ]
