"""The dialog that asks for a time: a list that typing narrows down, or any that is typed."""

from __future__ import annotations

from datetime import datetime, timedelta

from gpudash.feed.instants import Span, parse_instant
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.theme import Theme

_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MAX_CHOICES = 400
_LISTED = timedelta(days=1)
"""Before the end, where it is not known how far the past reaches."""


def moment_dialog(span: Span, shown_at: datetime, theme: Theme) -> ChooseScreen:
    """Return a dialog whose answer is an instant of a span in ISO's form."""

    def understood(typed: str) -> Choice:
        return _choice(parse_instant(typed, span))

    first = span.last - _LISTED if span.first is None else span.first
    choices = times(first, span.last)
    before = [each.value for each in choices if datetime.fromisoformat(each.value) <= shown_at]
    hint = "type a time, or -30s from the end"
    if span.first is not None:
        hint += ", +1h from the start"
    return ChooseScreen(
        "Time",
        choices,
        theme,
        current=before[-1] if before else "",
        understood=understood,
        hint=hint,
    )


def times(first: datetime, last: datetime) -> list[Choice]:
    """Return the times between two that a list can hold, at round numbers of local time.

    No second is there twice: the first and the last time stand for theirs, which may be one.
    """
    seconds = (last - first).total_seconds()
    step = next((each for each in _STEPS_SECONDS if seconds / each < _MAX_CHOICES), 86400)
    start, end = first.astimezone(), last.replace(microsecond=0)
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    number = int((start - day).total_seconds() // step) + 1
    found = [start] if start < end else []
    while (moment := day + timedelta(seconds=number * step)) < end:
        found.append(moment.astimezone())
        number += 1
    return [_choice(each) for each in [*found, last.astimezone()]]


def _choice(moment: datetime) -> Choice:
    """Return the entry of an instant, which is in local time."""
    return Choice(moment.isoformat(), f"{moment:%H:%M:%S}", f"{moment:%Y-%m-%d}")
