"""What happened, as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gpudash.analysis.table import fit
from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.model.fleet import Event
from gpudash.model.units import counted
from gpudash.output.table import Line, body, heading, painted


def render(
    events: Sequence[Event],
    start: datetime,
    end: datetime,
    *,
    lost: Sequence[str] = (),
    none: str = "nothing happened",
    width: int = 80,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """Return a line per event, the oldest first, below how many there are from when to when.

    `lost` are the words for what was lost, `none` says that there are none.
    """
    span = f"{start.astimezone():%F %T} to {end.astimezone():%F %T}"
    count = counted(len(events), "event") if events else none
    head: list[Line] = [[(f"{count}, {span}", "bold")]]
    head += [[(", ".join(lost), "plain")]] if lost else []
    columns = fit(EVENT_COLUMNS, events, width, bar=0)
    rows = [heading(columns), *body(columns, events, ascii=ascii)] if events else []
    return painted((head, rows), width, color=color)
