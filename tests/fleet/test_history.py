from gpudash.fleet.history import FleetHistory
from gpudash.model.fleet import EMPTY, encode
from tests.fleet.many import INSTANT, fleet, some_hosts


def pushed(*seconds: float) -> FleetHistory:
    kept = FleetHistory()
    for second in seconds:
        snapshot = fleet(some_hosts(2), seconds=second)
        kept.push(snapshot, encode(snapshot))
    return kept


def test_everything_can_be_shown_as_it_was_then() -> None:
    kept = pushed(0, 10, 20)
    expected = [fleet(some_hosts(2), seconds=second) for second in (0, 10, 20)]
    assert [kept.at(moment) for moment in kept.moments] == expected
    assert kept.at(kept.now + 100) is kept.latest


def test_the_oldest_samples_make_room() -> None:
    kept = pushed(*range(0, 3610, 10))
    assert kept.moments[0] == INSTANT.timestamp() + 10
    assert len(kept.moments) == 360


def test_one_of_the_same_instant_replaces_the_last() -> None:
    assert len(pushed(0, 10, 10).moments) == 2


def test_one_from_before_the_latest_clears_what_was_before() -> None:
    kept = pushed(0, 10, -3600)
    assert kept.moments == [INSTANT.timestamp() - 3600]
    kept.clear()
    assert (kept.moments, kept.latest) == ([], EMPTY)
