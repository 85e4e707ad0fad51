"""What is known of a span with what was found when its end was asked for again."""

from datetime import datetime, timedelta, timezone

from gpudash.fleet.event_log import with_later
from gpudash.model.fleet import Event, EventKind
from gpudash.model.text import SafeText

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def happened(kind: EventKind, at: float, within: float) -> Event:
    moment = START + timedelta(seconds=at)
    host, what = SafeText("n1"), SafeText("x")
    return Event(at=moment, kind=kind, host=host, gpu="1", what=what, within_seconds=within)


def test_what_was_found_twice_is_one_event_and_what_came_back_is_lost_again() -> None:
    coarse = happened("gpu-lost", 400, 360)
    fine, back, again = (
        happened(kind, at, 75)
        for kind, at in (("gpu-lost", 120), ("gpu-returned", 420), ("gpu-lost", 540))
    )
    known = with_later((coarse,), (fine, back, again))
    assert known == (coarse, back, again)
    assert with_later(known, (fine, back, again)) == known
