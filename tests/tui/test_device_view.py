from typing import Any

import pytest

from gpudash.analysis.history.metrics import DEVICE_METRICS
from gpudash.model.device import device_fields
from gpudash.model.fault import Fault
from gpudash.model.fields import Group
from gpudash.model.text import clean
from gpudash.tui.app import GpudashApp
from gpudash.tui.draw.line import cells_of
from gpudash.tui.theme import PLAIN
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.device.details import Details, missing, sheet
from tests.factories import (
    GIB,
    gpu_uuid,
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.tui.device_view import later, place_of, title, varied
from tests.tui.stage import HandFeed, screen_lines, text_of


async def test_shows_the_gpu_of_the_selected_process() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    share = make_process_device(index=2)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied(processes=(make_process(devices=(share,)),)))
        await pilot.press("d")
        await pilot.pause()
        lines = screen_lines(app)
        assert "[2]" in lines[1]
        assert "H100 80GB HBM3" in lines[1]
        assert "GPU utilization  20 %" in lines[2]
        assert lines[3].startswith(" 100%")
        assert "Utilization" in text_of(app)
        assert "Memory used" in text_of(app)
        assert "back" in lines[-1]


async def test_every_metric_can_be_scrolled_to_and_is_explained() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(140, 40)) as pilot:
        feed.give(varied())
        await pilot.press("d", "x")
        seen = ""
        for _page in range(12):
            seen += text_of(app)
            await pilot.press("pagedown")
            await pilot.pause()
        seen += text_of(app)
        for field in device_fields().values():
            if field.name not in ("fault", "parent_uuid"):
                assert field.label[:24] in seen
                assert field.help.split()[-1] in seen


async def test_keys_turn_to_other_gpus_and_around() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied(3))
        await pilot.press("d", "right")
        assert "[1]" in screen_lines(app)[1]
        await pilot.press("n", "n")
        assert "[0]" in screen_lines(app)[1]
        await pilot.press("left")
        assert "[2]" in screen_lines(app)[1]
        assert "GPU utilization  20 %" in title(app)


async def test_click_turns_to_a_gpu_and_charts_a_metric() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(varied())
        await pilot.press("d")
        await pilot.pause()
        await pilot.click(offset=place_of(app, " 5 "))
        await pilot.pause()
        assert "[5]" in screen_lines(app)[1]
        await pilot.click(offset=place_of(app, "Power usage"))
        await pilot.pause()
        assert "Power usage  412.3 W" in title(app)
        await pilot.click(offset=place_of(app, "Enforced power limit"))
        await pilot.pause()
        assert "Power usage" in title(app)


async def test_click_finds_the_metric_also_when_scrolled() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied())
        await pilot.press("d", "j", "j", "j", "j", "j")
        await pilot.pause()
        await pilot.click(offset=place_of(app, "SM clock"))
        await pilot.pause()
        assert "SM clock  1755 MHz" in title(app)


@pytest.mark.parametrize(
    ("state", "said"), [("lost", "LOST: fell off the bus"), ("asleep", "asleep: Powered down")]
)
async def test_fault_is_told_in_words(state: Any, said: str) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    fault = Fault(source="nvml", message=clean("fell off the bus"))
    gone = make_device(state=state, fault=fault if state == "lost" else None)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(1, devices=(gone,), processes=()))
        await pilot.press("d")
        await pilot.pause()
        assert said in screen_lines(app)[2]


async def test_gpu_that_vanishes_gives_way_to_the_one_in_its_place() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        first = varied(3)
        feed.give(first)
        await pilot.press("d", "left")
        feed.give(later(first, 1, devices=first.devices[:2]))
        await pilot.pause()
        assert "[1]" in screen_lines(app)[1]
        feed.give(later(first, 2, devices=(), processes=()))
        await pilot.pause()
        assert "There is no GPU" in text_of(app)
        await pilot.press("right", "tab", "l", "a", "o", "0", "z", "x", "r")
        await pilot.click(offset=(10, 5))
        assert "There is no GPU" in text_of(app)


async def test_mig_instance_is_a_device_of_its_own() -> None:
    parent = make_device(index=0, mig_mode=True, gpu_utilization_percent=None)
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
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(100, 40)) as pilot:
        feed.give(make_snapshot(1, devices=(parent, part), processes=(holder,)))
        await pilot.press("d", "right")
        await pilot.pause()
        assert "[0:1]" in screen_lines(app)[1]
        assert "MIG 3g.40gb" in screen_lines(app)[1]
        assert "Memory used  5.0 GiB" in title(app)
        assert "train.py" in text_of(app)


async def test_hostile_names_are_harmless() -> None:
    hostile = clean("\x1b]0;owned\x07[/x]\u202e")
    feed = HandFeed()
    app = GpudashApp(feed)
    process = make_process(command_line=(hostile,), username=hostile)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(make_snapshot(1, devices=(make_device(name=hostile),), processes=(process,)))
        await pilot.press("d", "l", "escape")
        await pilot.pause()
        assert "\\x1b]0;owned" in text_of(app)
        assert not {"\x1b", "\x07", "\u202e"} & set(text_of(app))


@pytest.mark.parametrize("keys", [(), ("a", "z"), ("x",)])
async def test_any_size_and_back(keys: tuple[str, ...]) -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(200, 60)) as pilot:
        feed.give(varied(64))
        await pilot.press("d", *keys)
        for size in ((40, 10), (10, 3), (1, 1), (300, 100), (80, 24), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert isinstance(app.screen, DeviceView)
            assert {len(line) for line in screen_lines(app)} == {size[0]}
        assert "[0]" in text_of(app)
        await pilot.press(*["right"] * 60)
        await pilot.pause()
        assert "[60]" in screen_lines(app)[1]


async def test_unchanged_sample_changes_no_line_but_the_clock() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        first = varied()
        feed.give(first)
        await pilot.press("d")
        feed.give(later(first, 60))
        feed.give(later(first, 120))
        await pilot.pause()
        before = screen_lines(app)
        feed.give(later(first, 121))
        await pilot.pause()
        assert screen_lines(app)[12:] == before[12:]


@pytest.mark.parametrize("cells", [1, 20, 38, 80, 120, 200])
@pytest.mark.parametrize("explained", [False, True])
def test_each_present_metric_stands_once_at_any_width(cells: int, explained: bool) -> None:
    details = Details(make_device(), "power_usage_mw", DEVICE_METRICS, explained)
    drawn = sheet(details, cells, PLAIN)
    assert len(drawn.lines) == len(drawn.places)
    assert all(cells_of(line) <= max(cells, 1) for line in drawn.lines)
    text = "\n".join("".join(segment.text for segment in line) for line in drawn.lines)
    if cells >= 80:
        assert text.count("Memory temperature") == 1
        assert text.count("412.3 W") == 1
        assert gpu_uuid(0) in text
    missed = missing(details, cells, PLAIN)
    assert bool(missed) is not explained


def test_each_group_that_a_device_has_is_named() -> None:
    details = Details(make_device(), "", (), True)
    lines = sheet(details, 200, PLAIN).lines
    text = "\n".join("".join(segment.text for segment in line) for line in lines)
    groups = {field.group for field in device_fields().values()}
    assert len(groups) == 12
    assert Group.PROCESS not in groups
    for group in groups:
        assert f" {group.value} " in text
