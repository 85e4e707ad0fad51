from hypothesis import given
from hypothesis import strategies as st

from gpudash.columns import PROCESS_COLUMNS
from gpudash.rows import process_rows
from gpudash.tui.listing import Listing
from tests.factories import make_snapshot
from tests.tui.stage import process_of

KEYS = [column.key for column in PROCESS_COLUMNS]
numbers = st.lists(st.integers(0, 30), unique=True, max_size=20)


def listing_of(listed: list[int]) -> Listing:
    listing = Listing("gpu_memory")
    fill(listing, listed)
    return listing


def fill(listing: Listing, listed: list[int]) -> None:
    processes = tuple(process_of(number) for number in listed)
    listing.fill(process_rows(make_snapshot(4, processes=processes)))


@given(numbers, st.permutations(range(31)), st.integers(0, 40), st.sampled_from(KEYS))
def test_cursor_follows_its_process(
    listed: list[int], order: list[int], cursor: int, key: str
) -> None:
    listing = listing_of(listed)
    listing.move_to(cursor)
    before = listing.selected
    listing.sort_by(key)
    fill(listing, [number for number in order if number in listed])
    after = listing.selected
    assert (before and before.process.key) == (after and after.process.key)


@given(numbers, st.integers(-5, 40), st.integers(1, 12))
def test_window_holds_the_cursor_and_wastes_no_line(
    listed: list[int], cursor: int, height: int
) -> None:
    listing = listing_of(listed)
    for target in (cursor, 0, cursor // 2):
        listing.move_to(target)
        window = listing.window(height)
        assert len(window) == min(height, len(listed))
        assert not listed or listing.cursor in window


@given(numbers, st.sampled_from(KEYS))
def test_order_does_not_depend_on_the_order_of_arrival(listed: list[int], key: str) -> None:
    one, other = listing_of(listed), listing_of(listed[::-1])
    one.sort_by(key)
    other.sort_by(key)
    assert [row.process.pid for row in one.rows] == [row.process.pid for row in other.rows]


def test_numbers_begin_with_the_largest_and_words_with_a() -> None:
    listing = listing_of([3, 1, 2])
    assert [row.process.pid for row in listing.rows] == [1001, 1002, 1003]
    listing.sort_by("command")
    assert not listing.descending
    listing.sort_by("command")
    assert listing.descending
