from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.forest import forest, in_ascii
from gpudash.analysis.table import ProcessRow
from tests.factories import make_process


def _row(pid: int, parent_pid: int | None) -> ProcessRow:
    return ProcessRow(make_process(pid=pid, parent_pid=parent_pid), "0", None)


def _drawn(rows: list[ProcessRow], everything: list[ProcessRow] | None = None) -> list[str]:
    return [f"{r.branch}{r.process.pid}" for r in forest(rows, everything or rows)]


def test_children_stand_below_their_parent_in_the_order_given() -> None:
    rows = [_row(30, 10), _row(10, 1), _row(40, 30), _row(20, 10), _row(50, 0)]
    assert _drawn(rows) == ["10", "├─ 30", "│  └─ 40", "└─ 20", "50"]


def test_what_the_same_unseen_parent_started_is_tied() -> None:
    rows = [_row(11, 5), _row(90, 7), _row(13, 5), _row(14, 13), _row(12, 5)]
    assert _drawn(rows) == ["┌─ 11", "├─ 13", "│  └─ 14", "└─ 12", "90"]


def test_what_init_adopted_is_not_tied() -> None:
    assert _drawn([_row(11, 1), _row(12, 1), _row(13, None)]) == ["11", "12", "13"]


def test_a_parent_that_is_filtered_out_leaves_its_children_below_the_next() -> None:
    top, hidden, low = _row(10, 1), _row(20, 10), _row(30, 20)
    assert _drawn([top, low], [top, hidden, low]) == ["10", "└─ 30"]


def test_ascii_draws_the_same_lines() -> None:
    rows = [_row(11, 5), _row(13, 11), _row(12, 5)]
    branches = [in_ascii(row).branch for row in forest(rows, rows)]
    assert branches == [",- ", "|  `- ", "`- "]


pairs = st.lists(st.tuples(st.integers(0, 12), st.none() | st.integers(0, 12)), max_size=14)


@given(pairs, st.integers(0, 14))
def test_no_process_is_lost_whatever_parents_a_recording_names(
    listed: list[tuple[int, int | None]], shown: int
) -> None:
    everything = [_row(*each) for each in listed]
    found = forest(everything[:shown], everything)
    assert sorted(row.process.pid for row in found) == sorted(pid for pid, _ in listed[:shown])


def test_a_long_chain_is_not_indented_without_end() -> None:
    rows = [_row(pid, pid - 1) for pid in range(2, 5000)]
    assert max(len(row.branch) for row in forest(rows, rows)) < 40
