"""The processes as a forest: parents above children, with tree lines, siblings in given order.

Only processes that use a GPU are rows. If the parent is not shown, a process is below its nearest
ancestor that is; without any, it is beside the others that the same parent started, such as the
workers of a launcher, joined by an opening line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpudash.analysis.table import Column, ProcessRow

TREE = Column[ProcessRow](
    key="tree",
    header="parents and children",
    text=lambda row: row.branch,
    sort_key=lambda row: 0,
    width=0,
)
"""An order without a column on the screen: all compare equal, so that siblings keep theirs."""

_MAX_INDENT = 30
"""Maximum width of tree lines: a fork bomb must not push the commands off the screen."""
_MAX_STEPS = 64
"""Maximum number of ancestors to search for one that is shown."""
_INIT = 1
_OPENING, _BRANCH, _LAST, _TRUNK, _BLANK = "┌─ ", "├─ ", "└─ ", "│  ", "   "
_IN_ASCII = str.maketrans("┌├└│─", ",|`|-")


def forest(rows: Sequence[ProcessRow], everything: Iterable[ProcessRow]) -> list[ProcessRow]:
    """Return rows as a forest; `everything` includes hidden ones."""
    parents = {row.process.pid: row.process.parent_pid for row in everything}
    shown = {row.process.pid for row in rows}
    below: dict[int, list[ProcessRow]] = {}
    roots: dict[tuple[str, int], list[ProcessRow]] = {}
    for row in rows:
        ancestor, parent = _shown_ancestor(row, parents, shown), row.process.parent_pid or 0
        if ancestor is not None:
            below.setdefault(ancestor, []).append(row)
        elif parent > _INIT:
            roots.setdefault(("parent", parent), []).append(row)
        else:
            roots.setdefault(("alone", row.process.pid), []).append(row)
    arranged: list[ProcessRow] = []
    for siblings in roots.values():
        arranged += _descend(siblings, below)
    for siblings in [*below.values()]:  # Processes that are each other's ancestors.
        arranged += [row._replace(branch="") for row in siblings]
    return arranged


def in_ascii(row: ProcessRow) -> ProcessRow:
    """Return a row with tree lines of ASCII."""
    return row._replace(branch=row.branch.translate(_IN_ASCII)) if row.branch else row


def _shown_ancestor(row: ProcessRow, parents: dict[int, int | None], shown: set[int]) -> int | None:
    pid = row.process.parent_pid
    for _ in range(_MAX_STEPS):
        if pid in shown and pid != row.process.pid:
            return pid
        pid = parents.get(pid or 0)
        if pid is None:
            break
    return None


def _descend(
    roots: Sequence[ProcessRow], below: dict[int, list[ProcessRow]]
) -> Iterator[ProcessRow]:
    """Yield roots, each above its descendants, which are removed from `below`."""
    tied = len(roots) > 1
    waiting = [*_level(roots, "", opening=True)] if tied else [(roots[0], "", "")]
    waiting.reverse()
    while waiting:
        row, branch, indent = waiting.pop()
        yield row._replace(branch=branch)
        children = below.pop(row.process.pid, ())
        waiting += reversed([*_level(children, indent[:_MAX_INDENT])])


def _level(
    siblings: Sequence[ProcessRow], indent: str, *, opening: bool = False
) -> Iterator[tuple[ProcessRow, str, str]]:
    """Yield each of some siblings with its tree lines, and its descendants."""
    for number, row in enumerate(siblings):
        is_last = number == len(siblings) - 1
        own = _OPENING if opening and number == 0 else _LAST if is_last else _BRANCH
        yield row, indent + own, indent + (_BLANK if is_last else _TRUNK)
