from __future__ import annotations

import time
from typing import Any

import psutil
import pytest
from textual.events import Key

from gpudash.tui.dialogs.choose import ChooseScreen
from tests.tui.actions.kill.stage import process_for, stage


@pytest.mark.parametrize("key", ["escape", "n", "q", "enter"])
async def test_cancel_is_the_default_and_has_keys(victim: Any, key: str) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.pilot.press(key)
        await on.closed()
        assert victim.poll() is None


async def test_enter_acts_only_from_the_button_that_acts(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.pilot.press("tab", "enter")
        await on.reports("killed")
        assert victim.wait(5) == -9


async def test_keys_and_clicks_that_come_too_early_do_not_answer(victim: Any) -> None:
    async with stage() as on:
        screen = await on.ask(process_for(victim.pid))
        now = 0.0
        screen._clock = lambda: now
        screen._obeys_from = 0.3
        now = 0.29
        await on.pilot.press("y", "n", "tab", "enter")
        await on.click("Kill  y")
        assert on.app.screen is screen
        assert victim.poll() is None
        now = 0.31
        await on.pilot.press("n")
        await on.closed()


@pytest.mark.parametrize("name", ["sleep", "nv-fabricmanager"])
async def test_a_key_that_was_typed_too_early_does_not_answer_however_late_it_comes(
    victim: Any, name: str
) -> None:
    async with stage() as on:
        early = [Key(key, key) for key in ("tab", "enter", "y", "y", "n")]
        screen = await on.ask(process_for(victim.pid, name=name))
        screen._obeys_from = time.monotonic()
        for event in early:
            on.app.post_message(event)
        await on.pilot.press("pagedown")
        await on.pilot.pause()
        assert on.app.screen is screen
        assert "[Cancel  n]" in on.text
        assert "all the same" not in on.text
        assert victim.poll() is None
        await on.pilot.press("n")
        await on.closed()


@pytest.mark.parametrize(
    ("key", "verb", "status"), [("T", "Terminate", -15), ("I", "Interrupt", -2), ("f9", "Kill", -9)]
)
async def test_each_key_presets_its_signal(victim: Any, key: str, verb: str, status: int) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid), key=key)
        assert f"{verb} this process?" in on.text
        await on.click(f"{verb}  y")
        assert victim.wait(5) == status


async def test_signals_can_be_cycled_clicked_and_named(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.pilot.press("right")
        await on.shows("[TERM 15: terminate]")
        await on.pilot.press("left", "left")
        await on.shows("[RTMAX" if "[RTMAX" in on.text else "64: real-time]")
        await on.pilot.press("right")
        await on.click(" HUP ")
        await on.shows("Send SIGHUP to this process?")
        await on.pilot.press("s")
        await on.until(lambda: isinstance(on.app.screen, ChooseScreen))
        await on.pilot.press("1", "2", "enter")
        await on.shows("Send SIGUSR2 to this process?")
        await on.pilot.press("y")
        assert victim.wait(5) == -12


async def test_a_signal_that_does_not_end_is_reported_as_sent(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        await on.click(" STOP ")
        await on.shows("holds     2.0 GiB")
        await on.pilot.press("y")
        await on.reports(f"SIGSTOP sent to {victim.pid} (alice)")
        assert psutil.Process(victim.pid).status() == psutil.STATUS_STOPPED


async def test_what_is_no_plain_job_is_asked_about_once_more(victim: Any) -> None:
    async with stage() as on:
        screen = await on.ask(process_for(victim.pid, name="nv-fabricmanager"))
        assert "it runs the NVLink fabric" in on.text
        await on.pilot.press("y")
        await on.shows("No plain job is meant. Kill all the same?")
        await on.pilot.press("y")
        assert on.app.screen is screen, "a key that is held down must not answer twice"
        assert victim.poll() is None
        screen._obeys_from = 0.0
        await on.pilot.press("s", "t", "right", "enter")
        await on.closed()
        assert victim.poll() is None
        await on.pilot.press("K")
        screen = await on.asked()
        await on.pilot.press("y")
        screen._obeys_from = 0.0
        await on.pilot.press("y")
        await on.reports("killed")
        assert victim.wait(5) == -9
