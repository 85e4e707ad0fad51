import pytest

from gpudash.model.device import Device
from gpudash.tui.draw.line import Line
from gpudash.tui.panels import DashboardPanels
from tests.factories import gpu_uuid, make_device, make_process, make_snapshot
from tests.tui.dashboards import make_dashboard
from tests.tui.stage import busy_snapshot, process_of


def text_of(lines: list[Line]) -> str:
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def test_more_room_shows_more() -> None:
    snapshot = busy_snapshot(6, 8)
    narrow = DashboardPanels(make_dashboard(snapshot, (80, 24))).draw().devices
    wide = DashboardPanels(make_dashboard(snapshot, (200, 60))).draw().devices
    assert "SM CLK" not in text_of(narrow)
    for word in ("SM CLK", "MEM CLK", "MTEMP", "GPU utilization", "Memory used", "RAM"):
        assert word in text_of(wide)


def headings(devices: tuple[Device, ...], cells: int) -> list[str]:
    """The headings of the GPUs on a screen of 24 lines."""
    dashboard = make_dashboard(make_snapshot(devices=devices), (cells, 24))
    lines = text_of(DashboardPanels(dashboard).draw().devices).splitlines()
    return next(line for line in lines if line.startswith(" GPU ")).split()


def test_what_a_gpu_encodes_and_moves_over_pcie_is_shown_where_it_does() -> None:
    active = {"pcie_rx_bytes_per_second": 9 << 20, "pcie_tx_bytes_per_second": 1 << 20}
    card = make_device(name="RTX 4090", encoder_utilization_percent=30, **active)
    assert {"NAME", "POWER", "PCIE", "TX/RX", "ENC"} <= set(headings((card,), 80))
    assert "DEC" not in headings((card,), 80)
    at_rest = make_device(encoder_utilization_percent=0, pcie_rx_bytes_per_second=0)
    assert not {"TX/RX", "ENC", "DEC"} & set(headings((at_rest,), 300))


def test_activity_and_memory_come_before_the_state_of_the_link() -> None:
    active = {"sm_active_percent": 50, "pcie_rx_bytes_per_second": 9 << 20}
    cards = tuple(make_device(index=n, uuid=gpu_uuid(n), **active) for n in range(8))
    assert {"SM", "MEM%"} <= set(headings(cards, 100))
    assert {"SM", "MEM%", "TX/RX"} <= set(headings(cards, 116))
    assert {"SM", "MEM%", "P", "PCIE"} <= set(headings(cards, 140))


def test_no_column_moves_when_a_percentage_gets_to_100() -> None:
    def titles(percent: int) -> tuple[str, str]:
        card = make_device(
            sm_active_percent=percent,
            fan_speed_percent=percent,
            encoder_utilization_percent=percent,
        )
        process = make_process(cpu_percent=float(percent))
        snapshot = make_snapshot(devices=(card,), processes=(process,))
        drawn = DashboardPanels(make_dashboard(snapshot, (200, 40))).draw()
        gpus = next(line for line in text_of(drawn.devices).splitlines() if "SM" in line)
        return gpus, text_of(drawn.processes).splitlines()[0]

    assert titles(9) == titles(99) == titles(100)
    assert {"SM", "FAN", "ENC"} <= set(titles(9)[0].split())


@pytest.mark.parametrize(
    ("panel", "word"), [("host", "LOAD"), ("history", "mean"), ("sparklines", "last 1s")]
)
def test_panels_can_be_hidden_and_shown_again(panel: str, word: str) -> None:
    dashboard = make_dashboard(make_snapshot(4))
    panels = DashboardPanels(dashboard)
    if panel == "sparklines":
        dashboard.toggle_panel("history")
    assert word in text_of(panels.draw().devices)
    dashboard.toggle_panel(panel)
    assert word not in text_of(panels.draw().devices)
    dashboard.toggle_panel(panel)
    assert word in text_of(panels.draw().devices)


def test_command_lines_scroll_as_far_as_the_longest() -> None:
    long = process_of(1, command_line=("python", "train.py", *(f"--option{n}" for n in range(40))))
    dashboard = make_dashboard(make_snapshot(processes=(process_of(0), long)), (100, 30))
    panels = DashboardPanels(dashboard)
    assert "python train.py" in text_of(panels.draw().processes)
    panels.scroll_command(7)
    assert "…train.py --option0" in text_of(panels.draw().processes)
    panels.scroll_command(10_000)
    assert "--option39" in text_of(panels.draw().processes)
    panels.scroll_command(-10_000)
    assert "python train.py" in text_of(panels.draw().processes)
