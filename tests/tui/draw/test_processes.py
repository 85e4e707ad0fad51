import pytest
from rich.color import ColorSystem

from gpudash.analysis.filter import parse
from gpudash.analysis.table import process_rows
from gpudash.tui.draw.line import cells_of
from gpudash.tui.draw.processes import ProcessTable, position
from gpudash.tui.listing import Listing
from gpudash.tui.theme import load_theme
from tests.tui.stage import busy_snapshot

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
TYPED = "user:alice cmd:job gpu:0-7"


@pytest.fixture
def listing() -> Listing:
    listing = Listing("gpu_memory")
    listing.fill(process_rows(busy_snapshot(40)))
    listing.filter_by(parse(TYPED))
    listing.tag()
    return listing


def title(listing: Listing, cells: int) -> str:
    line = ProcessTable().lines(listing, (), THEME, cells, 6, empty_text=lambda: "")[0]
    return "".join(segment.text for segment in line)


def test_headings_stay_where_what_part_is_shown_needs_few_cells() -> None:
    everything = Listing("gpu_memory")
    everything.fill(process_rows(busy_snapshot(8)))
    assert title(everything, 40).split() == ["PID", "USER", "GPUS", "▼GPU-MEM", "1-5", "of", "8"]


def test_headings_stay_where_nothing_fits_and_where_there_is_nothing() -> None:
    nothing = Listing("gpu_memory")
    assert {"PID", "USER", "GPUS", "COMMAND"} <= set(title(nothing, 80).split())
    listing = Listing("gpu_memory")
    listing.fill(process_rows(busy_snapshot(8)))
    whole = title(listing, 120)
    listing.filter_by(parse("nobody"))
    assert title(listing, 120)[:60] == whole[:60]


def test_the_column_that_orders_the_rows_is_shown_on_few_cells() -> None:
    table, listing = ProcessTable(), Listing("gpu_memory")
    listing.fill(process_rows(busy_snapshot(4)))
    for key, heading in (
        ("resident_memory", "▼RSS"),
        ("user", "▲USER"),
        ("gpu_memory", "▼GPU-MEM"),
    ):
        listing.sort_by(key)
        line = table.lines(listing, (), THEME, 60, 6, empty_text=lambda: "")[0]
        assert heading in "".join(segment.text for segment in line).split()
        assert cells_of(line) == 60


def test_what_part_is_shown_covers_whole_headings_only(listing: Listing) -> None:
    known = {"PID", "USER", "GPUS", "▼GPU-MEM", "TYPE", "MEM%", "UTIL", "MEM-BW", "CPU", "RSS"}
    for cells in range(30, 220, 7):
        headings, slash, shown = title(listing, cells).partition("/")
        assert set(headings.split()) <= known | {"TIME", "IDLE", "JOB", "COMMAND"}, cells
        assert slash
        assert "20 of 40" in shown


def test_it_takes_no_more_room_than_there_is(listing: Listing) -> None:
    for cells in range(100):
        assert cells_of(position(listing, range(5), THEME, cells)) <= max(cells, 4)


def test_the_least_important_goes_first(listing: Listing) -> None:
    def text(cells: int) -> str:
        return "".join(each.text for each in position(listing, range(5), THEME, cells))

    assert text(100).split("  ") == [f" /{TYPED}", "20 of 40", "1 tagged", "1-5 of 20 "]
    assert "1-5" not in text(40)
    assert "tagged" in text(40)
    assert "tagged" not in text(30)
    assert "20 of 40" in text(30)
