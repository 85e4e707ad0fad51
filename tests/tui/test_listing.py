import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.filter import parse
from gpudash.analysis.table import Column, process_rows
from gpudash.model.process import Process
from gpudash.tui.listing import PROCESS_ORDERS, Listing, Ranking
from tests.factories import GIB, gpu_uuid, make_process, make_process_device, make_snapshot
from tests.tui.stage import OnScreen, on_screen, process_of

KEYS = [column.key for column in PROCESS_ORDERS]
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


def test_ties_keep_the_order_of_the_column_sorted_by_before() -> None:
    held = ((1, "bob", 2), (2, "alice", 1), (3, "bob", 3), (4, "alice", 4))
    processes = tuple(
        make_process(
            pid=pid, username=user, devices=(make_process_device(used_gpu_memory_bytes=size),)
        )
        for pid, user, size in held
    )
    listing = Listing("gpu_memory")
    listing.fill(process_rows(make_snapshot(4, processes=processes)))
    listing.sort_by("user")
    assert [row.process.pid for row in listing.rows] == [4, 2, 3, 1]
    listing.reverse()
    assert [row.process.pid for row in listing.rows] == [3, 1, 4, 2]
    listing.fill(process_rows(make_snapshot(4, processes=processes[::-1])))
    assert [row.process.pid for row in listing.rows] == [3, 1, 4, 2]


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


@pytest.mark.parametrize(
    ("before", "step", "after"),
    [("pid", 1, "user"), ("pid", -1, "cpu"), ("cpu", 1, "pid"), ("time", 1, "user")],
)
def test_neighbours_of_a_column_go_round(before: str, step: int, after: str) -> None:
    listing = listing_of([1, 2])
    listing.sort_by(before)
    listing.sort_beside(["pid", "user", "cpu"], step)
    assert listing.sort_key == after
    listing.sort_beside([], step)
    assert listing.sort_key == after


def pid(listing: Listing) -> int | None:
    return listing.selected.process.pid if listing.selected else None


def test_cursor_that_was_moved_meanwhile_stays_where_it_was_put() -> None:
    listing = listing_of([1, 2, 3])
    listing.move_to(1)
    fill(listing, [1, 3])
    listing.move(-1)
    fill(listing, [1, 2, 3])
    assert pid(listing) == 1001


@given(numbers, st.lists(numbers, max_size=5), st.integers(0, 20))
def test_tags_outlast_samples_without_their_process(
    listed: list[int], between: list[list[int]], cursor: int
) -> None:
    listing = listing_of(listed)
    listing.move_to(cursor)
    listing.tag()
    before, tagged = pid(listing), [row.process.pid for row in listing.tagged_rows]
    for sample in between:
        fill(listing, sample)
        assert {row.process.pid for row in listing.tagged_rows} <= set(tagged)
    fill(listing, listed)
    assert [row.process.pid for row in listing.tagged_rows] == tagged
    assert pid(listing) == before


def test_reused_pid_is_neither_tagged_nor_under_the_cursor() -> None:
    listing = listing_of([1, 2])
    listing.move_to(1)
    listing.tag()
    successor = process_of(2, create_time=5.0)
    listing.fill(process_rows(make_snapshot(4, processes=(process_of(1), successor))))
    assert listing.tagged_rows == []
    fill(listing, [1, 2])
    assert len(listing.tagged_rows) == 1
    assert pid(listing) == 1002


def test_list_stays_at_its_top_until_somebody_chooses_a_process() -> None:
    listing = listing_of([1, 2, 3, 4, 5, 6])
    listing.sort_by("time")
    top = pid(listing)
    listing.reverse()
    assert pid(listing) == top
    assert listing.cursor == 5
    assert listing.window(3) == range(3)
    assert pid(listing) is None
    fill(listing, [6, 5, 4, 3, 2, 1, 7])
    assert listing.window(3) == range(3)
    assert pid(listing) is None
    listing.move(1)
    assert listing.cursor == 0
    chosen = pid(listing)
    listing.reverse()
    assert pid(listing) == chosen
    assert listing.cursor in listing.window(3) == range(4, 7)


@given(numbers, st.integers(1, 8), st.sampled_from(["hold", "tag", "select", "move_to"]))
def test_process_that_was_chosen_is_not_given_up(
    listed: list[int], height: int, choose: str
) -> None:
    listing = listing_of(listed)
    arguments = {"select": (listing.selected_key,), "move_to": (0,)}.get(choose, ())
    getattr(listing, choose)(*arguments)
    before = pid(listing)
    listing.reverse()
    listing.window(height)
    assert pid(listing) == before


@given(st.integers(-3, 3))
def test_nothing_is_chosen_where_there_is_no_process(rows: int) -> None:
    listing = listing_of([])
    listing.move(rows)
    fill(listing, [1, 2, 3])
    listing.reverse()
    assert listing.window(1) == range(1)
    assert pid(listing) is None


@pytest.mark.parametrize("choose", [Listing.hold, Listing.tag])
def test_process_that_was_chosen_keeps_the_cursor_from_one_that_comes_back(
    choose: Callable[[Listing], None],
) -> None:
    listing = listing_of([1, 2, 3])
    missed = pid(listing)
    fill(listing, [number for number in (1, 2, 3) if number + 1000 != missed])
    chosen = pid(listing)
    choose(listing)
    fill(listing, [1, 2, 3])
    assert pid(listing) == chosen != missed


