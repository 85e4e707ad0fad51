import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest

from gpudash.snapshot import Process, Snapshot
from gpudash.tui.app import GpudashApp
from gpudash.tui.killing import strike
from gpudash.tui.screens.choose import ChooseScreen
from gpudash.tui.screens.kill import KillScreen
from tests.actions.family import Family
from tests.actions.shown import HERE, shown
from tests.factories import GIB, make_host, make_process_device, make_snapshot
from tests.tui.stage import HandFeed, process_of, screen_lines

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(); signal.pause()"
HOSTILE = "\x1b]0;owned\x07\x1b[31m\u202e[/x][@click=app.bell]\n"
LAUNCHER = "setsid sleep 600 & trap 'exit 0' TERM; wait"

Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def start() -> Iterator[Start]:
    children: list[subprocess.Popen[bytes]] = []

    def run(*argv: str) -> subprocess.Popen[bytes]:
        children.append(subprocess.Popen(argv or ("sleep", "600"), stdout=subprocess.PIPE))
        return children[-1]

    yield run
    for child in children:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.fixture
def victim(start: Start) -> subprocess.Popen[bytes]:
    return start()


def process_for(pid: int, **overrides: Any) -> Process:
    shares = tuple(make_process_device(index=i, used_gpu_memory_bytes=GIB) for i in range(2))
    fields = {"devices": shares, "command_line": ("sleep", "600"), **overrides}
    return shown(pid, **fields)


def host_of(*processes: Process, **overrides: Any) -> Snapshot:
    return make_snapshot(2, **{"host": HERE, "processes": processes, **overrides})


class Stage:
    """The app with a hand on its feed."""

    def __init__(self, app: GpudashApp, pilot: Any, feed: HandFeed) -> None:
        self.app, self.pilot, self.feed = app, pilot, feed

    @property
    def text(self) -> str:
        return "\n".join(screen_lines(self.app))

    @property
    def footer(self) -> str:
        return screen_lines(self.app)[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.02)

    async def shows(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def reports(self, text: str) -> None:
        """Wait for an outcome, of which the footer shows what there is room for."""
        await self.until(lambda: text in self.app.picture.notice)
        await self.until(lambda: self.app.picture.notice[:30] in self.footer)

    async def asked(self) -> KillScreen:
        """The dialog, once it is open and obeys."""
        await self.until(lambda: isinstance(self.app.screen, KillScreen))
        screen = self.app.screen
        assert isinstance(screen, KillScreen)
        await self.until(lambda: screen._seen is not None)
        screen._obeys_from = 0.0
        return screen

    async def ask(self, *processes: Process, key: str = "K") -> KillScreen:
        self.feed.give(host_of(*processes))
        await self.pilot.press(key)
        return await self.asked()

    async def closed(self) -> None:
        await self.until(lambda: not self.app.screen.is_modal)

    async def click(self, text: str) -> None:
        lines = screen_lines(self.app)
        y = next(number for number, line in enumerate(lines) if text in line)
        await self.pilot.click(offset=(lines[y].index(text) + 1, y))


@asynccontextmanager
async def stage(size: tuple[int, int] = (120, 36)) -> Any:
    feed = HandFeed()
    app = GpudashApp(feed)
    async with app.run_test(size=size) as pilot:
        yield Stage(app, pilot, feed)


async def test_the_question_says_all_that_is_known(victim: Any) -> None:
    async with stage() as on:
        line = ("python", "train.py", "--token", "hunter2")
        process = process_for(victim.pid, command_line=line)
        await on.ask(process)
        for text in ("Kill this process?", str(victim.pid), "alice", "2.0 GiB on GPU 0-1"):
            assert text in on.text
        assert "GPU 0 1.0 GiB" in on.text
        assert "--token '***'" in on.text
        assert "hunter2" not in "\n".join(on.text.split("command")[1:])
        await on.shows("children  none")


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
    monkeypatch.setattr(strike, "_RELEASE_SECONDS", 0.0)
    async with stage() as on:
        process = process_for(victim.pid)
        await on.ask(process)
        await on.pilot.press("y")
        await on.reports(f"killed {victim.pid}")
        for _ in range(3):
            on.feed.give(host_of(process))
            await on.pilot.pause(0.1)
        await on.reports("the driver still counts 2.0 GiB on GPU 0-1")


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


async def test_an_ignored_sigterm_leads_to_the_offer_of_sigkill(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strike, "PATIENCE_SECONDS", 0.3)
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
    monkeypatch.setattr(strike, "PATIENCE_SECONDS", 0.1)
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
            assert on.app.picture.listing.select(shown(family.pid).key)
            await on.pilot.press("K")
            await on.asked()
            await on.shows("1, with 3.0 GiB on GPU 1: they stay")
            assert "frees     2.0 GiB on GPU 0-1" in on.text
            await on.pilot.press("t")
            await on.shows("frees     5.0 GiB on GPU 0-1")
            assert "GPU 1 4.0 GiB" in on.text


async def test_workers_that_outlive_their_launcher_get_the_signal_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strike, "_ROOT_FIRST_SECONDS", 0.2)
    with Family(("sh", "-c", LAUNCHER)) as family:
        family.until(lambda alive: len(alive) == 2)
        async with stage() as on:
            await on.ask(process_for(family.pid), key="T")
            await on.shows("children  1")
            await on.pilot.press("t", "y")
            await on.reports("1 below it ended too")
            assert f"terminated {family.pid} (alice)" in on.footer
            assert family.alive() == set()


