"""What the prompt of the filter narrows down on the screen of many hosts: GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta

from gpudash.fleet.where import GRAMMAR, TERMS, fits
from gpudash.model.errors import FilterError
from gpudash.model.fleet import HostKey
from gpudash.model.units import counted, parse_span
from gpudash.tui.bindings import shown_key
from gpudash.tui.fleet.model import FleetModel
from gpudash.tui.theme import Theme

_NO_TIME = "expected a time up to the newest sample: 02:14, 11-23 02:14, -3h"
_YEARS = 9
"""From this one back: there may be eight from one 29 February to the next."""


class FilteredGpus:
    """The GPUs of all hosts, and with them their hosts, users and jobs."""

    examples = tuple(term.example for term in TERMS)

    def __init__(self, model: FleetModel) -> None:
        self._model = model
        self._before = ""
        self._cursor: HostKey | None = None

    @property
    def theme(self) -> Theme:
        """That of the screen."""
        return self._model.theme

    @property
    def text(self) -> str:
        """The filter in force."""
        return self._model.filter_text

    @property
    def note(self) -> str:
        """How many GPUs fit, of how many."""
        shown, everything = self._model.totals, self._model.everything
        return f"{shown.gpus:,} of {everything.gpus:,} GPUs on {counted(shown.hosts, 'host')}"

    @property
    def hint(self) -> str:
        """Why nothing fits: that no filter shows by itself."""
        return ""

    @property
    def warning(self) -> str:
        """That nothing fits, where that is so."""
        if self._model.rows or not self._model.is_filtered:
            return ""
        return f"No GPU fits; {shown_key(self._model.keys, 'fleet.back')} shows all"

    def begin(self) -> None:
        """Note the filter in force and the cursor."""
        self._before = self._model.filter_text
        self.follow_cursor()

    def follow_cursor(self) -> None:
        """Note the host under the cursor."""
        selected = self._model.selected_host
        self._cursor = None if selected is None else selected.host.key

    def apply(self, text: str) -> FilterError | None:
        """Show the GPUs that fit."""
        return apply(self._model, text)

    def keep(self) -> None:
        """Do nothing: what fits is shown already."""

    def take_back(self) -> None:
        """Filter as before."""
        apply(self._model, self._before)
        self._model.cursor = self._cursor

    def report(self, message: str) -> None:
        """Show a message in the footer."""
        self._model.message = message


def apply(model: FleetModel, text: str) -> FilterError | None:
    """Show the GPUs that a filter fits, without regard to a wrong word; return what is wrong."""
    wanted, error = GRAMMAR.understood(text)
    if wanted is not None:
        model.filter_by(wanted.text, fits(wanted))
    return error


class SoughtMoment:
    """A time that is typed, for the prompt that goes there."""

    examples = ("02:14", "02:14:30", "11-23 02:14", "-3h")
    hint = ""

    def __init__(self, model: FleetModel) -> None:
        self._model = model
        self._found: datetime | None = None
        self.warning = ""
        """What to report once it is gone to."""

    @property
    def theme(self) -> Theme:
        """That of the screen."""
        return self._model.theme

    @property
    def text(self) -> str:
        """Nothing: a time is typed each time."""
        return ""

    @property
    def note(self) -> str:
        """The instant that is meant, with its day."""
        return "" if self._found is None else f"{self._found.astimezone():%a %F %T}"

    def begin(self) -> None:
        """Begin with nothing."""
        self._found, self.warning = None, ""

    def follow_cursor(self) -> None:
        """Do nothing: there is no cursor to go back to."""

    def apply(self, text: str) -> FilterError | None:
        """Understand a time; nothing is shown before it is kept."""
        now = self._model.newest_at
        self._found = moment_of(text, now)
        if self._found is None and text:
            return FilterError(_NO_TIME, 0, len(text))
        return None

    def keep(self) -> None:
        """Show that instant."""
        if self._found is not None and not self._model.go_to(self._found):
            since = "this screen was opened" if self._model.feed.player is None else "the recording"
            self.warning = f"nothing is known from before {since}"

    def take_back(self) -> None:
        """Stay where it is."""

    def report(self, message: str) -> None:
        """Show a message in the footer."""
        self._model.message = message


def moment_of(text: str, now: datetime) -> datetime | None:
    """Return the last such time up to now, in local time: a time of day, a date, a span ago.

    None for what is no time, for a full date later than now, and for what is in no calendar.
    """
    text = text.strip()
    with suppress(OverflowError, ValueError):
        if text.startswith("-"):
            ago = parse_span(text[1:])
            return None if ago is None else (now - timedelta(seconds=ago.value)).astimezone()
        for meant in _meanings(text, now.astimezone().date()):
            found = _parsed(meant)
            if found is not None and found.astimezone() <= now:
                return found.astimezone()
    return None


def _meanings(text: str, today: date) -> Iterator[str]:
    """Return what a time is with the day, with the year and by itself, each the latest first."""
    for days in (0, 1):
        yield f"{today - timedelta(days=days)} {text}"
    for years in range(_YEARS):
        yield f"{today.year - years}-{text}"
    yield text


def _parsed(text: str) -> datetime | None:
    """Return a full date without its zone, None for anything else."""
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"):
        with suppress(ValueError):
            return datetime.strptime(text, form)
    return None
