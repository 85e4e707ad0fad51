from __future__ import annotations

import os

import pytest

from gpudash.actions.kill.run import TIMEOUTS
from tests.actions.kill.family import Family
from tests.actions.kill.shown import shown
from tests.factories import GIB, make_process_device
from tests.tui.actions.kill.stage import LAUNCHER, host_of, process_for, stage


async def test_a_tree_is_listed_and_goes_only_when_asked_for() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        alive = family.until(lambda alive: len(alive) == 2)
        (worker,) = alive - {family.pid}
        async with stage() as on:
            await on.ask(process_for(family.pid))
            await on.shows("children  1, with no GPU memory: they stay")
            assert f"+ {worker}" not in on.text
            await on.pilot.press("t")
            await on.shows(f"+ {worker}")
            assert "[x] with the children" in on.text
            await on.click("[x] with")
            await on.shows("[ ] with the children")
            await on.pilot.press("t", "y")
            await on.reports("1 below it ended too")
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
            await on.pilot.press("home")
            assert on.app.dashboard.listing.select(shown(family.pid).key)
            await on.pilot.press("K")
            await on.asked()
            await on.shows("1, with 3.0 GiB on GPU 1: they stay")
            assert "frees     2.0 GiB on GPU 0-1" in on.text
            await on.pilot.press("t")
            await on.shows("frees     5.0 GiB on GPU 0-1")
            assert "GPU 1 4.0 GiB" in on.text


async def test_workers_that_outlive_their_launcher_get_the_signal_too() -> None:
    with Family(("sh", "-c", LAUNCHER)) as family:
        family.until(lambda alive: len(alive) == 2)
        async with stage(timeouts=TIMEOUTS._replace(root_first=0.2)) as on:
            await on.ask(process_for(family.pid), key="T")
            await on.shows("children  1")
            await on.pilot.press("t", "y")
            await on.reports("1 below it ended too")
            assert f"terminated {family.pid} (alice)" in on.footer
            assert family.alive() == set()


async def test_gpudash_counts_among_the_children_of_what_it_runs_below() -> None:
    if os.getppid() <= 1:
        pytest.skip("init started the tests")
    async with stage() as on:
        await on.ask(process_for(os.getppid()))
        await on.shows("gpudash itself")
        assert "children  none" not in on.text
        await on.pilot.press("n")
        await on.closed()
