from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from gpudash.analysis.history import History
from gpudash.feed.instants import Span
from gpudash.feed.timeline import Timeline
from gpudash.fleet.history import FleetHistory
from gpudash.model.fleet import FleetSource, encode
from gpudash.model.text import SafeText
from gpudash.model.wire import Received
from tests.factories import received
from tests.feed.hand import HandFeed, HandFleetFeed
from tests.fleet.many import fleet
from tests.tui.past import sample


class Watched:
    """A timeline that is given samples, and what it shows, as seconds since the first."""

    def __init__(
        self, feed: Any, kept: Any, make: Callable[[float], tuple[Any, bytes]], *seconds: float
    ) -> None:
        self.feed, self._make = feed, make
        self.first_at: datetime = make(0)[0].taken_at
        self.seen: list[float] = []
        self.timeline: Timeline[Any] = feed.timeline(kept, self._show)
        self.give(*seconds)
        self.seen.clear()

    def give(self, *seconds: float) -> None:
        for second in seconds:
            self.feed.latest, self.feed.latest_line = self._make(second)
            received = Received(self.feed.latest, self.feed.latest_line)
            self.timeline.receive([received], after_jump=False)

    def at(self, second: float) -> datetime:
        """The time so many seconds after the first sample."""
        return self.first_at + timedelta(seconds=second)

    def _show(self, snapshot: Any) -> None:
        self.seen.append((snapshot.taken_at - self.first_at).total_seconds())


def of_host(*seconds: float) -> Watched:
    return Watched(HandFeed(), History(), lambda second: received(sample(second, [50])), *seconds)


def of_fleet(*seconds: float, **fields: Any) -> Watched:
    def make(second: float) -> tuple[Any, bytes]:
        snapshot = fleet((), seconds=second, **fields)
        return snapshot, encode(snapshot)

    return Watched(HandFleetFeed(), FleetHistory(), make, *seconds)


def of_fleet_without_past(*seconds: float) -> Watched:
    ssh = FleetSource(kind="ssh", name=SafeText("gpu0000"))
    return of_fleet(*seconds, sources=(ssh,))


every = pytest.mark.parametrize("kind", [of_host, of_fleet, of_fleet_without_past])
without_past = pytest.mark.parametrize("kind", [of_host, of_fleet_without_past])
Kind = Callable[..., Watched]


@every
def test_steps_go_through_what_was_kept_and_end_in_the_present(kind: Kind) -> None:
    on = kind(0, 10, 20, 30)
    for samples in (-1, -1, -1, 1, 15):
        on.timeline.step(samples)
    assert on.seen == [20, 10, 0, 10, 30]
    assert on.timeline.is_live
    on.give(40)
    assert on.seen[-1] == 40


@every
def test_a_pause_stays_at_the_sample_that_is_shown(kind: Kind) -> None:
    on = kind(0, 10)
    on.timeline.toggle()
    on.give(20, 30)
    assert (on.seen, on.timeline.mark, on.timeline.is_stopped) == ([], "PAUSED", True)
    on.timeline.step(-1)
    on.timeline.step(1)
    assert (on.seen, on.timeline.mark) == ([0, 10], "20s AGO")
    on.timeline.toggle()
    assert (on.seen[-1], on.timeline.mark, on.timeline.is_stopped) == (30, "", False)


@every
def test_before_the_first_sample_no_key_stops_time(kind: Kind) -> None:
    on = kind()
    on.timeline.toggle()
    on.timeline.step(-1)
    on.timeline.go_live()
    assert (on.timeline.is_live, on.timeline.span, on.seen) == (True, None, [])
    on.give(0)
    assert on.seen == [0]


@every
def test_an_instant_between_two_samples_is_the_earlier(kind: Kind) -> None:
    on = kind(0, 10, 20, 30)
    for second in (19, 20, 31):
        on.timeline.go_to(on.at(second))
    assert on.seen == [10, 20, 30]
    assert on.timeline.is_live


@every
def test_an_instant_without_a_sample_near_it_is_said_to_be(kind: Kind) -> None:
    on = kind(0, 10, 20, 30, 600, 610)
    on.timeline.go_to(on.at(300))
    assert on.seen == [30]
    assert on.timeline.message == f"no samples from {Span(on.at(30), on.at(600))}"
    on.timeline.step(-1)
    assert on.timeline.message == ""
    on.timeline.go_to(on.at(300))
    on.timeline.go_live()
    assert on.timeline.message == ""
    on.timeline.go_to(on.at(605))
    assert on.timeline.message == ""


