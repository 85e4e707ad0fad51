import random
import re

import pytest
from textual.events import Key

from gpudash.feed.protocol import FeedState
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.process import LastProcess, LastRead
from gpudash.model.text import clean
from tests.factories import GIB, gpu_uuid, make_device, make_host, make_snapshot
from tests.tui.stage import (
    HandFeed,
    busy_snapshot,
    ended,
    host_app,
    listing_of,
    process_of,
    screen_lines,
    selected,
    text_of,
)


async def test_shows_all_devices_and_eight_processes_at_80x24() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        await pilot.pause()
        lines = screen_lines(app)
        assert "node7" in lines[0]
        assert sum("87%" in line and "H100" in line for line in lines) == 8
        assert sum("job" in line for line in lines) >= 8
        assert "quit" in lines[-1]


async def test_snapshot_that_waits_in_the_feed_is_shown_at_once() -> None:
    feed = HandFeed()
    feed.latest = busy_snapshot()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert any("job0.py" in line for line in screen_lines(app))


async def test_selection_follows_its_process_through_a_new_order() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("j", "j", "j")
        assert selected(app) == 1003
        shuffled = [process_of(number) for number in range(20)]
        random.Random(1).shuffle(shuffled)
        feed.give(make_snapshot(8, processes=tuple(shuffled)))
        await pilot.press("r")
        assert selected(app) == 1003
        await pilot.press("full_stop")
        assert selected(app) == 1003


async def test_list_in_which_nobody_chose_stays_at_its_top() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 20)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        assert selected(app) == 1000
        await pilot.press("r")
        shown = next(line for line in screen_lines(app) if "PID" in line)
        assert re.search(r" 1-\d+ of 20 ", shown)
        for key in ("K", "enter", "y"):
            await pilot.press(key)
            assert "no process is selected" in screen_lines(app)[-1]
        await pilot.press("j")
        assert selected(app) == 1019
        await pilot.press("r")
        assert selected(app) == 1019


async def test_selection_takes_the_next_row_when_its_process_ends() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot())
        await pilot.press("j", "j")
        rest = tuple(process_of(number) for number in range(20) if number != 2)
        feed.give(make_snapshot(8, processes=rest))
        assert selected(app) == 1003


async def test_reused_pid_is_not_followed() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(100, 30)) as pilot:
        feed.give(busy_snapshot(3))
        await pilot.press("end")
        assert selected(app) == 1002
        successor = process_of(0, pid=1002, create_time=1.0)
        feed.give(make_snapshot(4, processes=(successor, process_of(1), process_of(3))))
        assert selected(app) == 1003


async def test_movement_keys_stay_within_the_list() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(40))
        await pilot.press("k")
        assert selected(app) == 1000
        await pilot.press("pagedown")
        page = app.front.panels.page
        assert selected(app) == 1000 + page
        await pilot.press("end")
        assert selected(app) == 1039
        assert any("job39.py" in line for line in screen_lines(app))
        await pilot.press("j")
        assert selected(app) == 1039
        await pilot.press("home")
        assert selected(app) == 1000


async def test_pause_freezes_the_view_and_catches_up() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot(5))
        await pilot.press("p")
        await pilot.pause()
        assert "PAUSED" in screen_lines(app)[0]
        assert "p live" in screen_lines(app)[-1]
        feed.give(make_snapshot(8, processes=(process_of(9),)))
        await pilot.pause()
        assert any("job4.py" in line for line in screen_lines(app))
        await pilot.press("p")
        await pilot.pause()
        lines = screen_lines(app)
        assert "PAUSED" not in lines[0]
        assert "p live" not in lines[-1]
        assert any("job9.py" in line for line in lines)
        assert not any("job4.py" in line for line in lines)


async def test_sort_keys_walk_the_columns_and_reverse() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        listing = listing_of(app)
        assert listing.sort_key == "gpu_memory"
        keys = app.front.panels.process_table.sortable
        await pilot.press("full_stop")
        assert listing.sort_key == keys[keys.index("gpu_memory") + 1]
        await pilot.press("comma", "comma")
        assert listing.sort_key == keys[keys.index("gpu_memory") - 1]
        await pilot.press("full_stop", "r")
        assert [row.process.pid for row in listing.rows][:2] == [1019, 1018]


async def test_click_on_a_heading_sorts_and_on_a_row_selects() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        await pilot.pause()
        heading = next(line for line in screen_lines(app) if "COMMAND" in line)
        await pilot.click("#processes", offset=(heading.index("PID"), 0))
        assert listing_of(app).sort_key == "pid"
        top = app.front.panels.process_table.top
        await pilot.click("#processes", offset=(10, 3))
        await pilot.pause()
        assert listing_of(app).cursor == top + 2


async def test_click_on_the_footer_starts_its_action() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 24)) as pilot:
        feed.give(busy_snapshot())
        await pilot.pause()
        await pilot.click("#footer", offset=(screen_lines(app)[-1].index("pause"), 0))
        await pilot.pause()
        assert not app.front.dashboard.time.is_live


