from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.feed.recording.reader import Recording
from gpudash.feed.recording.samples import parse_instant
from gpudash.model.errors import UsageError
from tests.feed.recording.lines import START, line, write

HOUR = 3600


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    path = tmp_path_factory.mktemp("times") / "host.jsonl"
    return Recording(str(write(path, map(line, range(0, 22 * HOUR, 600)))))


def test_from_the_start_and_from_the_end(recording: Recording) -> None:
    assert parse_instant("+5m", recording) == START + timedelta(minutes=5)
    assert parse_instant("+0", recording) == START
    assert parse_instant("-1h30m", recording) == recording.last.taken_at - timedelta(minutes=90)


def test_a_time_of_day_is_the_first_one_in_it(recording: Recording) -> None:
    start = START.astimezone()
    later = start + timedelta(hours=2)
    assert parse_instant(f"{later:%H:%M:%S}", recording) == later
    assert parse_instant(f"{start:%H:%M:%S}", recording) == START
    tomorrow = start + timedelta(hours=21, minutes=1)
    assert parse_instant(f"{tomorrow:%H:%M}", recording) == tomorrow.replace(second=0)


def test_dates_are_those_of_here_unless_they_name_a_zone(recording: Recording) -> None:
    later = START + timedelta(hours=1)
    assert parse_instant(f"{later.astimezone():%Y-%m-%dT%H:%M:%S}", recording) == later
    assert parse_instant(f"{later:%Y-%m-%dT%H:%M:%SZ}", recording) == later
    assert (
        parse_instant(later.astimezone(timezone(timedelta(hours=9))).isoformat(), recording)
        == later
    )


@pytest.mark.parametrize(
    "text", ["", "5", "noon", "25:00", "10:5", "3:05Z", "10:53+05", "+", "-", "+5x", "2026-13-01"]
)
def test_what_is_no_time_says_which_are(recording: Recording, text: str) -> None:
    with pytest.raises(UsageError, match=r"is not a time: write 10:53, "):
        parse_instant(text, recording)


@pytest.mark.parametrize("text", ["+1d", "-1d", "2025-01-01", "2026-02-01T10:00", "9998-12-31"])
def test_a_time_outside_says_when_it_was_recorded(recording: Recording, text: str) -> None:
    with pytest.raises(UsageError, match="it was recorded 2026-01-0"):
        parse_instant(text, recording)


@given(st.text(max_size=12))
def test_any_text_is_a_time_in_it_or_one_clear_line(recording: Recording, text: str) -> None:
    problem = ""
    try:
        moment = parse_instant(text, recording)
        assert recording.first.taken_at - timedelta(seconds=1) < moment <= recording.last.taken_at
    except UsageError as error:
        problem = str(error)
    assert "\n" not in problem
