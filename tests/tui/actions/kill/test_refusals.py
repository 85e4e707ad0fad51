from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.factories import make_host
from tests.tui.actions.kill.stage import Start, host_of, process_for, stage


async def test_a_process_that_ends_by_itself_leaves_nothing_to_confirm(start: Start) -> None:
    one, other = start(), start()
    async with stage() as on:
        await on.ask(process_for(one.pid))
        one.kill()
        one.wait()
        await on.shows("It has ended: there is nothing to signal")
        assert "Kill  y" not in on.text
        screen = on.app.screen
        await on.pilot.press("y")
        assert on.app.screen is screen
        await on.pilot.press("enter")
        await on.closed()
        await on.reports("ended by itself; nothing was sent")
        assert other.poll() is None


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {"host": make_host(simulated=True)}, "the host is simulated"),
    ({}, {"host": make_host(hostname="elsewhere")}, "the process runs on elsewhere"),
    ({"start_ticks": 1}, {}, "now belongs to another process"),
    ({"start_ticks": None, "create_time": None}, {}, "start time"),
    ({"hidden_reason": "it is in another namespace"}, {}, "it is in another namespace"),
]


@pytest.mark.parametrize(("about", "where", "reason"), REFUSED)
async def test_what_cannot_be_signalled_is_shown_with_the_reason(
    victim: Any, about: dict[str, Any], where: dict[str, Any], reason: str
) -> None:
    async with stage() as on:
        on.feed.give(host_of(process_for(victim.pid, **about), **where))
        await on.pilot.press("K")
        screen = await on.asked()
        assert "This process cannot be signalled" in on.text
        assert reason in on.text
        for text in (str(victim.pid), "alice", "holds     2.0 GiB on GPU 0-1", "Close  q"):
            assert text in on.text
        assert "[KILL" not in on.text
        await on.pilot.press("y", "s", "t", "right")
        assert on.app.screen is screen
        await on.click("Close  q")
        await on.closed()
        assert victim.poll() is None


async def test_without_a_process_there_is_no_question() -> None:
    async with stage() as on:
        on.feed.give(host_of())
        await on.pilot.press("K")
        await on.reports("no process is selected")


async def test_a_read_only_screen_has_no_dialog(victim: Any) -> None:
    async with stage() as on:
        on.feed.give(host_of(process_for(victim.pid)))
        on.app.dashboard.read_only = True
        for key in ("K", "T", "I", "f9"):
            await on.pilot.press(key)
        assert not on.app.screen.is_modal


def test_the_screen_does_not_load_what_can_signal_before_it_is_asked() -> None:
    rooms = "'gpudash.actions.kill', 'gpudash.tui.actions.kill'"
    loaded = f"[m for m in sys.modules if m.startswith(({rooms}))]"
    code = f"import sys, gpudash.tui.app; print({loaded})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_target_of_another_user_is_not_permitted(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    victim = start()
    run = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(victim.pid)], capture_output=True, text=True
    )
    assert (
        run.stdout.strip() == f"not permitted: PID {victim.pid} is owned by root; try sudo gpudash"
    )
    assert victim.poll() is None


AS_NOBODY = """
import os, sys
from gpudash.actions.kill.report import describe
from gpudash.actions.kill.run import Kill
from gpudash.actions.kill.selection import KillSelection
from gpudash.actions.kill.signals import find_signal
from gpudash.analysis.table import ProcessRow
from gpudash.system import process_tree
from tests.actions.kill.shown import HERE
from tests.factories import make_snapshot
os.setuid(65534)
process = process_tree.process_of(int(sys.argv[1]))
snapshot = make_snapshot(1, host=HERE, processes=(process,))
selection = KillSelection([ProcessRow(process, "0", 1.0)], snapshot)
kill = Kill(selection.requests(with_tree=False), find_signal("KILL"))
kill.send()
print(*describe(kill.wait(snapshot, latest=lambda: snapshot)))
"""
