from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import ColorSystem

from gpudash.model.snapshot import Host
from gpudash.tui.draw.frame import host_line
from gpudash.tui.draw.line import cells_of
from gpudash.tui.draw.main_charts import Trends
from gpudash.tui.theme import look
from tests.factories import GIB, make_host
from tests.strategies import values
from tests.tui.past import sample, watched

THEME = look(no_color=False, color_system=ColorSystem.TRUECOLOR)

TRENDS = Trends(watched(sample(second, [50]) for second in range(30)))
TRENDS.show(None)


def text(host: Host, cells: int, trends: Trends | None = TRENDS) -> str:
    return "".join(segment.text for segment in host_line(host, trends, THEME, cells))


def test_wide_line_tells_all_with_curves() -> None:
    line = text(make_host(swap_total_bytes=8 * GIB, swap_used_bytes=GIB), 200)
    for part in ("CPU  12%", "MEM 96.0G/512G", "SWAP 1.0G/8.0G", "LOAD 4.5 4.2 4.0", "UP 11d13h"):
        assert part in line
    assert "⣀" in line


@pytest.mark.parametrize(("cells", "last"), [(80, "UP"), (40, "MEM"), (14, "CPU")])
def test_narrow_line_keeps_what_matters_most(cells: int, last: str) -> None:
    line = text(make_host(), cells)
    assert line.split()[-2] == last


def test_curves_can_be_left_out() -> None:
    assert text(make_host(), 200, None).isascii()


def test_host_that_tells_nothing_shows_no_zeros() -> None:
    assert text(Host(hostname="x"), 80, None).split() == ["CPU", "-"]


@given(values(Host), st.integers(1, 300))
def test_any_host_stays_within_the_line(host: Host, cells: int) -> None:
    assert cells_of(host_line(host, TRENDS, THEME, cells)) <= cells
