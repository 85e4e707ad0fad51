import pytest
from rich.color import ColorSystem

from gpudash.analysis.table import device_rows
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.tui.draw.devices import DeviceCells
from gpudash.tui.draw.line import Line, cells_of
from gpudash.tui.layout import MIN_DEVICE_CELLS
from gpudash.tui.theme import load_theme
from tests.factories import GIB, make_device, make_snapshot

THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)
HOT = make_device(index=7, uuid="GPU-hot", clocks_event_reasons=("hw-thermal-slowdown",))
LOST = Device(index=1, state="lost", fault=Fault(source="nvml", message=clean("fell off")))
FULL = make_device(
    gpu_utilization_percent=100, memory_used_bytes=8 * GIB, memory_total_bytes=8 * GIB
)
ROWS = device_rows(make_snapshot(devices=(FULL, LOST, HOT)))


def text(line: Line) -> str:
    return "".join(segment.text for segment in line)


def test_heading_and_devices_take_exactly_their_cells() -> None:
    for cells in range(1, 101):
        grid = DeviceCells(ROWS, cells, THEME)
        assert {cells_of(line) for line in [grid.heading(), *map(grid.draw, ROWS)]} == {cells}


@pytest.mark.parametrize("cells", [MIN_DEVICE_CELLS, 20, 30, 45, 70])
def test_numbers_stand_under_their_headings(cells: int) -> None:
    grid = DeviceCells(ROWS, cells, THEME)
    heading, row = text(grid.heading()), text(grid.draw(ROWS[0]))
    for word in ("UTIL", "MEM%"):
        end = heading.index(word) + len(word)
        assert row[end - 3 : end] == "100"


@pytest.mark.parametrize("cells", [MIN_DEVICE_CELLS, MIN_DEVICE_CELLS + 1, 20, 30, 45])
@pytest.mark.parametrize("count", [8, 128])
def test_headings_of_cells_side_by_side_stand_apart(count: int, cells: int) -> None:
    heading = text(DeviceCells(device_rows(make_snapshot(count)), cells, THEME).heading())
    assert set(f"{heading}{heading}".split()) <= {"GPU", "UTIL", "MEM%", "TEMP", "POWER", "STATUS"}


def test_more_cells_show_more() -> None:
    def heading(cells: int) -> str:
        return text(DeviceCells(ROWS, cells, THEME).heading())

    assert "TEMP" not in heading(MIN_DEVICE_CELLS)
    assert "TEMP" in heading(24)
    assert "STATUS" in heading(45)
    assert "POWER" in heading(60)


def test_trouble_is_marked_without_colour() -> None:
    grid = DeviceCells(ROWS, MIN_DEVICE_CELLS, THEME)
    lost, hot = text(grid.draw(ROWS[1])), text(grid.draw(ROWS[2]))
    assert lost.split() == ["!", "1", "LOST"]
    assert hot.startswith("! 7")
    assert "0" not in lost
