import re
from typing import Any

from msgspec.structs import replace

from gpudash.model.snapshot import Snapshot
from tests.factories import (
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
    make_topology,
)
from tests.tui.stage import on_screen


def linked(count: int = 8, **overrides: Any) -> Snapshot:
    """GPUs in islands of two, each with traffic."""
    gpus = tuple(
        make_device(
            index=index,
            pcie_tx_bytes_per_second=(index + 1) << 30,
            pcie_rx_bytes_per_second=1 << 20,
            nvlink_tx_bytes_per_second=150 << 30,
            nvlink_rx_bytes_per_second=0,
        )
        for index in range(count)
    )
    return make_snapshot(count, devices=gpus, **overrides)


def spanning(*gpus: int) -> Any:
    shares = tuple(make_process_device(index=gpu, uuid=gpu_uuid(gpu)) for gpu in gpus)
    return make_process(pid=20817, name="python", username="bob", devices=shares)


def row(lines: list[str], gpu: int) -> list[str]:
    (found,) = [line for line in lines if re.match(rf" {gpu} +\S", line)]
    return found.split()


async def test_eight_gpus_their_links_and_their_traffic_fit_eighty_by_twenty_four() -> None:
    async with on_screen(linked(processes=(spanning(0, 1, 2, 3),)), "m") as on:
        lines = on.lines
        assert row(lines, 2)[1:9] == ["SYS", "SYS", "X", "PIX", "SYS", "SYS", "SYS", "SYS"]
        assert row(lines, 7)[-2:] == ["150G", "0"]
        assert "8.0G" in row(lines, 7)
        text = " ".join(" ".join(lines).split())
        assert "bob's python (PID 20817) uses GPU 0-3: no P2P between GPU 0-1 and 2-3;" in text
        # How the host is built: its finding is no warning either.
        assert "! bob" not in text
        assert "one PCIe switch at most" in text
        assert "NUMA 0, CPUs 0-31: GPU 0-3; NUMA 1, CPUs 32-63: GPU 4-7" in text


async def test_legend_explains_only_what_occurs() -> None:
    snapshot = linked()
    async with on_screen(snapshot, "m") as on:
        first, *others = snapshot.devices
        unknown = replace(first, pcie_tx_bytes_per_second=None)
        await on.give(replace(snapshot, devices=(unknown, *others)))
        text = on.text
        assert "unread: the driver has given no rate" in text
        await on.give(snapshot)
        text = on.text
        assert "unread" not in text
        assert "through the CPU's PCIe host bridge" not in text
        assert "NVLinks, direct" not in text


async def test_legend_is_told_in_full_on_few_cells() -> None:
    async with on_screen(linked(2), "m", size=(24, 24)) as on:
        text = " ".join(on.text.split())
        assert "PIX one PCIe switch at most" in text


async def test_tab_goes_through_all_matrices_and_round() -> None:
    async with on_screen(linked(), "m") as on:
        cells = []
        for _matrix in range(6):
            cells.append(row(on.lines, 0)[2:4])
            await on.press("tab")
        assert cells == [
            ["PIX", "SYS"],
            ["OK", "CNS"],
            ["OK", "CNS"],
            ["NS", "NS"],
            ["Y", "N"],
            ["PIX", "SYS"],
        ]
        await on.press("shift+tab", "shift+tab")
        assert row(on.lines, 0)[2:4] == ["Y", "N"]


async def test_click_on_a_name_shows_its_matrix() -> None:
    async with on_screen(linked(), "m") as on:
        tabs = on.lines[1]
        await on.pilot.click("#body", offset=(tabs.index("atomics"), 0))
        assert row(on.lines, 0)[2] == "NS"
        await on.pilot.click("#body", offset=(79, 0))
        await on.pilot.click("#body", offset=(2, 3))
        assert row(on.lines, 0)[2] == "NS"


async def test_the_name_of_the_matrix_shown_is_in_view_on_few_cells() -> None:
    names = ["Links", "P2P read", "P2P write", "P2P atomics", "P2P Y/N"]
    async with on_screen(linked(), "m", size=(34, 12)) as on:
        for name in names:
            tabs = on.lines[1]
            assert f" {name} " in f"{tabs} "
            assert {*re.split(" {2,}", tabs.strip(" <…"))} <= {*names}
            assert tabs.rstrip().endswith("…") is (names[-1] not in tabs)
            await on.press("tab")
        await on.press("shift+tab", "shift+tab")
        before = on.lines[3:]
        await on.press("tab")
        tabs = on.lines[1]
        assert tabs.startswith("<")
        await on.pilot.click("#body", offset=(tabs.index("atomics"), 0))
        assert on.lines[3:] == before


async def test_wide_terminal_shows_the_affinity_of_each_gpu_in_its_row() -> None:
    async with on_screen(linked(), "m", size=(200, 60)) as on:
        lines = on.lines
        assert row(lines, 7)[-4:] == ["1", "32-63", "gen5", "x16"]
        assert not any("CPUs 0-31: GPU" in line for line in lines)
        assert re.search(r"PCIE TX +PCIE RX +PCIE RX TREND +NVL TX +NVL RX +NVL RX TREND", on.text)


async def test_sixty_four_gpus_are_distinguished_in_one_cell_each() -> None:
    async with on_screen(linked(64), "m") as on:
        lines = on.lines
        assert row(lines, 1)[1] == "pX" + "s" * 62
        assert lines[2].split() == ["p", "PIX", "s", "SYS"]
        await on.press("end")
        text = on.text
        assert re.search(r"s +SYS +from one NUMA node", text)


async def test_numbers_of_the_columns_stay_while_rows_scroll() -> None:
    async with on_screen(linked(64), "m", "pagedown") as on:
        lines = on.lines
        assert "GPU  0123456789" in lines[2]
        assert not any(re.match(r" 0 ", line) for line in lines)
        await on.press("home")
        assert "P2P read" in on.lines[1]


async def test_columns_beyond_the_right_edge_are_scrolled_to() -> None:
    async with on_screen(linked(64), "m", size=(40, 20)) as on:
        first = row(on.lines, 0)[1]
        assert first.startswith("Xps")
        await on.press("right", "right", "right", "right", "right", "right", "right", "right")
        assert row(on.lines, 0)[1] == "s" * len(first)
        await on.press(*["left"] * 8)
        assert row(on.lines, 0)[1] == first


async def test_no_topology_is_one_clear_line() -> None:
    async with on_screen(make_snapshot(topology=None), "m") as on:
        assert any(
            "No topology: the driver does not report how the GPUs are connected" in line
            for line in on.lines
        )
        await on.press("tab", "right")
        await on.pilot.click("#body", offset=(4, 0))
        assert on.app.is_running


async def test_why_a_gpu_asleep_has_no_topology_is_reported_in_full() -> None:
    asleep = make_snapshot(devices=(make_device(state="asleep"),), topology=None)
    async with on_screen(asleep, "m") as on:
        for cells in (80, 30):
            await on.resize(cells, 24)
            text = " ".join(" ".join(on.lines).split())
            assert "No topology: GPU 0 is asleep, so it is not read" in text, cells


async def test_lost_links_and_gpus_are_reported() -> None:
    gpus = (
        make_device(nvlink_count=18),
        make_device(index=1, nvlink_count=16),
        make_device(index=2, state="lost"),
    )
    async with on_screen(make_snapshot(devices=gpus, topology=make_topology(2)), "m") as on:
        text = on.text
        assert "GPU 1: 16 of 18 NVLinks are up" in text
        assert "GPU 2 is not in the matrix: it fell off the bus" in text
