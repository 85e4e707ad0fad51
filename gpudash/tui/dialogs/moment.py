"""The dialog that asks for a time: a filtered list, or any time typed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from gpudash.feed.instants import Span, parse_instant
from gpudash.feed.timeline import Timeline
from gpudash.tui.dialogs.choose import Choice, ChooseScreen
from gpudash.tui.theme import Theme

_STEPS_SECONDS = (1, 2, 5, 10, 15, 30, 60, 300, 600, 900, 1800, 3600, 7200, 21600, 86400)
_MAX_CHOICES = 400


def moment_dialog(time: Timeline[Any], shown_at: datetime, theme: Theme) -> ChooseScreen | None:
    """Return a dialog that answers with an instant in ISO format; None without samples."""
    known, span = time.known, time.span
    if known is None or span is None:
        return None
    hint = "type a time, or -30s from the end"
    if span.first is not None:
        hint += ", +1h from the start"

    def understood(typed: str) -> Choice:
        # The whole span may be known by now.
        return _choice(parse_instant(typed, time.span or span))

    choices, current = _listed(known, shown_at)
    dialog = ChooseScreen("Time", choices, theme, current=current, understood=understood, hint=hint)
    time.learn_span(lambda: dialog.offer(*_listed(time.known or known, shown_at)))
    return dialog


def _listed(known: Span, shown_at: datetime) -> tuple[list[Choice], str]:
    """Return the known times, and the one that is shown."""
    choices = times(known.first or known.last, known.last)
    before = [each.value for each in choices if datetime.fromisoformat(each.value) <= shown_at]
    return choices, before[-1] if before else ""


def times(first: datetime, last: datetime) -> list[Choice]:
    """Return times between two at round numbers of local time, few enough for a list.

    No second occurs twice: the first and the last time stand for theirs, which may be the same.
    """
    seconds = (last - first).total_seconds()
    step = next((each for each in _STEPS_SECONDS if seconds / each < _MAX_CHOICES), 86400)
    start, end = first.astimezone(), last.replace(microsecond=0)
    day = start.replace(hour=0, minute=0, second=0, microsecond=0)
    number = int((start - day).total_seconds() // step) + 1
    if step > 3600:
        # By the clock, as days may have 23 or 25 hours.
        day = day.replace(tzinfo=None)
    found = [start] if start < end else []
    while (moment := (day + timedelta(seconds=number * step)).astimezone()) < end:
        found.append(moment)
        number += 1
    return [_choice(each) for each in [*found, last.astimezone()]]


def _choice(moment: datetime) -> Choice:
    """Return the entry of an instant, which is in local time."""
    return Choice(moment.isoformat(), f"{moment:%H:%M:%S}", f"{moment:%Y-%m-%d}")
