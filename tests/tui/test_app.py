import re

import pytest
from textual.events import Key

from gpudash.feed.protocol import FeedState
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import LastProcess, LastRead
from gpudash.model.snapshot import Finding, FindingLevel
from gpudash.model.text import clean
from tests.factories import GIB, gpu_uuid, make_device, make_snapshot
from tests.feed.hand import HandFeed
from tests.tui.stage import busy_snapshot, ended, on_screen


async def test_snapshot_that_waits_in_the_feed_is_shown_at_once() -> None:
    feed = HandFeed()
    feed.latest = busy_snapshot()
    async with on_screen(feed=feed) as on:
        assert any("job0.py" in line for line in on.lines)


async def test_list_in_which_nobody_chose_stays_at_its_top() -> None:
    async with on_screen(busy_snapshot(), size=(100, 20)) as on:
        assert on.selected == 1000
        await on.press("r")
        shown = next(line for line in on.lines if "PID" in line)
        assert re.search(r" 1-\d+ of 20 ", shown)
        for key in ("K", "enter", "y"):
            await on.press(key)
            assert "no process is selected" in on.lines[-1]
        await on.press("j")
        assert on.selected == 1019
        await on.press("r")
        assert on.selected == 1019


async def test_movement_keys_stay_within_the_list() -> None:
    async with on_screen(busy_snapshot(40), "k") as on:
        assert on.selected == 1000
        await on.press("pagedown")
        page = on.app.front.panels.page
        assert on.selected == 1000 + page
        await on.press("end")
        assert on.selected == 1039
        assert any("job39.py" in line for line in on.lines)
        await on.press("j")
        assert on.selected == 1039
        await on.press("home")
        assert on.selected == 1000


async def test_sort_keys_walk_the_columns_and_reverse() -> None:
    async with on_screen(busy_snapshot(), size=(120, 40)) as on:
        listing = on.listing
        assert listing.sort_key == "gpu_memory"
        keys = on.app.front.panels.process_table.grid.sortable
        await on.press("full_stop")
        assert listing.sort_key == keys[keys.index("gpu_memory") + 1]
        await on.press("comma", "comma")
        assert listing.sort_key == keys[keys.index("gpu_memory") - 1]
        await on.press("full_stop", "r")
        assert [row.process.pid for row in listing.rows][:2] == [1019, 1018]


async def test_click_on_a_heading_sorts_and_on_a_row_selects() -> None:
    async with on_screen(busy_snapshot(), size=(120, 40)) as on:
        heading = next(line for line in on.lines if "COMMAND" in line)
        await on.pilot.click("#processes", offset=(heading.index("PID"), 0))
        assert on.listing.sort_key == "pid"
        top = on.app.front.panels.process_table.top
        await on.click("#processes", offset=(10, 3))
        assert on.listing.cursor == top + 2


async def test_collector_that_cannot_start_ends_the_screen_with_its_status() -> None:
    async with on_screen() as on:
        on.feed.exit_status, on.feed.error = 9, "gpudash: the driver is not loaded; try --demo"
        on.feed.change(FeedState.RESTARTING)
        await ended(on.app)
    assert on.app.return_code == 9
    assert on.app.failure == on.feed.error


async def test_gpu_that_does_not_answer_shows_who_held_it_and_when() -> None:
    holder = LastProcess(pid=77, username=clean("bob"), used_gpu_memory_bytes=GIB)
    last = LastRead(
        age_seconds=9, memory_used_bytes=GIB, memory_total_bytes=80 * GIB, processes=(holder,)
    )
    silent = make_device(state="not-answering", last_read=last)
    async with on_screen(make_snapshot(1, devices=(silent,)), size=(120, 40)) as on:
        assert re.search(r"NO ANSWER +1.0G/80.0G 9s ago", on.text)
        await on.press("d")
        text = " ".join(on.text.split())
        assert "9s ago: 1.0G/80.0G in use, by bob - (PID 77, 1.0G)" in text


async def test_no_process_and_no_device_say_so() -> None:
    async with on_screen(make_snapshot(0), "K", "j", "end", "comma") as on:
        text = on.text
        assert "No running processes found" in text
        assert "No GPUs" in text
        assert "gpudash doctor shows why" in text


async def test_nobody_is_not_said_where_nobody_could_be_listed() -> None:
    fault = Fault(source="processes", message=clean("GPU 0: processes unknown"), uuid=gpu_uuid(0))
    async with on_screen(make_snapshot(1, processes=(), errors=(fault,)), size=(120, 50)) as on:
        for key, words in (
            ("j", "Which processes run is not known"),
            ("d", "Its process list is unavailable"),
            ("u", "Which processes run is not known"),
        ):
            await on.press(key)
            assert words in on.text
            if key != "j":
                await on.press("escape")


async def test_processes_follow_at_once_where_there_is_nothing_to_chart() -> None:
    async with on_screen(
        make_snapshot(devices=(Device(index=0, state="asleep"),), processes=()), size=(120, 40)
    ) as on:
        lines = on.lines
        gpu = next(y for y, line in enumerate(lines) if "asleep" in line and "GPU" not in line)
        assert "GPU 0 is asleep" in lines[gpu + 1]
        assert "GPU-MEM" in lines[gpu + 4]
        assert "No running processes found" in lines[gpu + 5]


FINDINGS: tuple[FindingLevel, ...] = ("warn", "info", "info", "info")


@pytest.mark.parametrize(
    ("levels", "height", "shown", "more"),
    [
        (FINDINGS, 24, ["found 0"], "+3 more: w"),
        (FINDINGS, 40, ["found 0", "found 1", "found 2"], "+1 more: w"),
        (FINDINGS[1:], 24, ["found 0"], "+2 more: w"),
        (FINDINGS[2:], 40, ["found 0", "found 1"], ""),
        ((), 40, ["No problem found"], ""),
    ],
)
async def test_remarks_fill_the_lines_of_findings_and_are_counted(
    levels: tuple[FindingLevel, ...], height: int, shown: list[str], more: str
) -> None:
    found = tuple(
        Finding(rule="x", level=level, sentence=clean(f"found {number}"))
        for number, level in enumerate(levels)
    )
    async with on_screen(make_snapshot(findings=found), size=(100, height)) as on:
        assert re.findall("found .|No problem found", on.text) == shown
        assert re.findall(r"\+\d+ more: w", on.text) == [more] * bool(more)


@pytest.mark.parametrize("key", ["ctrl+c", "f10"])
async def test_quits_with_each_key(key: str) -> None:
    async with on_screen() as on:
        on.app.post_message(Key(key, None))
        await ended(on.app)
    assert on.app.return_code == 0
    assert on.feed.stopped
