import re
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from rich.color import ColorSystem

from gpudash.analysis.history.metrics import device_metrics
from gpudash.model.device import device_fields
from gpudash.model.fault import Fault
from gpudash.model.fields import Group
from gpudash.model.process import Lease
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from gpudash.tui.draw import chart
from gpudash.tui.draw.line import cells_of
from gpudash.tui.theme import PLAIN, load_theme
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.device.details import DeviceDetails, lease_lines, missing, sheet
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_host,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.tui.stage import OnScreen, on_screen

chart.load()


def later(snapshot: Snapshot, seconds: float, **changes: Any) -> Snapshot:
    uptime = (snapshot.host.uptime_seconds or 0) + seconds
    return replace(
        snapshot,
        taken_at=snapshot.taken_at + timedelta(seconds=seconds),
        host=make_host(uptime_seconds=uptime),
        **changes,
    )


def varied(count: int = 8, **overrides: Any) -> Snapshot:
    """GPUs that differ in utilization."""
    devices = tuple(make_device(index=n, gpu_utilization_percent=10 * n) for n in range(count))
    return make_snapshot(count, devices=devices, **overrides)


def title(on: OnScreen) -> str:
    return on.lines[2]


def place_of(on: OnScreen, text: str) -> tuple[int, int]:
    for y, line in enumerate(on.lines):
        if text in line:
            return line.index(text) + len(text) // 2, y
    raise AssertionError(f"{text!r} is not shown")


async def test_shows_the_gpu_of_the_selected_process() -> None:
    share = make_process_device(index=2)
    async with on_screen(varied(processes=(make_process(devices=(share,)),)), "d") as on:
        lines = on.lines
        assert "[2]" in lines[1]
        assert "H100 80GB HBM3" in lines[1]
        assert "GPU utilization  20%" in lines[2]
        assert lines[3].startswith("100%")
        assert "Utilization" in on.text
        assert "Memory used" in on.text
        assert "back" in lines[-1]


async def test_names_its_processes_on_a_small_screen() -> None:
    many = tuple(make_process(pid=pid, devices=(make_process_device(),)) for pid in range(7, 13))
    async with on_screen(varied(processes=many[:1]), "d") as on:
        assert re.search(r"7  alice .* python train.py", on.text)
        await on.give(varied(processes=many))
        assert all(re.search(rf"^ +{pid}  alice ", on.text, re.MULTILINE) for pid in (7, 8, 9))
        assert "3 more: filter gpu:0" in on.text


@pytest.mark.parametrize(("count", "is_shown"), [(8, True), (30, False)])
async def test_clock_and_link_are_named_where_all_gpus_are(count: int, is_shown: bool) -> None:
    device = make_device(sm_clock_mhz=1980, pcie_link_generation=5, pcie_link_width=16)
    others = tuple(make_device(index=n, uuid=gpu_uuid(n)) for n in range(1, count))
    async with on_screen(make_snapshot(count, devices=(device, *others)), "d") as on:
        assert ("1980MHz  gen5 x16" in on.lines[1]) is is_shown


async def test_no_line_writes_a_percentage_in_two_ways() -> None:
    async with on_screen(varied(processes=(make_process(),)), size=(120, 40)) as on:
        for key in ("d", "enter"):
            await on.press(key)
            await on.shows("100%")
            assert not [line for line in on.lines if re.search(r"\d %", line)], key
            await on.press("escape")


async def test_a_value_stands_beside_what_it_is_of() -> None:
    rates = {name: 0.25 for name in device_fields() if name.endswith("s_per_second")}
    rates = {name: 1 << 30 if "bytes" in name else rate for name, rate in rates.items()}
    device = make_device(**rates)
    async with on_screen(make_snapshot(1, devices=(device,)), "d") as on:
        for cells in (80, 100, 160):
            await on.resize(cells, 200)
            assert len(re.findall(r"[a-zX] +[\d.]+(?:/s| GiB/s)", on.text)) == len(rates), cells


async def test_a_status_is_in_the_words_of_the_table_of_gpus() -> None:
    held = make_device(status="held-idle")
    async with on_screen(make_snapshot(devices=(held,)), "d", size=(160, 60)) as on:
        await on.shows("Status")
        assert "held-idle" not in on.text
        assert on.text.count("held idle") > 1
        # What it is in, and not a second word for whether it can be read.
        assert not re.search(r"State +ok", on.text)


