from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.tui.layout import compute_layout

PANELS = st.frozensets(st.sampled_from(["host", "history", "sparklines"]))


def test_sixteen_gpus_fit_twenty_four_lines() -> None:
    plan = compute_layout(80, 24, 16, 40)
    assert (plan.seen, plan.charts) == (16, 0)
    assert 24 - 3 - plan.upper >= 10


def test_sixty_four_gpus_fit_eighty_columns_beside_eight_processes() -> None:
    plan = compute_layout(80, 24, 64, 500)
    assert (plan.seen, plan.compact) == (64, True)
    assert 24 - 3 - plan.upper >= 8


def test_more_gpus_than_cells_leave_half_the_room_to_the_processes() -> None:
    plan = compute_layout(40, 24, 64, 500)
    assert plan.seen == (plan.devices - 1) * plan.across < 64
    assert 24 - 3 - plan.upper >= 8


def test_part_that_is_alone_has_all_but_a_line() -> None:
    assert compute_layout(80, 24, 8, 40, alone="processes").upper == 0
    devices = compute_layout(80, 24, 19, 40, alone="devices")
    assert (devices.devices, devices.compact) == (19, False)


def test_eight_gpus_leave_room_for_host_and_eight_processes() -> None:
    plan = compute_layout(80, 24, 8, 40)
    assert (plan.devices, plan.host, plan.charts) == (8, 1, 0)
    assert 24 - 3 - plan.upper >= 8


def test_what_is_wrong_takes_the_lines_that_no_process_needs() -> None:
    assert compute_layout(80, 24, 8, 8, findings=3).findings == 3
    assert compute_layout(80, 24, 8, 12, findings=3).findings == 1


def test_what_is_wrong_has_a_line_and_three_where_there_is_room() -> None:
    assert compute_layout(80, 24, 8, 40, findings=5).findings == 1
    assert compute_layout(120, 40, 8, 40, findings=5).findings == 3
    assert 24 - 3 - compute_layout(80, 24, 8, 40, findings=5).upper >= 8


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
def test_a_finding_that_comes_moves_no_row(size: tuple[int, int]) -> None:
    for gpus, processes in product((1, 4, 8), (0, 3, 12, 40)):
        plans = {compute_layout(*size, gpus, processes, findings=count) for count in range(6)}
        assert len(plans) == 1, (gpus, processes)


@pytest.mark.parametrize("curves", range(7))
def test_a_window_without_room_for_charts_has_none(curves: int) -> None:
    for height in range(8, 24):
        assert compute_layout(100, height, 8, 12, findings=2, curves=curves).charts == 0


def test_few_processes_leave_the_room_to_charts_and_many_take_it() -> None:
    assert compute_layout(120, 40, 8, 3).charts > 10
    assert compute_layout(120, 40, 8, 30).charts == 0


def test_charts_leave_no_more_lines_than_the_next_few_processes_take() -> None:
    for height, processes in ((40, 3), (60, 8), (80, 8), (100, 20)):
        plan = compute_layout(120, height, 2, processes)
        left = height - 3 - plan.upper
        # Less than a line for each curve more: of two GPUs, their mean and the host.
        assert processes <= left < processes + 4 + 4
        assert plan.charts % 4 == 1


@pytest.mark.parametrize(("rows", "curves"), [(1, 4), (2, 4), (5, 2), (8, 10)])
def test_a_young_history_has_a_line_for_each_curve(rows: int, curves: int) -> None:
    old, young = (
        compute_layout(200, 60, rows, 3, curves=curves, young=each) for each in (False, True)
    )
    assert young == old._replace(charts=1 + curves)
    assert old.charts > 2 * curves


def test_one_process_more_seldom_moves_the_charts() -> None:
    assert len({compute_layout(120, 40, 8, count).charts for count in (5, 6, 7, 8)}) == 1


def test_long_list_stands_in_two_columns_where_it_is_wide() -> None:
    narrow, wide = compute_layout(120, 60, 64, 9), compute_layout(200, 60, 64, 9)
    assert (narrow.across, wide.across) == (2, 2)
    assert narrow.compact
    assert not wide.compact
    assert wide.devices * wide.across >= 64


@pytest.mark.parametrize(("panel", "part"), [("host", "host"), ("history", "charts")])
def test_hidden_panel_takes_no_line(panel: str, part: str) -> None:
    assert getattr(compute_layout(120, 40, 4, 3), part)
    assert not getattr(compute_layout(120, 40, 4, 3, {panel}), part)


@given(
    st.integers(1, 300),
    st.integers(1, 100),
    st.integers(0, 80),
    st.integers(0, 600),
    PANELS,
    st.integers(0, 9),
)
def test_processes_keep_their_lines_at_any_size(
    cells: int, height: int, devices: int, processes: int, hidden: frozenset[str], findings: int
) -> None:
    plan = compute_layout(cells, height, devices, processes, hidden, findings=findings)
    assert min(plan) >= 0
    assert plan.devices >= 1
    assert plan.seen <= max(1, devices)
    assert plan.device_lines <= plan.devices
    assert (plan.seen >= devices) or (plan.device_lines == max(1, plan.devices - 1))
    left = height - 3 - plan.upper
    assert left >= min(3, height - 5)
    if plan.charts:
        assert left >= processes
