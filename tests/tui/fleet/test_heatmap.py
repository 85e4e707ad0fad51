import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpudash.fleet.summary import HostRow, host_rows
from gpudash.model.text import SafeText
from gpudash.tui.fleet.heatmap import Arrangement, arrange, ordered
from tests.fleet.many import fleet, host, some_hosts


def rows_of(count: int) -> list[HostRow]:
    return ordered(host_rows(fleet(some_hosts(count))))


def hosts_on(arrangement: Arrangement) -> list[int]:
    """Every host on the map, in its order."""
    return sorted(host for _, _, cell in arrangement.spots() for host in cell.hosts)


@pytest.mark.parametrize(
    ("count", "size", "unit"),
    [
        (1000, (198, 51), "a GPU"),
        (1000, (198, 45), "a GPU"),
        (300, (118, 30), "a GPU"),
        (400, (78, 13), "a host"),
        (1000, (78, 13), "2 hosts"),
        (1000, (58, 5), "4 hosts"),
        (1000, (38, 1), "27 hosts"),
        (8, (78, 13), "a GPU"),
    ],
)
def test_the_finest_that_fits_is_taken(count: int, size: tuple[int, int], unit: str) -> None:
    assert arrange(rows_of(count), *size).unit == unit


@settings(max_examples=20, deadline=None)
@example(1, 8, 4)
@given(st.integers(0, 400), st.integers(1, 200), st.integers(0, 60))
def test_no_host_is_left_out_and_nothing_is_outside(count: int, cells: int, height: int) -> None:
    rows = rows_of(count)
    arrangement = arrange(rows, cells, height)
    assert len(arrangement.lines) <= height
    if not arrangement.lines:
        assert not (count and height and cells > 1)
        return
    assert hosts_on(arrangement) == list(range(count))
    for line in arrangement.lines:
        ends = [piece.x + len(piece.cells) for piece in line]
        assert max(ends) <= cells
        starts = [piece.x - len(piece.label) for piece in line[1:]]
        assert all(end < start for end, start in zip(ends, starts, strict=False))


def test_the_cell_of_a_host_is_found_where_it_is_drawn() -> None:
    arrangement = arrange(rows_of(100), 78, 13)
    for x, y, cell in arrangement.spots():
        assert arrangement.cell_at(x, y) == cell
    assert arrangement.cell_at(0, 0) is None
    assert arrangement.cell_at(5, 99) is None


def test_the_cursor_reaches_every_host_to_the_right_and_stops_at_the_end() -> None:
    arrangement = arrange(rows_of(100), 78, 13)
    host, seen = 0, [0]
    for _ in range(99):
        cell = arrangement.beside(host, 1, 0)
        host = cell.hosts[0]
        seen.append(host)
    assert seen == list(range(100))
    last = arrangement.beside(host, 1, 0)
    assert last.hosts == (99,)


def test_the_cursor_goes_down_to_the_nearest_and_back() -> None:
    arrangement = arrange(rows_of(400), 78, 13)
    below = arrangement.beside(5, 0, 1)
    assert below.hosts == (25,)
    above = arrangement.beside(25, 0, -1)
    assert above.hosts == (5,)


def test_numbers_in_names_are_ordered_by_value() -> None:
    names = ["r10", "r9", "r1", "login"]
    hosts = tuple(host(0, name=SafeText(name), group=None) for name in names)
    assert [row.host.name for row in ordered(host_rows(fleet(hosts)))] == [
        "login",
        "r1",
        "r9",
        "r10",
    ]


def test_a_map_is_as_wide_as_it_can_be_so_that_there_is_room_below() -> None:
    assert len(arrange(rows_of(60), 138, 30).lines) == 9