async def test_every_metric_can_be_scrolled_to_and_is_explained() -> None:
    many = tuple(make_process(pid=number) for number in range(1, 40))
    async with on_screen(varied(processes=many), "d", "x", size=(140, 40)) as on:
        seen = ""
        for _page in range(14):
            seen += on.text
            await on.press("pagedown")
        seen += on.text
        for field in device_fields().values():
            if field.name not in ("fault", "last_read", "parent_uuid"):
                assert field.label[:24] in seen
                assert field.help_on_screen.split()[-1] in seen
        # Words of documents and their fields.
        assert "null" not in seen
        assert not [name for name in device_fields() if "_" in name and name in seen]


async def test_keys_turn_to_other_gpus_and_around() -> None:
    async with on_screen(varied(3), "d", "right") as on:
        assert "[1]" in on.lines[1]
        await on.press("n", "n")
        assert "[0]" in on.lines[1]
        await on.press("left")
        assert "[2]" in on.lines[1]
        assert "GPU utilization  20%" in title(on)


async def test_a_digit_goes_to_that_gpu_from_every_page() -> None:
    async with on_screen(varied(processes=(make_process(),))) as on:
        for page in ("escape", "d", "w", "m", "u", "enter"):
            await on.press(page, "9")
            assert "there is no GPU 9" in on.footer
            await on.press("5")
            assert "[5]" in on.lines[1]
            await on.press("escape", "escape")
        await on.press("5", "tab", "3")
        assert "[3]" in on.lines[1]
        assert "Memory utilization" in title(on)


async def test_click_turns_to_a_gpu_and_charts_a_metric() -> None:
    async with on_screen(varied(), "d", size=(120, 40)) as on:
        await on.click(offset=place_of(on, " 5 "))
        assert "[5]" in on.lines[1]
        await on.click(offset=place_of(on, "Power usage"))
        assert "Power usage  412W" in title(on)
        await on.click(offset=place_of(on, "Enforced power limit"))
        assert "Power usage" in title(on)


async def test_click_finds_the_metric_also_when_scrolled() -> None:
    async with on_screen(varied(), "d", "j", "j", "j", "j", "j") as on:
        await on.click(offset=place_of(on, "SM clock"))
        assert "SM clock  1755MHz" in title(on)


@pytest.mark.parametrize(
    ("state", "word", "said"),
    [("lost", "LOST", "fell off the bus"), ("asleep", "asleep", "powered down")],
)
async def test_fault_is_reported_in_words(state: Any, word: str, said: str) -> None:
    fault = Fault(source="nvml", message=clean("fell off the bus"))
    gone = make_device(state=state, fault=fault if state == "lost" else None)
    async with on_screen(make_snapshot(1, devices=(gone,), processes=()), "d") as on:
        assert said in on.lines[2]
        assert [word in line for line in on.lines[1:4]] == [True, False, False]


async def test_gpu_that_vanishes_gives_way_to_the_one_in_its_place() -> None:
    first = varied(3)
    async with on_screen(first, "d", "left") as on:
        await on.give(later(first, 1, devices=first.devices[:2]))
        assert "[1]" in on.lines[1]
        await on.give(later(first, 2, devices=(), processes=()))
        assert "There is no GPU" in on.text
        await on.press("right", "tab", "l", "a", "0", "z", "x", "r")
        await on.pilot.click(offset=(10, 5))
        assert "There is no GPU" in on.text


async def test_mig_instance_is_a_device_of_its_own() -> None:
    parent = make_device(
        index=0,
        mig_mode=True,
        gpu_utilization_percent=None,
        memory_utilization_percent=None,
        throttled_sw_power_cap_percent=0.0,
    )
    part = make_device(
        index=1,
        uuid="MIG-1",
        parent_uuid=gpu_uuid(0),
        name="NVIDIA H100 MIG 3g.40gb",
        gpu_utilization_percent=None,
        memory_utilization_percent=None,
        memory_used_bytes=5 * GIB,
    )
    holder = make_process(devices=(make_process_device(uuid="MIG-1"),))
    async with on_screen(
        make_snapshot(1, devices=(parent, part), processes=(holder,)), size=(100, 40)
    ) as on:
        await on.press("d")
        assert "Memory used" in title(on)
        await on.press("right")
        assert "[0:1]" in on.lines[1]
        assert "MIG 3g.40gb" in on.lines[1]
        assert "Memory used  5.0G" in title(on)
        assert "train.py" in on.text


