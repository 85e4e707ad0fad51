import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.events import Key

from gpudash.actions.kill.run import TIMEOUTS, Timeouts
from gpudash.tui import status
from gpudash.tui.dialogs.kill import KillScreen
from tests import waiting
from tests.actions.kill.family import DEAF_LAUNCHER, LAUNCHER, Family
from tests.actions.kill.shown import shown
from tests.factories import GIB, make_process_device
from tests.holders import Holder
from tests.tui.kill_stage import Start, host_of, process_for, stage
from tests.waiting import LIMIT_SECONDS

DEAF = (
    "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);print(flush=True); signal.pause()"
)


async def test_a_confirmed_kill_reports_the_memory_that_was_seen_to_be_freed(victim: Any) -> None:
    async with stage() as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.press("y")
        await on.reports(f"killed {victim.pid} (alice)")
        assert "freed" not in on.footer
        on.feed.give(host_of(process))
        on.feed.give(host_of())
        await on.reports(f"killed {victim.pid} (alice): 2.0 GiB freed on GPU 0-1")
        assert victim.wait(LIMIT_SECONDS) == -9


async def test_a_zombie_is_reported_once_it_has_lasted_and_until_it_is_reaped(victim: Any) -> None:
    ended = f"killed {victim.pid} (alice)"
    async with stage(timeouts=TIMEOUTS._replace(reap=0.1)) as on:
        await on.ask(process_for(victim.pid, devices=()))
        await on.press("y")
        await on.reports(f"{ended}; zombie: parent {os.getpid()} ")
        victim.wait(LIMIT_SECONDS)
        await on.until(lambda: on.dashboard.message == ended)


async def test_what_is_reported_next_ends_the_correction_of_what_was_configured_before(
    victim: Any,
) -> None:
    async with stage(timeouts=TIMEOUTS._replace(release=0.0)) as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.press("y")
        await on.reports(f"killed {victim.pid}")
        await on.repeats(host_of(process), "the driver still counts 2.0 GiB on GPU 0-1")
        on.app.show_message("")
        on.feed.give(host_of())
        await on.until(lambda: not on.app.workers)
        assert on.dashboard.message == ""


async def test_what_is_waited_for_is_reported_for_as_long_as_it_is(
    victim: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "SECONDS", 0.01)
    async with stage() as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.press("y")
        await on.reports(f"killed {victim.pid} (alice); waiting")
        on.feed.give(host_of(process))
        on.feed.give(host_of())
        await on.until(lambda: not on.dashboard.message)


async def test_an_ignored_sigterm_leads_to_the_offer_of_sigkill(start: Start) -> None:
    deaf = start(sys.executable, "-c", DEAF)
    deaf.stdout.readline()
    async with stage(timeouts=TIMEOUTS._replace(end=0.3)) as on:
        await on.ask(process_for(deaf.pid), key="T")
        await on.press("y")
        await on.reports(f"SIGTERM sent to {deaf.pid}")
        meant_for_the_list = Key("y", "y")
        await on.shows(f"PID {deaf.pid} ignored SIGTERM for 0 s. Kill it?")
        screen = on.app.screen
        on.app.post_message(meant_for_the_list)
        await on.press("pagedown")
        assert on.app.screen is screen, "a key that was meant for the list must not answer"
        await on.asked()
        await on.press("y")
        await on.reports(f"killed {deaf.pid}")
        assert deaf.wait(LIMIT_SECONDS) == -9


class HeldTimeouts(Timeouts):
    """Time limits by which the wait for an end begins only once `is_released`."""

    is_released = threading.Event()

    @property
    def end(self) -> float:
        assert self.is_released.wait(LIMIT_SECONDS)
        return 0.1


async def test_the_offer_waits_for_another_question_and_can_be_refused(start: Start) -> None:
    deaf = start(sys.executable, "-c", DEAF)
    deaf.stdout.readline()
    timeouts = HeldTimeouts()
    async with stage(timeouts=timeouts) as on:
        await on.ask(process_for(deaf.pid), key="T")
        await on.press("y")
        await on.press("h")
        await on.until(lambda: on.app.screen.is_modal and type(on.app.screen) is not KillScreen)
        timeouts.is_released.set()
        await on.until(lambda: "ignored SIGTERM" in on.dashboard.message)
        await on.pilot.pause(0.3)
        assert not isinstance(on.app.screen, KillScreen)
        await on.press("escape")
        await on.asked()
        await on.press("n")
        await on.reports("ignored SIGTERM for 0 s")
        assert "?" not in on.footer.split("ignored")[1]
        assert deaf.poll() is None


