from datetime import timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.feed.recording.reader import Tape
from gpudash.feed.recording.samples import find
from gpudash.model.errors import UsageError
from tests.feed.recording.lines import START, line, write

HOUR = 3600


@pytest.fixture(scope="module")
def tape(tmp_path_factory: pytest.TempPathFactory) -> Tape:
    path = tmp_path_factory.mktemp("times") / "host.jsonl"
    return Tape(str(write(path, map(line, range(0, 22 * HOUR, 600)))))


def test_from_the_start_and_from_the_end(tape: Tape) -> None:
    assert find("+5m", tape) == START + timedelta(minutes=5)
    assert find("+0", tape) == START
    assert find("-1h30m", tape) == tape.last.taken_at - timedelta(minutes=90)


def test_a_time_of_day_is_the_first_one_in_it(tape: Tape) -> None:
    start = START.astimezone()
    later = start + timedelta(hours=2)
    assert find(f"{later:%H:%M:%S}", tape) == later
    assert find(f"{start:%H:%M:%S}", tape) == START
    tomorrow = start + timedelta(hours=21, minutes=1)
    assert find(f"{tomorrow:%H:%M}", tape) == tomorrow.replace(second=0)


def test_dates_are_those_of_here_unless_they_name_a_zone(tape: Tape) -> None:
    later = START + timedelta(hours=1)
    assert find(f"{later.astimezone():%Y-%m-%dT%H:%M:%S}", tape) == later
    assert find(f"{later:%Y-%m-%dT%H:%M:%SZ}", tape) == later
    assert find(later.astimezone(timezone(timedelta(hours=9))).isoformat(), tape) == later


@pytest.mark.parametrize(
    "text", ["", "5", "noon", "25:00", "10:5", "3:05Z", "10:53+05", "+", "-", "+5x", "2026-13-01"]
)
def test_what_is_no_time_says_which_are(tape: Tape, text: str) -> None:
    with pytest.raises(UsageError, match=r"is no time: write 10:53, "):
        find(text, tape)


@pytest.mark.parametrize("text", ["+1d", "-1d", "2025-01-01", "2026-02-01T10:00", "9999-12-31"])
def test_a_time_outside_says_when_it_was_recorded(tape: Tape, text: str) -> None:
    with pytest.raises(UsageError, match="it was recorded 2026-01-0"):
        find(text, tape)


@given(st.text(max_size=12))
def test_any_text_is_a_time_in_it_or_one_clear_line(tape: Tape, text: str) -> None:
    problem = ""
    try:
        moment = find(text, tape)
        assert tape.first.taken_at - timedelta(seconds=1) < moment <= tape.last.taken_at
    except UsageError as error:
        problem = str(error)
    assert "\n" not in problem
