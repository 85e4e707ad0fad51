"""The dialog that acknowledges findings: for how long, and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from gpudash.analysis.health.acknowledged import (
    Acknowledged,
    Acknowledgement,
    Place,
    acknowledgement,
    path,
    spellings,
    until_of,
    write,
)
from gpudash.model.errors import GpudashError
from gpudash.model.units import parse_span
from gpudash.tui.dialogs.choose import Choice
from gpudash.tui.page import Page

_BACK = "take back"
_SPANS = {"8h": "8 hours", "1h": "1 hour", "1d": "1 day", "7d": "7 days", "": "until taken back"}


def ask(page: Page, places: Sequence[Place], *, is_demo: bool) -> None:
    """Ask for how long to acknowledge hosts and GPUs, and why; then save that.

    If all of them are acknowledged, offer to undo it.
    """
    shared = page.app.preferences.current.fleet.acknowledged
    try:
        file = path(shared, is_demo=is_demo)
    except KeyError:
        page.show_message("no home for the file of acknowledgements")
        return
    known = Acknowledged(lambda: file).now()
    found = [known.about(spellings(host), gpu, uuid) for host, gpu, uuid in places]
    in_force = [each for each in found if each is not None]

    def chosen(value: str | None) -> None:
        if value is None:
            return
        try:
            is_back = value == _BACK
            added = (
                [acknowledgement(each.place, taken_back=True) for each in in_force]
                if is_back
                else _added(places, value)
            )
            write(file, added)
        except GpudashError as error:
            page.show_message(str(error))
            return
        verb = "new again" if is_back else f"acknowledged: {added[0].text}"
        page.show_message(f"{_named(places)}: {verb}; shown with the next sample")

    choices = [Choice(span, text, span) for span, text in _SPANS.items()]
    if len(in_force) == len(places):
        choices.insert(0, Choice(_BACK, _BACK, in_force[0].text))
    title = f"Acknowledge {_named(places)}"
    hint = "type for how long and why: 8h RMA 4711"
    page.choose(title, choices, chosen, current=choices[0].value, understood=_choice, hint=hint)


def _named(places: Sequence[Place]) -> str:
    first = Acknowledgement(host=places[0].host, gpu=places[0].gpu).title
    return first if len(places) == 1 else f"{first} and {len(places) - 1} more"


def _choice(typed: str) -> Choice:
    """Return the entry for a typed text; raises UsageError."""
    until, reason = _parsed(typed)
    end = "until taken back" if until is None else f"until {until.astimezone():%m-%d %H:%M}"
    return Choice(typed, reason or "no reason given", end)


def _parsed(text: str) -> tuple[datetime | None, str]:
    """Return the end, None for open-ended, and the reason; raises UsageError."""
    first, _, rest = text.strip().partition(" ")
    if parse_span(first) is None:
        return None, text.strip()
    return until_of(first, datetime.now(timezone.utc)), rest.strip()


def _added(places: Sequence[Place], text: str) -> list[Acknowledgement]:
    until, reason = _parsed(text)
    return [acknowledgement(place, until=until, reason=reason) for place in places]