@without_past
def test_before_the_first_is_the_first_where_none_can_be_asked_for(kind: Kind) -> None:
    on = kind(0, 10, 20)
    on.timeline.go_to(on.at(-3600))
    on.timeline.step(-15)
    assert (on.seen, on.timeline.asked) == ([0, 0], None)
    assert on.timeline.span == (on.at(0), on.at(20))


@every
def test_what_came_while_none_was_taken_is_caught_up_with_once(kind: Kind) -> None:
    on, other = kind(0), kind(10)
    on.feed.latest, on.feed.latest_line = other.feed.latest, other.feed.latest_line
    on.timeline.catch_up()
    on.timeline.catch_up()
    assert on.seen == [10]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "PAUSED"),
        (0.02, "0.1s AGO"),
        (0.46, "0.5s AGO"),
        (0.97, "1s AGO"),
        (1.96, "2s AGO"),
        (125, "2m05s AGO"),
    ],
)
def test_past_is_reported_as_near_as_it_is(seconds: float, told: str) -> None:
    on = of_host(0, seconds)
    on.timeline.step(-1)
    assert on.timeline.mark == told
    on.give(200)
    assert on.timeline.mark != "PAUSED"


def test_what_is_older_than_what_is_kept_is_asked_for_until_something_else_is_shown() -> None:
    on = of_fleet(0, 10)
    assert on.timeline.span == (None, on.at(10))
    assert on.timeline.known == (on.at(0), on.at(10))
    on.timeline.go_to(on.at(-3590))
    assert (on.timeline.mark, on.timeline.asked) == ("ASKING FOR 1h00m AGO", on.at(-3590))
    # What was on its way is not that.
    on.give(20)
    assert on.seen == []
    on.give(-3590)
    assert (on.timeline.mark, on.seen) == ("1h00m AGO", [-3590])
    on.timeline.step(-1)
    assert (on.timeline.mark, on.timeline.asked) == ("ASKING FOR 1h01m AGO", on.at(-3650))
    on.timeline.step(60)
    on.timeline.go_to(on.at(0))
    assert (on.timeline.mark, on.timeline.asked, on.seen[-1]) == ("10s AGO", None, 0)
    on.timeline.step(-1)
    assert on.timeline.asked == on.at(-60)
    on.timeline.go_live()
    # What was asked for comes late.
    on.give(-60)
    assert (on.timeline.mark, on.seen[-1]) == ("ASKING FOR NOW", 10)
    on.give(30)
    assert (on.timeline.mark, on.seen[-2:]) == ("", [10, 30])


def test_the_present_goes_on_while_another_instant_is_shown() -> None:
    on = of_fleet(0, 10)
    on.timeline.go_to(on.at(-3590))
    on.give(-3590)
    on.feed.clock += 600
    assert on.timeline.mark == "1h10m AGO"
    assert on.timeline.span == (None, on.at(610))
    # Nothing was kept since: the sample of an instant is the one before it.
    on.timeline.go_to(on.at(580))
    assert (on.seen[-1], on.timeline.is_live, on.timeline.asked) == (10, False, None)
    on.timeline.go_to(on.at(-3590))
    on.timeline.go_to(on.at(610))
    assert on.timeline.is_live


def test_a_present_that_was_missed_is_marked_after_what_was_kept_too() -> None:
    on = of_fleet(0, 10)
    on.timeline.go_to(on.at(-3590))
    on.give(-3590)
    on.feed.clock += 600
    on.timeline.go_to(on.at(10))
    assert (on.timeline.mark, on.seen[-1]) == ("10m00s AGO", 10)
    on.timeline.go_live()
    assert (on.timeline.mark, on.seen[-1]) == ("ASKING FOR NOW", 10)
    on.give(612)
    assert (on.timeline.mark, on.seen[-1]) == ("", 612)


@pytest.mark.parametrize("kind", [of_fleet, of_fleet_without_past])
def test_a_clock_that_is_set_back_does_not_stop_the_present(kind: Kind) -> None:
    on = kind(0, 10)
    on.give(-3600, -3590)
    assert on.seen == [-3600, -3590]
    on.timeline.step(-1)
    assert on.seen[-1] == -3600
