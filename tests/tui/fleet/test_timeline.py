from __future__ import annotations

from datetime import timedelta

from gpudash.model.fleet import encode
from gpudash.tui.fleet.timeline import Timeline
from tests.fleet.many import INSTANT, fleet


def timeline(count: int) -> Timeline:
    """Samples ten seconds apart."""
    kept = Timeline()
    for number in range(count):
        snapshot = fleet((), seconds=10.0 * number)
        assert kept.receive(snapshot, encode(snapshot))
    return kept


def seconds(kept: Timeline) -> float | None:
    """The instant that is shown, None for the present."""
    return None if kept.moment is None else (kept.moment - INSTANT).total_seconds()


def test_steps_go_through_what_was_kept_and_end_in_the_present() -> None:
    kept = timeline(4)
    seen = []
    for samples in (-1, -1, -1, 1, 15):
        shown = kept.step(samples, has_past=False)
        assert shown is not None
        assert shown.taken_at == (kept.moment or kept.latest.taken_at)
        seen.append(seconds(kept))
    assert seen == [20.0, 10.0, 0.0, 10.0, None]


def test_before_the_first_is_the_first_where_no_source_has_a_past() -> None:
    kept = timeline(3)
    earlier = INSTANT - timedelta(hours=1)
    assert kept.go_to(earlier, has_past=False) is not None
    assert (seconds(kept), kept.asked, kept.reaches(earlier)) == (0.0, None, False)
    assert kept.go_to(earlier, has_past=True) is None
    assert kept.asked == earlier


def test_an_instant_between_two_samples_is_the_earlier() -> None:
    kept = timeline(4)
    kept.go_to(INSTANT + timedelta(seconds=19), has_past=False)
    assert seconds(kept) == 10.0


def test_the_oldest_samples_make_room() -> None:
    kept = timeline(361)
    assert not kept.reaches(INSTANT)
    assert kept.reaches(INSTANT + timedelta(seconds=10))
    assert kept.mark == ""


def test_the_mark_is_how_far_back_it_is() -> None:
    kept = timeline(3)
    kept.step(-1, has_past=False)
    assert kept.mark == "10s AGO"
    kept.moment = kept.latest.taken_at
    assert kept.mark == "PAUSED"


def test_what_is_asked_for_is_marked_as_such_until_something_else_is_shown() -> None:
    earlier = INSTANT - timedelta(hours=1)
    kept = timeline(2)
    kept.go_to(earlier, has_past=True)
    assert kept.mark == "ASKING FOR 1h00m AGO"
    snapshot = fleet((), seconds=-3600)
    kept.receive(snapshot, encode(snapshot))
    assert kept.mark == "1h00m AGO"
    kept.step(-1, has_past=True)
    assert kept.mark == "ASKING FOR 1h01m AGO"
    kept.go_to(INSTANT, has_past=True)
    assert kept.mark == "10s AGO"
    kept.go_to(earlier, has_past=True)
    kept.go_live()
    assert kept.mark == ""