async def test_memory_of_a_process_is_a_share_of_its_mig_instance_everywhere() -> None:
    parent = make_device(mig_mode=True, memory_total_bytes=80 * GIB)
    part = make_device(index=1, uuid="MIG-1", parent_uuid=gpu_uuid(0), memory_total_bytes=40 * GIB)
    share = make_process_device(uuid="MIG-1", used_gpu_memory_bytes=30 * GIB)
    holder = make_process(devices=(share,))
    snapshot = make_snapshot(1, devices=(parent, part), processes=(holder,))
    async with on_screen(snapshot, size=(160, 40)) as on:
        for keys in ((), ("0",), ("right",)):
            await on.press(*keys)
            assert re.search(r"4242 .* 30.0G +75%", on.text), keys


async def test_a_rate_that_is_not_read_is_not_missing_on_the_device() -> None:
    known = make_device(pcie_link_width=16, pcie_tx_bytes_per_second=None)
    for device, word in ((known, "unread"), (replace(known, state="lost"), "")):
        async with on_screen(make_snapshot(1, devices=(device,)), "d", size=(200, 60)) as on:
            found = re.findall(r"PCIe TX +(\S+)", on.text)
            assert found == ([word] if word else [])


async def test_a_large_chart_of_all_gpus_is_drawn_at_any_size() -> None:
    async with on_screen(varied(64), "d", "a", "z", "x", size=(120, 40)) as on:
        for size in ((10, 3), (1, 1), (80, 24)):
            await on.resize(*size)
            assert isinstance(on.app.screen, DeviceView)
            assert {len(line) for line in on.lines} == {size[0]}
        assert "[0]" in on.text


async def test_unchanged_sample_changes_no_line_but_the_clock() -> None:
    first = varied()
    async with on_screen(first, "d") as on:
        on.feed.give(later(first, 60))
        await on.give(later(first, 120))
        before = on.lines
        await on.give(later(first, 121))
        assert on.lines[12:] == before[12:]


@pytest.mark.parametrize("cells", [1, 20, 38, 80, 120, 200])
@pytest.mark.parametrize("explained", [False, True])
def test_each_present_metric_stands_once_at_any_width(cells: int, explained: bool) -> None:
    details = DeviceDetails(make_device(), "power_usage_mw", device_metrics(), explained)
    drawn = sheet(details, cells, PLAIN)
    assert len(drawn.lines) == len(drawn.columns)
    assert all(cells_of(line) <= max(cells, 1) for line in drawn.lines)
    text = "\n".join("".join(segment.text for segment in line) for line in drawn.lines)
    if cells >= 80:
        assert text.count("Memory temperature") == 1
        assert text.count("412.3 W") == 1
        assert gpu_uuid(0) in text
    missed = missing(details, "x", cells, PLAIN)
    assert bool(missed) is not explained


def test_each_group_that_a_device_has_is_named() -> None:
    details = DeviceDetails(make_device(), "", (), True)
    lines = sheet(details, 200, PLAIN).lines
    text = "\n".join("".join(segment.text for segment in line) for line in lines)
    groups = {field.group for field in device_fields().values()}
    assert len(groups) == 12
    assert Group.PROCESS not in groups
    for group in groups:
        assert f" {group.value} " in text


async def test_metric_is_cycled_and_chosen_by_name() -> None:
    async with on_screen(varied(), "d", "tab") as on:
        assert "Memory utilization" in title(on)
        await on.press("shift+tab", "shift+tab")
        assert "PCIe link generation" in title(on)
        await on.press("l", *"mem temp", "enter")
        assert "Memory temperature  70C" in title(on)


async def test_range_and_zoom() -> None:
    async with on_screen(varied(), "d") as on:
        ranges = []
        for key in ("r", "r", "r", "plus", "plus", "plus", "minus"):
            ranges.append(title(on).split()[-1])
            await on.press(key)
        assert ranges == ["1m", "5m", "30m", "1m", "30s", "15s", "15s"]
        assert title(on).split()[-1] == "30s"
        assert "-30s" in on.text


async def test_numbers_tell_the_past_of_the_chart() -> None:
    first = make_snapshot(1, devices=(make_device(gpu_utilization_percent=20),))
    async with on_screen(first) as on:
        busy = (make_device(gpu_utilization_percent=90),)
        on.feed.give(later(first, 10, devices=busy))
        await on.press("d")
        assert "90%   min 20%   mean" in title(on)
        assert "max 90%" in title(on)


