"""The columns of what happened, on the screen and in print."""

from __future__ import annotations

from gpudash.analysis.table import Column
from gpudash.fleet.columns import word
from gpudash.fleet.events import ALARMING
from gpudash.model.fleet import Event
from gpudash.model.state import Level


def _event_level(event: Event) -> Level:
    return "critical" if event.kind in ALARMING else "ok"


EVENT_COLUMNS: tuple[Column[Event], ...] = (
    Column(
        key="time",
        header="TIME",
        text=lambda event: f"{event.at.astimezone():%m-%d %H:%M:%S}",
        sort_key=lambda event: event.at.timestamp(),
        width=14,
    ),
    word("event", "EVENT", lambda event: event.kind, 12, level=_event_level),
    word("host", "HOST", lambda event: event.host, 40),
    word("cluster", "CLUSTER", lambda event: event.cluster, 16, priority=3),
    word("gpu", "GPU", lambda event: event.gpu, 5),
    word("job", "JOB", lambda event: event.job, 24, priority=1),
    word("user", "USER", lambda event: event.user, 16, priority=2),
    word("what", "WHAT", lambda event: event.what, 100, least=24, grows=True),
)
"""Of what happened."""