async def test_silent_collector_marks_the_screen_stale_with_its_age() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(busy_snapshot())
        feed.change(FeedState.STALE, 14)
        await pilot.pause()
        lines = screen_lines(app)
        assert "STALE 14s" in lines[0]
        assert any("job0.py" in line for line in lines)
        feed.change(FeedState.LIVE)
        feed.give(busy_snapshot())
        await pilot.pause()
        assert "STALE" not in screen_lines(app)[0]


async def test_collector_that_cannot_start_ends_the_screen_with_its_status() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)):
        feed.exit_status, feed.error = 9, "gpudash: the driver is not loaded; try --demo"
        feed.change(FeedState.RESTARTING)
        await ended(app)
    assert app.return_code == 9
    assert app.failure == feed.error


async def test_collector_that_dies_later_leaves_the_screen_and_says_why() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 24)) as pilot:
        feed.give(busy_snapshot())
        feed.exit_status, feed.error = 9, "gpudash: the driver is not loaded"
        feed.change(FeedState.RESTARTING, 3)
        await pilot.pause()
        lines = screen_lines(app)
        assert "NO COLLECTOR 3s" in lines[0]
        assert "the driver is not loaded" in lines[-1]
        assert app.is_running


async def test_lost_device_keeps_its_row_and_says_why() -> None:
    fault = Fault(source="nvml", message="the GPU fell off the bus", code=15)
    lost = make_device(index=1, state="lost", fault=fault, gpu_utilization_percent=None)
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(1, devices=(make_device(), lost)))
        await pilot.pause()
        await pilot.pause()
        row = next(line for line in screen_lines(app) if "LOST" in line and "H100" in line)
        assert "fell off the bus" in row


async def test_gpu_that_does_not_answer_shows_who_held_it_and_when() -> None:
    holder = LastProcess(pid=77, username=clean("bob"), used_gpu_memory_bytes=GIB)
    last = LastRead(
        age_seconds=9, memory_used_bytes=GIB, memory_total_bytes=80 * GIB, processes=(holder,)
    )
    silent = make_device(state="not-answering", last_read=last)
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(make_snapshot(1, devices=(silent,)))
        await pilot.pause()
        assert re.search(r"NO ANSWER +1.0G/80.0G 9s ago", text_of(app))
        await pilot.press("d")
        await pilot.pause()
        text = " ".join(text_of(app).split())
        assert "9s ago: 1.0G/80.0G in use, by bob - (PID 77, 1.0G)" in text


async def test_no_process_and_no_device_say_so() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)) as pilot:
        feed.give(make_snapshot(0))
        await pilot.press("K", "j", "end", "comma")
        text = "\n".join(screen_lines(app))
        assert "No running processes found" in text
        assert "No GPUs" in text
        assert "gpudash doctor finds out why" in text


async def test_nobody_is_not_said_where_nobody_could_be_listed() -> None:
    fault = Fault(source="processes", message=clean("GPU 0: processes unknown"), uuid=gpu_uuid(0))
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 50)) as pilot:
        feed.give(make_snapshot(1, processes=(), errors=(fault,)))
        for key, words in (
            ("j", "Which processes run is not known"),
            ("d", "Its process list is unavailable"),
            ("u", "Which processes run is not known"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert words in "\n".join(screen_lines(app))
            if key != "j":
                await pilot.press("escape")


async def test_processes_follow_at_once_where_there_is_nothing_to_chart() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 40)) as pilot:
        feed.give(make_snapshot(devices=(Device(index=0, state="asleep"),), processes=()))
        for _ in range(2):
            await pilot.pause()
        lines = screen_lines(app)
        gpu = next(y for y, line in enumerate(lines) if "asleep" in line and "GPU" not in line)
        assert "No problem found" in lines[gpu + 1]
        assert "GPU-MEM" in lines[gpu + 4]
        assert "No running processes found" in lines[gpu + 5]


async def test_nothing_is_claimed_before_the_first_snapshot() -> None:
    app = host_app(HandFeed())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        lines = screen_lines(app)
        assert "reading GPUs" in lines[-1]
        assert not any("No running" in line or "GPU-MEM" in line for line in lines)


async def test_kill_is_refused_on_a_simulated_host() -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(120, 24)) as pilot:
        feed.give(busy_snapshot(host=make_host(simulated=True)))
        await pilot.press("K")
        await pilot.pause()
        shown = "\n".join(screen_lines(app))
        assert "simulated" in shown
        assert "Close" in shown


async def test_help_lists_every_key_and_closes() -> None:
    app = host_app(HandFeed())
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("h")
        await pilot.pause()
        text = "\n".join(screen_lines(app))
        assert "go to the previous process or GPU" in text
        await pilot.press("q")
        await pilot.pause()
        assert "go to the previous process or GPU" not in "\n".join(screen_lines(app))
        assert app.is_running


@pytest.mark.parametrize("key", ["q", "ctrl+c", "f10"])
async def test_quits_with_each_key(key: str) -> None:
    feed = HandFeed()
    app = host_app(feed)
    async with app.run_test(size=(80, 24)):
        app.post_message(Key(key, None))
        await ended(app)
    assert app.return_code == 0
    assert feed.stopped