def test_top_is_kept_again_after_it_was_gone_back_to() -> None:
    listing = listing_of([1, 2, 3, 4, 5])
    listing.move_to(4)
    listing.move(-5)
    listing.reverse()
    assert listing.window(2) == range(2)
    assert pid(listing) is None


def test_any_table_stays_at_its_top_until_somebody_chooses_a_row() -> None:
    column: Column[int] = Column(key="size", header="SIZE", text=str, sort_key=float, width=4)
    ranking = Ranking([column], lambda number: number, "size")
    ranking.fill(range(10))
    assert ranking.selected == 9
    ranking.reverse()
    assert ranking.window(4) == range(4)
    assert ranking.selected == 0
    ranking.fill([-1, *range(10)])
    assert ranking.window(4) == range(4)
    assert ranking.selected == 0
    ranking.move(1)
    ranking.reverse()
    assert ranking.selected == 1
    assert ranking.cursor in ranking.window(4)
    ranking.move(-len(ranking.rows))
    ranking.reverse()
    assert ranking.window(4) == range(4)


def test_what_a_filter_leaves_has_a_cursor_again() -> None:
    listing = listing_of([1, 2, 3, 4, 5])
    listing.reverse()
    listing.window(2)
    assert pid(listing) is None
    listing.filter_by(parse("pid:1002,1003"))
    assert listing.cursor == 0
    assert pid(listing) is not None


def test_a_tree_orders_siblings_as_before_and_turns_them_around() -> None:
    held = ((1, 0, 2), (2, 1, 1), (3, 1, 3), (4, 2, 4))
    processes = tuple(
        make_process(
            pid=pid, parent_pid=up, devices=(make_process_device(used_gpu_memory_bytes=size),)
        )
        for pid, up, size in held
    )
    listing = Listing("gpu_memory")
    listing.fill(process_rows(make_snapshot(processes=processes)))

    def shown() -> list[str]:
        return [f"{row.branch}{row.process.pid}" for row in listing.rows]

    listing.move_to(0)
    assert listing.selected.process.pid == 4
    listing.sort_by("tree")
    assert shown() == ["1", "├─ 3", "└─ 2", "   └─ 4"]
    assert listing.selected.process.pid == 4
    assert listing.leading == ("gpu_memory", True)
    listing.reverse()
    assert shown() == ["1", "├─ 2", "│  └─ 4", "└─ 3"]
    listing.filter_by(parse("pid:1,4"))
    assert shown() == ["1", "└─ 4"]
    listing.filter_by(parse(""))
    listing.sort_by("pid")
    assert shown() == ["4", "3", "2", "1"]


def spread_over(*gpus: int, pid: int = 9) -> Process:
    """A process that holds more on each further GPU."""
    devices = tuple(
        make_process_device(index=gpu, uuid=gpu_uuid(gpu), used_gpu_memory_bytes=(1 + gpu) * GIB)
        for gpu in gpus
    )
    return make_process(pid=pid, devices=devices)


def rows(on: OnScreen) -> list[tuple[int, str, str]]:
    """PID, GPUs and their memory of each line of the list of processes."""
    shown = [line.split() for line in on.lines if re.match(r" +\d+  \w+ +[\d,-]+ ", line)]
    return [(int(pid), gpus, memory) for pid, _, gpus, memory, *_ in shown]


async def test_a_process_is_listed_once_for_each_of_its_gpus_if_settings_say_so() -> None:
    crowd = make_snapshot(4, processes=(spread_over(0, 1, 3),))
    async with on_screen(crowd, per_gpu=True) as on:
        assert [gpus for _, gpus, _ in rows(on)] == ["3", "1", "0"]
        await on.press("x")
        assert [gpus for _, gpus, _ in rows(on)] == ["0-1,3"]


async def test_a_process_is_listed_once_for_each_of_its_gpus() -> None:
    crowd = make_snapshot(4, processes=(spread_over(0, 1, 3), spread_over(1, pid=7)))
    async with on_screen(crowd) as on:
        assert rows(on) == [(9, "0-1,3", "7.0G"), (7, "1", "2.0G")]
        await on.press("x", "o", "n")
        by_gpu = [(9, "0", "1.0G"), (7, "1", "2.0G"), (9, "1", "2.0G"), (9, "3", "4.0G")]
        assert rows(on) == by_gpu
        await on.press("end")
        await on.give(crowd)
        assert on.listing.cursor == 3
        on.listing.filter_by(parse("gpu:1"))
        await on.give(crowd)
        assert rows(on)[:2] == by_gpu[1:3]
        await on.press("escape", "x")
        assert len(rows(on)) == 2


async def test_a_signal_is_for_the_process_whichever_of_its_gpus_is_chosen() -> None:
    async with on_screen(make_snapshot(4, processes=(spread_over(0, 1, 3),)), "x", "j") as on:
        (chosen,) = on.app.first.chosen_rows
        assert [share.index for share in chosen.process.devices] == [0, 1, 3]


async def test_a_key_that_would_open_no_process_says_so() -> None:
    async with on_screen(make_snapshot(4, processes=(spread_over(2),)), "x") as on:
        assert "no process uses more than one GPU" in on.lines[-1]
