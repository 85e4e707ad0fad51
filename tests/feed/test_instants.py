from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.feed.instants import Span, parse_instant, parse_window
from gpudash.model.errors import UsageError

NOON = datetime(2026, 11, 23, 12).astimezone()
START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
RECORDED = Span(START, START + timedelta(hours=22))
ENDLESS = Span(None, NOON)


def test_from_the_start_and_from_the_end() -> None:
    assert parse_instant("+5m", RECORDED) == START + timedelta(minutes=5)
    assert parse_instant("+0", RECORDED) == START
    assert parse_instant("-1h30m", RECORDED) == RECORDED.last - timedelta(minutes=90)


def test_a_time_of_day_is_that_of_here() -> None:
    later = START.astimezone() + timedelta(hours=2)
    assert parse_instant(f"{later:%H:%M:%S}", RECORDED) == later
    assert parse_instant(f"{START.astimezone():%H:%M:%S}", RECORDED) == START


def test_dates_are_those_of_here_unless_they_name_a_zone() -> None:
    later = START + timedelta(hours=1)
    assert parse_instant(f"{later.astimezone():%Y-%m-%dT%H:%M:%S}", RECORDED) == later
    assert parse_instant(f"{later:%Y-%m-%dT%H:%M:%SZ}", RECORDED) == later
    far = later.astimezone(timezone(timedelta(hours=9)))
    assert parse_instant(far.isoformat(), RECORDED) == later


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "noon",
        "2026",
        "2500",
        "214",
        "25:00",
        "10:5",
        "3:05Z",
        "10:53+05",
        "+",
        "-",
        "+5x",
        "2026-13-01",
        "monday evening",
        "tomorrow",
    ],
)
def test_what_is_no_time_says_which_are(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a time: write 10:53, "):
        parse_instant(text, RECORDED)


@pytest.mark.parametrize("text", ["+1d", "-1d", "2025-01-01", "2026-02-01T10:00", "9998-12-31"])
def test_a_time_outside_says_what_there_is(text: str) -> None:
    with pytest.raises(UsageError, match=r"is outside of what is there: 2026-01-0. .* to "):
        parse_instant(text, RECORDED)
    with pytest.raises(UsageError, match="is outside of what is there: up to 2026-11-23 12:00:00"):
        parse_instant("2026-11-23 12:01", ENDLESS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("-90m", NOON - timedelta(minutes=90)),
        ("11:30", NOON - timedelta(minutes=30)),
        ("0214", NOON - timedelta(hours=9, minutes=46)),
        ("12:30:15", NOON - timedelta(days=1) + timedelta(minutes=30, seconds=15)),
        ("11-22 08:00", NOON - timedelta(days=1, hours=4)),
        ("2026-11-20 12:00", NOON - timedelta(days=3)),
        ("now", NOON),
        ("today", NOON - timedelta(hours=12)),
        ("yesterday", NOON - timedelta(hours=36)),
        ("Yesterday 9:30", NOON - timedelta(hours=26, minutes=30)),
        # NOON is on a Monday.
        ("monday", NOON - timedelta(hours=12)),
        ("monday 18:00:00", NOON - timedelta(days=6, hours=18)),
        ("sun", NOON - timedelta(hours=36)),
        ("tuesday", NOON - timedelta(days=6, hours=12)),
    ],
)
def test_a_time_is_the_last_that_it_names(text: str, expected: datetime) -> None:
    assert parse_instant(text, ENDLESS) == expected


@pytest.mark.parametrize("text", ["-999999d", "02-30 10:00"])
def test_what_is_in_no_calendar_is_no_time(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        parse_instant(text, ENDLESS)


def test_where_the_start_is_not_known_nothing_is_counted_from_it() -> None:
    with pytest.raises(UsageError, match="it is not known when the samples begin"):
        parse_instant("+5m", ENDLESS)


@pytest.mark.parametrize(
    ("zone", "now", "text", "expected"),
    [
        ("UTC", "2028-06-01 12:00", "12-31 10:00", "2027-12-31 10:00"),
        ("UTC", "2028-02-29 09:00", "02-29 10:00", "2024-02-29 10:00"),
        ("UTC", "2027-06-01 12:00", "02-29 10:00", "2024-02-29 10:00"),
        # An hour is left out in that night.
        ("Europe/Berlin", "2026-03-29 12:00", "23:00", "2026-03-28 23:00"),
        ("Europe/Berlin", "2026-03-29 12:00", "02:30", "2026-03-29 03:30"),
    ],
)
def test_a_time_is_that_of_the_local_calendar(
    in_zone: Callable[[str], None], zone: str, now: str, text: str, expected: str
) -> None:
    in_zone(zone)
    found = parse_instant(text, Span(None, datetime.fromisoformat(now).astimezone()))
    assert f"{found.astimezone():%Y-%m-%d %H:%M}" == expected


def test_of_an_hour_that_comes_twice_it_is_the_last(in_zone: Callable[[str], None]) -> None:
    in_zone("Europe/Berlin")
    first = datetime(2026, 10, 25, 0, 30, tzinfo=timezone.utc)
    for now, expected in ((20, first), (70, first + timedelta(hours=1))):
        until = Span(None, first + timedelta(minutes=now))
        for text in ("02:30", "10-25 02:30", "2026-10-25T02:30"):
            assert parse_instant(text, until) == expected
        assert parse_instant("2026-10-25T02:30+02:00", until) == first


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        ("10:00", "11-20 12:00", "2026-11-20 10:00"),
        ("23:00", "11-20 12:00", "2026-11-19 23:00"),
        ("11-19", "11-20 12:00", "2026-11-19 00:00"),
        ("2h", "11-20 12:00", "2026-11-20 10:00"),
    ],
)
def test_a_window_begins_at_the_last_such_time_before_its_end(
    since: str, until: str, expected: str
) -> None:
    start, end = parse_window(since, until, ENDLESS)
    assert f"{start:%Y-%m-%d %H:%M}" == expected
    assert end == NOON - timedelta(days=3)


@given(st.text(max_size=12), st.sampled_from([RECORDED, ENDLESS]))
def test_any_text_is_a_time_in_it_or_one_clear_line(text: str, span: Span) -> None:
    problem = ""
    try:
        moment = parse_instant(text, span)
        assert moment <= span.last
        assert span.first is None or span.first - timedelta(seconds=1) < moment
    except UsageError as error:
        problem = str(error)
    assert "\n" not in problem
