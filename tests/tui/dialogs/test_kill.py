import math
import os
import re
import signal
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest
from textual.events import Key

from gpudash.model.snapshot import Snapshot
from gpudash.tui.dialogs.choose import ChooseScreen
from gpudash.tui.link import FrameLimiter
from tests.actions.kill.family import Family
from tests.factories import make_host
from tests.holders import sleep_as
from tests.tui.kill_stage import Start, host_of, process_for, stage
from tests.tui.stage import process_of
from tests.waiting import LIMIT_SECONDS, child_named, child_of, until


async def test_the_question_says_all_that_is_known(victim: Any) -> None:
    async with stage() as on:
        line = ("python", "train.py", "--token", "hunter2")
        process = process_for(victim.pid, command_line=line)
        await on.ask(process)
        for text in (f"Kill PID {victim.pid}?", "alice", "2.0 GiB on GPU 0-1"):
            assert text in on.text
        place = on.app.screen.query_one("#question").region
        lines = on.text.splitlines()[place.y : place.bottom]
        box = "\n".join(line[place.x : place.right] for line in lines)
        assert "--token '***'" in box
        assert "hunter2" not in box
        await on.shows("no children")


async def test_its_age_is_that_of_the_table_unless_that_is_of_the_past(victim: Any) -> None:
    process = process_for(victim.pid)

    def after(seconds: float) -> Snapshot:
        born = process.create_time or 0
        return host_of(process, taken_at=datetime.fromtimestamp(born + seconds, timezone.utc))

    async with stage((120, 50)) as on:
        await on.ask(process)
        for seconds, age in ((59, "59s"), (3600, "1h00m")):
            on.feed.give(after(seconds))
            await on.shows(f", started {age} ago,")
            assert re.search(rf"^ *{victim.pid} .* {age} .*sleep 600", on.text, re.MULTILINE)
        await on.press("n", "p")
        on.feed.give(after(7200))
        await on.press("K")
        await on.shows(", started 2h00m ago,")
        assert re.search(rf"^ *{victim.pid} .* 1h00m .*sleep 600", on.text, re.MULTILINE)
        await on.press("n")