async def test_children_that_keep_the_memory_are_offered_to_be_killed(
    gpu_holder: Callable[..., Holder],
) -> None:
    job = gpu_holder("(sleep 600 & exec sleep 600)")
    child = waiting.child_of(job.pid)
    async with stage(timeouts=TIMEOUTS._replace(release=0.0)) as on:
        process = process_for(job.pid)
        await on.ask(process)
        await on.shows("1 child (no GPU memory) will keep running")
        await on.press("y")
        await on.reports(f"killed {job.pid}")

        def is_asked() -> bool:
            if not on.app.screen.is_modal:
                on.feed.give(host_of(process))
            return bool(on.app.screen.is_modal)

        await on.until(is_asked)
        await on.asked()
        await on.shows(f"PID {child} still runs and has a GPU open. Kill it?")
        assert "on GPU -" not in on.text
        await on.press("y")
        await on.reports(f"killed {child}")
        assert waiting.has_ended(child)


async def test_a_record_that_cannot_be_kept_is_reported(victim: Any, state: Path) -> None:
    state.write_text("no folder")
    async with stage() as on:
        await on.ask(process_for(victim.pid, devices=()))
        await on.press("y")
        await on.reports("not recorded in audit.jsonl: Not a directory")


async def test_tagged_processes_are_one_question(start: Start) -> None:
    one, two, spared = start(), start(), start()
    async with stage() as on:
        processes = [process_for(each.pid) for each in (one, two, spared)]
        on.feed.give(host_of(*processes))
        on.listing.tagged = {each.key for each in processes[:2]}
        await on.press("K")
        await on.asked()
        await on.shows("Kill these 2 processes?", "4.0 GiB on GPU 0-1 will be freed")
        await on.press("y")
        await on.reports("2 of 2 processes ended after SIGKILL")
        on.feed.give(host_of(processes[2]))
        await on.reports("ended after SIGKILL: 4.0 GiB freed on GPU 0-1")
        assert (one.wait(LIMIT_SECONDS), two.wait(LIMIT_SECONDS)) == (-9, -9)
        assert spared.poll() is None


async def test_a_tree_is_listed_and_goes_only_when_asked_for() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.until(lambda alive: len(alive) == 2)
        (worker,) = alive - {family.pid}
        async with stage() as on:
            await on.ask(process_for(family.pid))
            await on.shows("1 child (no GPU memory) will keep running")
            assert f"+ {worker}" not in on.text
            await on.press("t")
            await on.shows(f"+ {worker}", "[x] with the children")
            await on.click_on("[x] with")
            await on.shows("[ ] with the children")
            await on.press("t", "y")
            await on.reports("1 child ended too")
            assert f"killed {family.pid} (alice)" in on.footer
            assert family.alive() == set()


async def test_memory_of_children_counts_once_they_go_too() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        (worker,) = family.until(lambda alive: len(alive) == 2) - {family.pid}
        async with stage() as on:
            share = (make_process_device(index=1, used_gpu_memory_bytes=3 * GIB),)
            on.feed.give(
                host_of(process_for(family.pid), process_for(worker, devices=share, parent_pid=1))
            )
            await on.press("home")
            assert on.listing.select(shown(family.pid).key)
            await on.press("K")
            await on.asked()
            await on.shows("1 child (3.0 GiB on GPU 1) will keep running")
            await on.press("t")
            await on.shows("5.0 GiB on GPU 0-1 will be freed")


async def test_a_tree_that_ignores_the_signal_is_offered_whole() -> None:
    with Family(("sh", "-c", DEAF_LAUNCHER)) as family:
        alive = family.started(3, sleepers=2)
        async with stage(timeouts=TIMEOUTS._replace(root_first=0.2, end=0.5)) as on:
            await on.ask(process_for(family.pid), key="T")
            await on.shows("2 children (")
            await on.press("t")
            await on.shows("will get SIGTERM too if still running soon after")
            await on.press("y")
            await on.reports(f"{family.pid} (alice) ignored SIGTERM")
            (deaf,) = family.until(lambda left: len(left) == 2) - {family.pid}
            assert deaf in alive
            await on.asked()
            await on.shows("Kill it and its child?", "[x] with the children", f"+ {deaf}")
            await on.press("y")
            await on.reports(f"killed {family.pid} (alice)")
            assert family.alive() == set()
