"""Events as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from gpudash.fleet.columns import EVENT_COLUMNS
from gpudash.model.fleet import Event
from gpudash.model.units import counted
from gpudash.output.table import Line, listing, painted

_ENDLESS = 1 << 20
"""Width of a line that is never cut."""


def render(
    events: Sequence[Event],
    start: datetime,
    end: datetime,
    *,
    lost: Sequence[str] = (),
    none: str = "nothing happened",
    width: int | None = 80,
    color: bool = False,
    ascii: bool = False,
) -> str:
    """Return a line per event, the oldest first, after their number and span.

    `lost` is the text for the losses, `none` that for no events. Without a `width`, nothing is cut.
    """
    span = f"{start.astimezone():%F %T} to {end.astimezone():%F %T}"
    count = counted(len(events), "event") if events else none
    head: list[Line] = [[(f"{count}, {span}", "bold")]]
    head += [[(", ".join(lost), "plain")]] if lost else []
    room, columns = width or _ENDLESS, EVENT_COLUMNS
    if width is None:
        columns = tuple(replace(each, width=_ENDLESS, grows=False) for each in columns)
    return painted((head, listing(columns, events, room, ascii=ascii)), room, color=color)