async def test_curves_of_several_gpus_are_distinguished_by_label() -> None:
    shares = (make_process_device(index=0), make_process_device(index=3))
    async with on_screen(
        varied(processes=(make_process(devices=shares),), topology=None),
        no_color=True,
        size=(100, 30),
    ) as on:
        await on.press("d", "c", "5")
        legend = next(line for line in on.lines[3:] if line.startswith(" GPU "))
        assert legend.split() == ["GPU", "0", "0%", "5", "50%"]
        await on.press("c", "5", "c", "3")
        legend = next(line for line in on.lines[3:] if line.startswith(" GPU "))
        assert legend.split() == ["GPU", "0", "0%", "3", "30%"]
        assert any(line.rstrip().endswith("3") for line in on.lines[3:14])
        await on.press("a")
        assert "7 70%" in on.text
        await on.press("a")
        assert not any(line.startswith(" GPU ") for line in on.lines[3:])
        await on.press("c", "space", "down", "space", "escape")
        legend = next(line for line in on.lines[3:] if line.startswith(" GPU "))
        assert legend.split()[1::2] == ["0", "1", "2"]


async def test_a_gpu_alone_is_compared_with_none() -> None:
    async with on_screen(varied(1), "d", "c", size=(100, 30)) as on:
        assert "there is no other GPU" in on.footer


async def test_large_chart_takes_the_screen() -> None:
    async with on_screen(varied(), "d", "z") as on:
        lines = on.lines
        assert "Memory used" not in on.text
        assert lines[-2].split()[0] == "-1m"
        await on.press("z")
        assert "Memory used" in on.text


async def test_of_many_gpus_the_highest_are_compared() -> None:
    devices = tuple(make_device(index=n, gpu_utilization_percent=n) for n in range(64))
    async with on_screen(make_snapshot(64, devices=devices, topology=None), "d", "a") as on:
        lines = on.lines
        place = next(n for n, line in enumerate(lines) if n > 2 and line.startswith(" GPU "))
        told = f"{lines[place]} {lines[place + 1]}".split()
        shown = [0, *range(57, 64)]
        values = [word for n in shown for word in (str(n), f"{n}%")]
        assert told[:24] == [*["GPU", "8", "of", "64,", "the", "highest", "by", "mean:"], *values]


THEME = load_theme(no_color=False, color_system=ColorSystem.TRUECOLOR)


def text(cells: int = 80, **overrides: Any) -> str:
    snapshot = make_snapshot(2)
    fields: dict[str, Any] = {
        "pid": 77,
        "start_ticks": 5,
        "username": "bob",
        "name": "python",
        "create_time": snapshot.taken_at.timestamp() - 7500,
        "is_used": False,
    }
    lease = Lease(uuid=gpu_uuid(1), index=1, **{**fields, **overrides})
    leased = make_snapshot(2, leases=(lease,))
    assert lease_lines(leased, leased.devices[0], THEME, cells) == []
    (line,) = lease_lines(leased, leased.devices[1], THEME, cells)
    assert cells_of(line) <= cells
    return "".join(segment.text for segment in line)


def test_who_since_when_and_whether_it_is_used() -> None:
    assert text() == " Leased by bob's python (PID 77) for 2h05m: not used"
    assert text(is_used=True).endswith(": used")
    assert text(is_used=None).endswith(": whether it is used cannot be seen")


def test_a_holder_that_cannot_be_named() -> None:
    unseen = text(pid=None, username=None, name=None, create_time=None)
    assert unseen.startswith(" Leased by a process of another PID namespace: ")
    ended = text(start_ticks=None, username=None, name=None, create_time=None)
    assert ended.startswith(" Leased by a child of an ended process: ")


@pytest.mark.parametrize("cells", [0, 1, 7, 40, 60])
def test_any_width(cells: int) -> None:
    text(cells)


@pytest.fixture(params=[False, True])
def without_plotext(request: pytest.FixtureRequest) -> Iterator[bool]:
    """Whether plotext cannot be imported by a process that has drawn no chart yet."""
    chart.load.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        if request.param:
            patch.setitem(sys.modules, "plotext", None)
        yield request.param
    chart.load.cache_clear()
    chart.load()


async def test_charts_are_drawn_once_plotext_is_loaded(without_plotext: bool) -> None:
    async with on_screen(varied(), "d") as on:
        awaited = "no charts: import of plotext halted" if without_plotext else "100%┼"
        deadline = time.monotonic() + 60
        while awaited not in on.text:
            assert time.monotonic() < deadline, on.text
            await on.pilot.pause()
