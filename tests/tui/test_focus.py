from msgspec.structs import replace
from textual.events import MouseScrollDown

from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from gpudash.tui.views.device import DeviceView
from gpudash.tui.views.process import ProcessView
from gpudash.tui.views.view import View
from gpudash.tui.widgets.lines import WHEEL_LINES
from tests.factories import gpu_uuid, make_device
from tests.tui.stage import OnScreen, busy_snapshot, on_screen

REASON = "GPU 2 fell off the bus; " + "a reboot may bring it back, " * 4 + "sudo dmesg tells more"


def device(on: OnScreen) -> int:
    row = on.dashboard.devices.selected
    return row.device.index


def line_of(on: OnScreen, text: str) -> int:
    return next(y for y, line in enumerate(on.lines) if text in line)


async def test_tab_leads_to_the_gpus_and_enter_opens_one() -> None:
    async with on_screen(busy_snapshot(), size=(100, 30)) as on:
        process = on.selected
        await on.press("tab", "down", "down", "enter")
        assert isinstance(on.app.screen, DeviceView)
        assert on.app.screen.key == gpu_uuid(2)
        await on.press("q", "tab", "down", "up", "enter")
        assert isinstance(on.app.screen, ProcessView)
        assert on.selected == process


async def test_cursor_stays_on_its_gpu_when_another_one_goes() -> None:
    async with on_screen(busy_snapshot(), "tab", "end", "up", size=(100, 30)) as on:
        assert device(on) == 6
        left = tuple(make_device(index=n, uuid=gpu_uuid(n)) for n in (0, 3, 6, 7))
        on.feed.give(replace(busy_snapshot(), devices=left))
        assert device(on) == 6


async def test_no_process_is_aimed_at_while_the_gpus_have_the_focus() -> None:
    async with on_screen(busy_snapshot(), "tab", size=(100, 30)) as on:
        for key in ("K", "T", "space"):
            await on.press("down", key)
            assert not on.app.screen.is_modal
            assert not on.listing.tagged
            assert "Tab goes back to the processes" in on.lines[-1], key


async def test_keys_that_are_told_of_the_focus_are_those_in_force() -> None:
    keys = {"move.turn": ("f7",), "move.page_down": ("f8",)}
    async with on_screen(busy_snapshot(40, 64), "f7", "space", keys=keys, size=(40, 24)) as on:
        assert any("F7, F8 for the others" in line for line in on.lines)
        assert "F7 goes back to the" in "".join(on.lines[-2:])


async def test_first_click_selects_a_gpu_and_the_second_opens_it() -> None:
    async with on_screen(busy_snapshot(), size=(100, 30)) as on:
        y = line_of(on, " 5   ")
        await on.pilot.click(offset=(10, y))
        assert on.dashboard.focus == "devices"
        assert device(on) == 5
        await on.click(offset=(40, y))
        assert isinstance(on.app.screen, DeviceView)
        assert on.app.screen.key == gpu_uuid(5)


async def test_click_on_a_process_takes_the_focus_back() -> None:
    async with on_screen(busy_snapshot(), "tab", size=(100, 30)) as on:
        await on.click("#processes", offset=(10, 3))
        assert on.dashboard.focus == "processes"
        assert on.selected == 1002


async def test_wheel_over_the_processes_moves_them_whatever_has_the_focus() -> None:
    async with on_screen(busy_snapshot(), "tab", size=(100, 30)) as on:
        await on.pilot._post_mouse_events([MouseScrollDown] * 5, "#processes")
        await on.pilot.pause()
        assert on.dashboard.focus == "devices"
        assert device(on) == 0
        assert on.selected == 1000 + 5 * WHEEL_LINES
        assert f"job{5 * WHEEL_LINES}.py" in on.text


async def test_cells_are_gone_through_in_both_directions() -> None:
    async with on_screen(busy_snapshot(40, 64), "tab", "right", "down") as on:
        assert device(on) == on.dashboard.layout.device_lines + 1
        await on.press("left", "up")
        assert device(on) == 0


async def test_cursor_is_in_view_where_not_all_gpus_are() -> None:
    async with on_screen(busy_snapshot(40, 64), "tab", "end", size=(40, 24)) as on:
        text = on.text
        assert device(on) == 63
        assert "of 64" in text
        assert " 63 " in text


async def test_part_in_focus_can_have_all_the_room() -> None:
    async with on_screen(busy_snapshot(40), "z") as on:
        assert " z all " in on.lines[-1]
        assert sum("job" in line for line in on.lines) == 21
        await on.press("tab")
        assert sum("job" in line for line in on.lines) < 21
        await on.press("z", "tab")
        assert line_of(on, "STATUS") < line_of(on, "PID")


async def test_whole_reason_of_a_lost_gpu_is_reported_below_it() -> None:
    lost = Device(index=2, state="lost", fault=Fault(source="nvml", message=clean(REASON)))
    async with on_screen(busy_snapshot()) as on:
        on.feed.give(replace(busy_snapshot(2), devices=(make_device(), lost)))
        await on.press("tab", "down")
        text = " ".join(line.strip() for line in on.lines[-4:])
        assert REASON in text
        await on.press("up")
        assert "filter" in on.lines[-1]


async def test_nothing_reaches_a_process_that_is_not_shown() -> None:
    async with on_screen(busy_snapshot(), size=(100, 30)) as on:
        for view in ("u", "m", "d"):
            await on.press(view)
            assert isinstance(on.app.screen, View)
            assert not on.app.screen.may_signal
            for key in ("K", "space", "f9", "space", "y"):
                await on.press(key)
                assert isinstance(on.app.screen, View), (view, key)
                assert not on.listing.tagged
                assert on.app.clipboard == ""
                assert ("needs a process: select one" in on.footer) is (key != "space")
            await on.press("escape")