async def test_the_dialog_stays_with_its_process_when_the_list_changes(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        on.feed.give(host_of(process_of(1)))
        assert str(victim.pid) in on.text
        await on.press("y")
        assert victim.wait(LIMIT_SECONDS) == -9


async def test_a_long_command_scrolls_to_its_end_by_keys_and_wheel(victim: Any) -> None:
    line = ("python", *(f"--option-{n}" for n in range(400)))
    async with stage((80, 24)) as on:
        await on.ask(process_for(victim.pid, command_line=line))
        assert re.search(r"▼ \d+ more", on.text)
        assert "--option-399" not in on.text
        for _ in range(30):
            await on.press("pagedown")
        assert "--option-399" in on.text
        assert re.search(r"▲ \d+ more", on.text)
        assert "Kill  y" in on.text
        await on.press("up", "k")
        assert "--option-399" not in on.text
        box = on.app.screen.query_one("#body")
        await on.pilot._post_mouse_events([_wheel()], box)
        await on.shows("--option-399")


def _wheel() -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown


@pytest.mark.parametrize(("size", "mark"), [((24, 8), "y ▼"), ((44, 14), "more")])
async def test_what_is_out_of_view_is_marked_on_small_terminals(
    victim: Any, size: tuple[int, int], mark: str
) -> None:
    command = ("python", *(f"--argument{n}=value" for n in range(40)))
    async with stage(size) as on:
        await on.ask(process_for(victim.pid, command_line=command))
        await on.shows(mark)
        assert size == (24, 8) or "PgDn scroll" in on.lines[-1]
        await on.press("n")


async def test_what_cannot_be_read_is_not_answered(victim: Any) -> None:
    async with stage() as on:
        screen = await on.ask(process_for(victim.pid))
        await on.press("tab")
        for size in ((23, 24), (60, 2), (1, 1)):
            await on.pilot.resize_terminal(*size)
            await on.until(lambda size=size: on.app.size == size and "Kill" not in on.text)
            await on.press("y", "y", "right", "down", "s", "t", "tab", "y")
            assert on.app.screen is screen, size
            if size[0] > 8 and size[1] > 1:
                assert "too small" in " ".join(on.text.split()), size
            await on.pilot.resize_terminal(120, 36)
            await on.shows("Kill PID ")
            assert victim.poll() is None, size
        await on.pilot.resize_terminal(10, 3)
        await on.until(lambda: "too small" in on.text)
        await on.press("tab", "enter")
        await on.closed()
        assert victim.poll() is None


READABLE = [(26, 5), (30, 7), (40, 14), (80, 3), (140, 40)]
UNREADABLE = [(23, 30), (80, 2), (8, 8)]


async def test_what_is_answered_is_all_on_the_terminal(start: Start) -> None:
    parent = start("sh", "-c", "sleep 600 & echo; wait")
    parent.stdout.readline()
    child = child_of(parent.pid)
    async with stage() as on:
        line = ("python", *(f"--option-{n}" for n in range(90)))
        screen = await on.ask(process_for(parent.pid, command_line=line))
        await on.shows("with the children")
        await on.press("t")
        parts = f"Kill PID {parent.pid} and its child?", "[Cancel n]", "Kill y"
        for size in (*READABLE, *UNREADABLE):
            await on.pilot.resize_terminal(*size)
            await on.until(lambda size=size: on.app.size == size)
            await on.pilot.pause()
            words = " ".join(on.text.replace("│", "").split())
            seen = all(part in words for part in parts)
            assert seen is (size in READABLE), (size, on.text)
            assert screen.check_action("answer", ()) is seen
        await on.press("escape")
    os.kill(child, signal.SIGKILL)


async def test_the_chosen_signal_and_the_tree_are_in_view_where_there_is_room(start: Start) -> None:
    parent = start("sh", "-c", "sleep 600 & echo; wait")
    parent.stdout.readline()
    child = child_of(parent.pid)
    async with stage((40, 12)) as on:
        await on.ask(process_for(parent.pid))
        await on.shows("[KILL 9: destroy]", "[ ] with the children")
        await on.press("s", "6", "4", "enter")
        await on.until(lambda: "64: real-time]" in " ".join(on.text.split()))
        await on.press("escape")
    os.kill(child, signal.SIGKILL)


async def test_cancel_is_the_default_and_has_keys(victim: Any) -> None:
    async with stage() as on:
        for key in ("escape", "n", "q", "enter"):
            await on.ask(process_for(victim.pid))
            await on.press(key)
            await on.closed()
            assert victim.poll() is None, key


async def test_enter_acts_only_from_the_button_that_acts(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.press("tab", "enter")
        await on.reports("killed")
        assert victim.wait(LIMIT_SECONDS) == -9


async def test_left_and_right_move_between_the_buttons(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        for key, text in (("left", "[Cancel  n]"), ("right", "[Kill  y]"), ("right", "[Kill  y]")):
            await on.press(key)
            await on.shows(text, "[KILL 9: destroy]")
        await on.press("left", "enter")
        await on.closed()
        assert victim.poll() is None


async def test_keys_and_clicks_that_come_too_early_do_not_answer(victim: Any) -> None:
    async with stage(guard_seconds=3600.0) as on:
        screen = await on.ask(process_for(victim.pid))
        await on.shows("Kill  y")
        await on.press("y", "n", "tab", "enter")
        await on.click_on("Kill  y")
        assert on.app.screen is screen
        assert victim.poll() is None


async def test_a_key_that_came_too_early_is_not_followed_by_one_that_counts(victim: Any) -> None:
    async with stage(guard_seconds=1.0) as on:
        screen = await on.ask(process_for(victim.pid))
        while screen.obeys_from == math.inf:
            await on.pilot.pause()
        asked = screen.obeys_from - 1.0
        for key, after in (("t", 0.9), ("y", 1.8), ("y", 2.7), ("n", 3.0)):
            event = Key(key, key)
            event.time = asked + after
            on.app.post_message(event)
        await on.pilot.pause()
        assert on.app.screen is screen
        assert screen.obeys_from == pytest.approx(asked + 3.7)
        assert victim.poll() is None


async def test_keys_do_not_answer_what_has_not_reached_the_terminal(victim: Any) -> None:
    async with stage(captured=True) as on:
        await on.give(host_of(process_for(victim.pid)))
        on.driver.limiter = FrameLimiter(burst=0.0, per_second=1e-6)
        await on.press("K")
        await on.shows("Kill  y")
        screen = on.app.screen
        await on.press("y", "n", "tab", "enter")
        assert on.app.screen is screen
        on.driver.limiter = FrameLimiter(burst=1e9)
        on.driver.send()
        assert await on.asked() is screen
        await on.press("y")
        assert victim.wait(20) == -9


async def test_a_key_that_was_typed_too_early_does_not_answer_however_late_it_comes(
    victim: Any,
) -> None:
    async with stage() as on:
        early = [Key(key, key) for key in ("tab", "enter", "y", "y", "n")]
        screen = await on.ask(process_for(victim.pid))
        for event in early:
            on.app.post_message(event)
        await on.press("pagedown")
        assert on.app.screen is screen
        assert "[Cancel  n]" in on.text
        assert victim.poll() is None
        await on.press("n")
        await on.closed()


async def test_each_key_presets_its_signal(start: Start) -> None:
    async with stage() as on:
        for key, verb, status in (
            ("T", "Terminate", -15),
            ("I", "Interrupt", -2),
            ("f9", "Kill", -9),
        ):
            victim = start()
            await on.ask(process_for(victim.pid), key=key)
            assert f"{verb} PID {victim.pid}?" in on.text
            await on.click_on(f"{verb}  y")
            assert victim.wait(LIMIT_SECONDS) == status
            await on.closed()


async def test_signals_can_be_cycled_clicked_and_named(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.press("down")
        await on.shows("[TERM 15: terminate]", "Left Right button  Up Down signal")
        await on.press("up", "up")
        await on.shows("[KILL 9: destroy]")
        await on.press("s", "6", "4", "enter", "down")
        await on.shows("64: real-time]")
        await on.click_on(" HUP ")
        await on.shows(f"Send SIGHUP to PID {victim.pid}?")
        await on.press("s")
        await on.until(lambda: isinstance(on.app.screen, ChooseScreen))
        await on.press("1", "2", "enter")
        await on.shows(f"Send SIGUSR2 to PID {victim.pid}?")
        await on.press("y")
        assert victim.wait(LIMIT_SECONDS) == -12


async def test_a_signal_that_does_not_end_is_reported_as_sent(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.click_on(" STOP ")
        await on.shows(f"Pause PID {victim.pid}?")
        await on.press("y")
        await on.reports(f"SIGSTOP sent to {victim.pid} (alice)")
        until(lambda: psutil.Process(victim.pid).status() == psutil.STATUS_STOPPED)


async def test_what_is_no_plain_job_is_asked_about_once_more(victim: Any) -> None:
    async with stage() as on:
        screen = await on.ask(process_for(victim.pid, name="nv-fabricmanager"))
        assert "it runs the NVLink fabric" in on.text
        held = Key("y", "y")
        await on.press("y")
        await on.shows(f"PID {victim.pid} is not a plain job.")
        on.app.post_message(held)
        await on.press("pagedown")
        assert on.app.screen is screen, "a key that is held down must not answer twice"
        assert victim.poll() is None
        await on.asked()
        await on.press("s", "t", "down", "enter")
        await on.closed()
        assert victim.poll() is None
        await on.press("K")
        screen = await on.asked()
        await on.press("y")
        await on.asked()
        await on.press("y")
        await on.reports("killed")
        assert victim.wait(LIMIT_SECONDS) == -9


async def test_what_is_no_plain_job_below_a_process_is_asked_about_once_more(
    tmp_path: Path,
) -> None:
    program = sleep_as("Xorg", tmp_path)
    with Family(("sh", "-c", f"{program} 600 & wait")) as family:
        display = child_named("Xorg", family.pid)
        async with stage() as on:
            screen = await on.ask(process_for(family.pid))
            await on.shows("1 child (")
            assert "it is a display server" not in on.text
            await on.press("t")
            await on.shows(f"! PID {display}: it is a display server")
            await on.press("y")
            await on.shows(
                f"PID {display} is not a plain job. Kill PID {family.pid} and its child anyway?"
            )
            await on.asked()
            await on.press("t", "n")
            await on.closed()
            assert family.alive() == {family.pid, display}
            await on.press("K")
            screen = await on.asked()
            await on.shows("1 child (")
            await on.press("t", "y")
            await on.shows("anyway")
            assert await on.asked() is screen
            await on.press("y")
            await on.reports("1 child ended too")
            assert family.alive() == set()


async def test_a_process_that_ends_by_itself_leaves_nothing_to_confirm(start: Start) -> None:
    one, other = start(), start()
    async with stage() as on:
        await on.ask(process_for(one.pid))
        one.kill()
        one.wait()
        await on.shows(f"PID {one.pid} has already exited")
        assert "Kill  y" not in on.text
        screen = on.app.screen
        await on.press("y")
        assert on.app.screen is screen
        await on.press("enter")
        await on.closed()
        await on.reports("ended by itself; nothing was sent")
        assert other.poll() is None


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"host": make_host(simulated=True)}, "the host is simulated"),
    ({"start_ticks": 1}, {}, "now belongs to another process"),
]


@pytest.mark.parametrize(("about", "where", "reason"), REFUSED)
async def test_what_cannot_be_signalled_is_shown_with_the_reason(
    victim: Any, about: dict[str, Any], where: dict[str, Any], reason: str
) -> None:
    async with stage() as on:
        on.feed.give(host_of(process_for(victim.pid, **about), **where))
        await on.press("K")
        screen = await on.asked()
        assert "cannot be signalled" in on.text
        assert reason in on.text
        for text in (str(victim.pid), "alice", "2.0 GiB on GPU 0-1", "Close  q"):
            assert text in on.text
        assert "[KILL" not in on.text
        await on.press("y", "s", "t", "right", "down")
        assert on.app.screen is screen
        await on.click_on("Close  q")
        await on.closed()
        assert victim.poll() is None


def test_the_screen_does_not_load_what_can_signal_before_it_is_asked() -> None:
    rooms = "'gpudash.actions.kill', 'gpudash.tui.kill'"
    loaded = f"[m for m in sys.modules if m.startswith(({rooms}))]"
    code = f"import sys, gpudash.tui.app; print({loaded})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