async def test_tagged_processes_are_one_question(start: Start) -> None:
    one, two, spared = start(), start(), start()
    async with stage() as on:
        processes = [process_for(each.pid) for each in (one, two, spared)]
        on.feed.give(host_of(*processes))
        on.app.picture.listing.tagged = {each.key for each in processes[:2]}
        await on.pilot.press("K")
        await on.asked()
        assert "Kill these 2 processes?" in on.text
        assert "frees     4.0 GiB on GPU 0-1" in on.text
        await on.pilot.press("y")
        await on.reports("2 of 2 processes ended after SIGKILL")
        on.feed.give(host_of(processes[2]))
        await on.reports("ended after SIGKILL: 4.0 GiB freed on GPU 0-1")
        assert (one.wait(5), two.wait(5)) == (-9, -9)
        assert spared.poll() is None


async def test_one_refused_of_several_is_named_and_spares_no_other(start: Start) -> None:
    one = start()
    async with stage() as on:
        init = process_of(1, pid=1)
        on.feed.give(host_of(process_for(one.pid), init))
        on.app.picture.listing.tagged = {row.process.key for row in on.app.picture.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        await on.shows("1 of 2 cannot be signalled: PID 1 is init")
        await on.pilot.press("y")
        assert one.wait(5) == -9


async def test_the_dialog_stays_with_its_process_when_the_list_changes(victim: Any) -> None:
    async with stage() as on:
        await on.ask(process_for(victim.pid))
        on.feed.give(host_of(process_of(1)))
        assert str(victim.pid) in on.text
        await on.pilot.press("y")
        assert victim.wait(5) == -9


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


async def test_one_of_several_that_ends_by_itself_is_marked(start: Start) -> None:
    one, two = start(), start()
    async with stage() as on:
        on.feed.give(host_of(process_for(one.pid), process_for(two.pid)))
        on.app.picture.listing.tagged = {row.process.key for row in on.app.picture.listing.rows}
        await on.pilot.press("K")
        await on.asked()
        one.kill()
        one.wait()
        await on.shows("1 of 2 have ended by themselves")
        assert "it has ended by itself" in on.text
        await on.pilot.press("y")
        assert two.wait(5) == -9


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
        on.app.picture.read_only = True
        for key in ("K", "T", "I", "f9"):
            await on.pilot.press(key)
        assert not on.app.screen.is_modal


def test_the_screen_does_not_load_what_can_signal_before_it_is_asked() -> None:
    loaded = "[m for m in sys.modules if m.startswith(('gpudash.actions', 'gpudash.tui.killing'))]"
    code = f"import sys, gpudash.tui.app; print({loaded})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


async def test_a_long_command_scrolls_to_its_end_by_keys_and_wheel(victim: Any) -> None:
    line = ("python", *(f"--option-{n}" for n in range(400)))
    async with stage((80, 24)) as on:
        await on.ask(process_for(victim.pid, command_line=line))
        assert re.search(r"▼ \d+ more", on.text)
        assert "--option-399" not in on.text
        for _ in range(30):
            await on.pilot.press("pagedown")
        assert "--option-399" in on.text
        assert re.search(r"▲ \d+ more", on.text)
        assert "Kill  y" in on.text
        await on.pilot.press("up", "k")
        assert "--option-399" not in on.text
        box = on.app.screen.query_one("#question")
        await on.pilot._post_mouse_events([_wheel()], box)
        await on.shows("--option-399")


def _wheel() -> Any:
    from textual.events import MouseScrollDown

    return MouseScrollDown


async def test_a_hostile_command_is_harmless_text(victim: Any) -> None:
    from gpudash.text import clean

    async with stage() as on:
        await on.ask(process_for(victim.pid, command_line=("python", clean(HOSTILE))))
        assert r"\x1b]0;owned" in on.text
        assert "[@click=app.bell]" in on.text
        assert "\x1b" not in on.text


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (20, 6), (10, 3), (3, 2), (1, 1)])
async def test_any_size_asks_and_takes_an_answer(victim: Any, size: tuple[int, int]) -> None:
    line = ("python", "x" * 4000)
    async with stage(size) as on:
        screen = await on.ask(process_for(victim.pid, command_line=line))
        await on.pilot.resize_terminal(200, 60)
        await on.shows("Kill this process?")
        await on.pilot.resize_terminal(*size)
        await on.pilot.press("down", "right", "n")
        await on.until(lambda: on.app.screen is not screen)
        assert victim.poll() is None


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
import asyncio, os, sys
from gpudash import kin
from gpudash.actions import find_signal
from gpudash.rows import ProcessRow
from gpudash.tui.killing.aim import Aim
from gpudash.tui.killing.strike import strike
from tests.actions.shown import HERE, shown
from tests.factories import make_snapshot
os.setuid(65534)
process = kin.process_of(int(sys.argv[1]))
snapshot = make_snapshot(1, host=HERE, processes=(process,))
aim = Aim([ProcessRow(process, "0", 1.0)], snapshot)
work = strike(aim, find_signal("KILL"), whole=False, latest=lambda: snapshot, say=lambda text: None)
print(asyncio.run(work).text)
"""
