import re

from gpudash.tui.app import GpudashApp
from tests.factories import (
    make_device,
    make_process,
    make_process_device,
    make_snapshot,
)
from tests.tui.device_view import later, title, varied
from tests.tui.stage import HandFeed, screen_lines, text_of


async def test_metric_is_cycled_and_chosen_by_name() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied())
        await pilot.press("d", "tab")
        assert "Memory utilization" in title(app)
        await pilot.press("shift+tab", "shift+tab")
        assert "PCIe link generation" in title(app)
        await pilot.press("l", *"mem temp", "enter")
        await pilot.pause()
        assert "Memory temperature  70 °C" in title(app)


async def test_metric_that_begins_with_what_was_typed_is_chosen() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(devices=(make_device(throttled_sw_power_cap_percent=5.0),)))
        await pilot.press("d", "l", *"power", "enter")
        await pilot.pause()
        assert "Power usage" in title(app)


async def test_range_and_zoom() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied())
        await pilot.press("d")
        ranges = []
        for key in ("r", "r", "r", "plus", "plus", "plus", "minus"):
            ranges.append(title(app).split()[-1])
            await pilot.press(key)
        assert ranges == ["1m", "5m", "30m", "1m", "30s", "15s", "15s"]
        assert title(app).split()[-1] == "30s"
        assert "-30s" in text_of(app)


async def test_numbers_tell_the_past_of_the_chart() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        first = make_snapshot(1, devices=(make_device(gpu_utilization_percent=20),))
        feed.give(first)
        busy = (make_device(gpu_utilization_percent=90),)
        feed.give(later(first, 10, devices=busy))
        await pilot.press("d")
        await pilot.pause()
        assert "90 %   min 20%   mean" in title(app)
        assert "max 90%" in title(app)


async def test_pause_keeps_the_chart_where_it_was() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        first = varied(1)
        feed.give(first)
        feed.give(later(first, 5))
        await pilot.press("d", "p")
        await pilot.pause()
        before = screen_lines(app)[2:]
        assert "now" not in text_of(app)
        feed.give(later(first, 30, devices=(make_device(gpu_utilization_percent=99),)))
        await pilot.press("v", "v")
        await pilot.pause()
        assert screen_lines(app)[2:] == before


async def test_curves_of_several_gpus_are_told_apart_by_label() -> None:
    feed = HandFeed()
    app = GpudashApp(feed, no_color=True)
    shares = (make_process_device(index=0), make_process_device(index=3))
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(varied(processes=(make_process(devices=shares),), topology=None))
        await pilot.press("d", "5")
        await pilot.pause()
        legend = next(line for line in screen_lines(app)[3:] if line.startswith(" GPU "))
        assert legend.split() == ["GPU", "0", "0%", "5", "50%"]
        await pilot.press("o", "5")
        await pilot.pause()
        legend = next(line for line in screen_lines(app)[3:] if line.startswith(" GPU "))
        assert legend.split() == ["GPU", "0", "0%", "3", "30%"]
        assert any(line.rstrip().endswith(" 3") for line in screen_lines(app)[3:14])
        await pilot.press("a")
        await pilot.pause()
        assert "7 70%" in text_of(app)
        await pilot.press("a")
        await pilot.pause()
        assert not any(line.startswith(" GPU ") for line in screen_lines(app)[3:])


async def test_large_chart_takes_the_screen() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied())
        await pilot.press("d", "z")
        await pilot.pause()
        lines = screen_lines(app)
        assert "Memory used" not in text_of(app)
        assert lines[-2].split()[0] == "-1m"
        await pilot.press("z")
        await pilot.pause()
        assert "Memory used" in text_of(app)


async def test_close_up_names_the_values_that_occur() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied())
        await pilot.press("d", "5", "v")
        assert "close-up" in title(app)
        assert " 100%" not in screen_lines(app)[3]


async def test_of_many_gpus_the_highest_are_compared() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    devices = tuple(make_device(index=n, gpu_utilization_percent=n) for n in range(64))
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(64, devices=devices, topology=None))
        await pilot.press("d", "a")
        await pilot.pause()
        lines = screen_lines(app)
        place = next(n for n, line in enumerate(lines) if n > 2 and line.startswith(" GPU "))
        told = f"{lines[place]} {lines[place + 1]}".split()
        shown = [0, *range(57, 64)]
        values = [word for n in shown for word in (str(n), f"{n}%")]
        assert told[:21] == ["GPU", "highest", "8", "of", "64:", *values]


async def test_curves_of_its_processes_are_kept_of_all_or_told_to_be_none() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    shares = (make_process_device(index=0), make_process_device(index=3))
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(varied(processes=(make_process(devices=shares),), topology=None))
        await pilot.press("d", "a", "o")
        await pilot.pause()
        legend = next(line for line in screen_lines(app)[3:] if line.startswith(" GPU "))
        assert legend.split() == ["GPU", "0", "0%", "3", "30%"]
        await pilot.press("n", "o")
        await pilot.pause()
        assert "no process is on this GPU" in screen_lines(app)[-1]
        feed.give(varied(processes=(make_process(devices=shares[:1]),), topology=None))
        await pilot.press("b", "o")
        await pilot.pause()
        assert "its processes use no other GPU" in screen_lines(app)[-1]


async def test_heading_of_a_close_up_keeps_its_numbers_whole() -> None:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(varied(1))
        await pilot.press("d", "v")
        await pilot.pause()
        assert re.search(r"min \S+ +mean \S+ +max \d+\S* +close-up", title(app))
