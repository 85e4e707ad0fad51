from __future__ import annotations

import sys
from typing import Any

import pytest

from gpudash.actions import patience
from gpudash.tui.screens.kill import KillScreen
from tests.tui.killing.stage import Start, host_of, process_for, stage

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); signal.pause()"


async def test_a_confirmed_kill_reports_the_memory_that_was_seen_to_be_freed(victim: Any) -> None:
    async with stage() as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.pilot.press("y")
        await on.reports(f"killed {victim.pid} (alice)")
        assert "freed" not in on.footer
        on.feed.give(host_of(process))
        on.feed.give(host_of())
        await on.reports(f"killed {victim.pid} (alice): 2.0 GiB freed on GPU 0-1")
        assert victim.wait(5) == -9


async def test_memory_that_the_driver_still_counts_is_not_called_freed(
    victim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "RELEASE_SECONDS", 0.0)
    async with stage() as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.pilot.press("y")
        await on.reports(f"killed {victim.pid}")
        for _ in range(3):
            on.feed.give(host_of(process))
            await on.pilot.pause(0.1)
        await on.reports("the driver still counts 2.0 GiB on GPU 0-1")


async def test_an_ignored_sigterm_leads_to_the_offer_of_sigkill(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "END_SECONDS", 0.3)
    deaf = start(sys.executable, "-c", DEAF)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    async with stage() as on:
        await on.ask(process_for(deaf.pid), key="T")
        await on.pilot.press("y")
        await on.reports(f"SIGTERM sent to {deaf.pid}")
        await on.shows(f"{deaf.pid} (alice) ignored SIGTERM for 0 s: send SIGKILL?")
        screen = on.app.screen
        await on.pilot.press("y")
        assert on.app.screen is screen, "a key that was meant for the list must not answer"
        await on.asked()
        await on.pilot.press("y")
        await on.reports(f"killed {deaf.pid}")
        assert deaf.wait(5) == -9


async def test_the_offer_waits_for_another_question_and_can_be_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "END_SECONDS", 0.1)
    deaf = start(sys.executable, "-c", DEAF)
    assert deaf.stdout is not None
    deaf.stdout.readline()
    async with stage() as on:
        await on.ask(process_for(deaf.pid), key="T")
        await on.pilot.press("y")
        await on.pilot.press("h")
        assert not isinstance(on.app.screen, KillScreen)
        await on.until(lambda: "ignored SIGTERM" in on.app.picture.notice)
        await on.pilot.pause(0.3)
        assert not isinstance(on.app.screen, KillScreen)
        await on.pilot.press("escape")
        await on.asked()
        await on.pilot.press("n")
        await on.reports("ignored SIGTERM for 0 s")
        assert "?" not in on.footer.split("ignored")[1]
        assert deaf.poll() is None
