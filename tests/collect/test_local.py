import pytest

from gpudash.collect.local import open_source
from gpudash.model import wire
from gpudash.model.errors import UsageError

INSTANT = 1_800_000_000


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("GPUDASH_DEMO_TIME", str(INSTANT))
    return monkeypatch


def test_demo_stands_still_where_it_is_told(told: pytest.MonkeyPatch) -> None:
    source = open_source("single")
    assert [source.sample().taken_at.timestamp() for _ in range(3)] == [INSTANT] * 3


def test_demo_goes_on_by_a_step_for_each_sample_up_to_its_end(told: pytest.MonkeyPatch) -> None:
    told.setenv("GPUDASH_DEMO_STEP", "2")
    told.setenv("GPUDASH_DEMO_UNTIL", str(INSTANT + 5))
    source = open_source("single")
    times = [source.sample().taken_at.timestamp() - INSTANT for _ in range(5)]
    assert times == [0, 2, 4, 5, 5]


def test_demo_has_the_same_past_whenever_it_is_watched(told: pytest.MonkeyPatch) -> None:
    told.setenv("GPUDASH_DEMO_STEP", "1.5")
    sources = [open_source("dgx-h100") for _ in range(2)]
    first, second = ([wire.encode(source.sample()) for _ in range(4)] for source in sources)
    assert first == second
    assert len(set(first)) == 4


@pytest.mark.parametrize("name", ["GPUDASH_DEMO_TIME", "GPUDASH_DEMO_STEP", "GPUDASH_DEMO_UNTIL"])
def test_demo_time_that_is_no_number_is_refused(told: pytest.MonkeyPatch, name: str) -> None:
    told.setenv(name, "noon")
    with pytest.raises(UsageError, match=f"{name}='noon' is no"):
        open_source("single")
