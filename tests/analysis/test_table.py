import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.analysis.table import (
    BarGlyphs,
    Column,
    bar_text,
    device_rows,
    fit,
    line_cells,
    process_rows,
)
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)


def column(key: str, width: int = 6, priority: int = 0, **more: object) -> Column[str]:
    return Column(
        key=key,
        header=key,
        text=lambda row: row,
        sort_key=str,
        width=width,
        priority=priority,
        **more,  # type: ignore[arg-type]
    )


COLUMNS = (
    column("a"),
    column("b", priority=5),
    column("c", priority=3),
    column("d", priority=2, share=lambda row: 0.5),
    column("e", width=20, grows=True),
)


def keys(room: int, rows: tuple[str, ...] = ("x" * 30,)) -> str:
    return "".join(place.column.key for place in fit(COLUMNS, rows, room))


def test_least_important_columns_go_first() -> None:
    kept = [keys(room) for room in (60, 45, 39, 30, 14)]
    assert kept == ["abcde", "acde", "ade", "ade", "ae"]


def test_growing_column_takes_what_is_left() -> None:
    assert fit(COLUMNS, ["x" * 30], 100)[-1].width == 100 - 4 * (6 + 2)


def test_words_give_way_before_what_is_always_shown_is_cut_at_the_edge() -> None:
    columns = (column("a", 40), column("b", 12), column("c", 7, align=">"))
    widths = {room: [each.width for each in fit(columns, ["x" * 30], room)] for room in (60, 40, 9)}
    assert widths == {60: [30, 12, 7], 40: [17, 12, 7], 9: [8, 12, 7]}


def test_columns_are_as_wide_as_their_content() -> None:
    assert [place.width for place in fit(COLUMNS[:2], ["xyz"], 80)] == [3, 3]
    assert [place.width for place in fit(COLUMNS[:2], ["x" * 9], 80)] == [6, 6]


def test_a_column_has_its_least_cells_whatever_it_holds() -> None:
    widths = [fit((column("a", least=4),), [text], 80)[0].width for text in ("9%", "100%")]
    assert widths == [4, 4]


def test_a_narrow_column_stays_where_a_wider_one_that_matters_more_has_no_room() -> None:
    narrow = column("a", 3, priority=5)
    columns = (column("a"), column("b", 20, priority=4), column("d", 3), narrow)
    places = fit(columns, ["x" * 30], 22)
    assert [place.column for place in places] == [columns[0], columns[2], narrow]


def test_column_without_content_is_left_out_unless_it_always_stands() -> None:
    assert keys(80, ("-",)) == "ae"


def test_bars_take_what_is_left_and_go_before_the_important_columns() -> None:
    wide, narrow = fit(COLUMNS[:4], ["xyz"], 30, bar=5), fit(COLUMNS[3:4], ["xyz"], 8, bar=5)
    assert (wide[-1].bar, line_cells(wide)) == (11, 30)
    assert [place.bar for place in narrow] == [0]


def test_stretching_columns_and_bars_share_what_is_left() -> None:
    columns = (column("d", share=lambda row: 0.5), column("t", width=8, stretch=40, priority=4))
    spare = [fit(columns, ["xyz"], room, bar=5) for room in (19, 26, 300)]
    assert [[(place.width, place.bar) for place in places] for places in spare] == [
        [(3, 5), (8, 0)],
        [(3, 10), (10, 0)],
        [(3, 24), (40, 0)],
    ]
    assert line_cells(fit(columns, ["xyz"], 60, bar=5)) == 60


@given(st.integers(22, 300), st.text("x日", min_size=1, max_size=40), st.integers(0, 9))
def test_fitted_columns_stay_within_the_room(room: int, text: str, bar: int) -> None:
    assert line_cells(fit(COLUMNS, [text], room, bar=bar)) <= room


BLOCKS = BarGlyphs("█", tuple("▏▎▍▌▋▊▉"), " ", only_one_is_full=False)
ASCII = BarGlyphs("#", (), ".", only_zero_is_empty=False, only_one_is_full=False)


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0, "    "),
        (0.0001, "▏   "),
        (0.5, "██  "),
        (0.97, "███▉"),
        (1, "████"),
        (7, "████"),
        (-1, "    "),
    ],
)
def test_bar_fills_by_eighths_of_a_cell(share: float, drawn: str) -> None:
    assert "".join(bar_text(share, 4, BLOCKS)) == drawn


@pytest.mark.parametrize(("share", "drawn"), [(0, "...."), (0.5, "##.."), (1, "####")])
def test_bar_has_an_ascii_form(share: float, drawn: str) -> None:
    assert "".join(bar_text(share, 4, ASCII)) == drawn


def test_age_is_counted_from_when_the_snapshot_was_taken() -> None:
    started = make_snapshot().taken_at.timestamp() - 90
    processes = (make_process(create_time=started), make_process(create_time=None))
    rows = process_rows(make_snapshot(processes=processes))
    assert [row.age_seconds for row in rows] == [90, None]


def test_rows_carry_the_labels_of_their_devices() -> None:
    instance = make_device(index=1, uuid="MIG-a", parent_uuid=gpu_uuid(0))
    share = make_process_device(index=0, uuid="MIG-a")
    snapshot = make_snapshot(
        devices=(make_device(index=0), instance), processes=(make_process(devices=(share,)),)
    )
    assert [row.label for row in device_rows(snapshot)] == ["0", "0:1"]
    assert [row.gpus for row in process_rows(snapshot)] == ["0:1"]


def test_utilization_is_the_mean_of_what_is_known() -> None:
    shares = [
        make_process_device(index=i, sm_utilization_percent=v) for i, v in enumerate((90, 80, None))
    ]
    assert make_process(devices=tuple(shares)).sm_utilization_percent == 85
    assert make_process(devices=(shares[2],)).sm_utilization_percent is None


def test_memory_share_is_of_all_the_devices_that_a_process_uses() -> None:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=20 * GIB) for i in (0, 1))
    unknown = make_process_device(index=9, uuid="GPU-gone")
    processes = (make_process(devices=shares), make_process(pid=2, devices=(unknown,)))
    rows = process_rows(make_snapshot(2, processes=processes))
    assert [row.gpu_memory_percent for row in rows] == [25.0, None]
