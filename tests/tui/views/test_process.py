import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from gpudash.analysis.columns.devices import DEVICE_COLUMNS
from gpudash.analysis.columns.processes import PROCESS_COLUMNS
from gpudash.analysis.inspection import Inspection, IoRates, inspect
from gpudash.analysis.table import ProcessRow
from gpudash.model.process import Process
from gpudash.model.snapshot import Snapshot
from gpudash.tui.views.process import Inspector, ProcessView
from gpudash.tui.views.process.facts import ProcessDetails
from tests import waiting
from tests.actions.kill.shown import HERE, WAIT_SECONDS, shown
from tests.factories import make_host, make_process, make_snapshot
from tests.holders import Holders
from tests.tui.stage import on_screen, process_of

ENVIRONMENT = {"HF_TOKEN": "hunter2", "CUDA_VISIBLE_DEVICES": "2,0"}


@pytest.fixture
def job() -> Iterator[int]:
    """A real process with a child, and a secret."""
    script = "import subprocess, time; subprocess.Popen(['sleep', '600']).wait()"
    with subprocess.Popen((sys.executable, "-c", script), env=ENVIRONMENT, cwd="/usr") as child:
        below = waiting.child_of(child.pid)
        waiting.until(lambda: psutil.Process(below).cmdline() == ["sleep", "600"])
        yield child.pid
        for pid in (child.pid, below):
            os.kill(pid, 9)


def host_of(*processes: Process, **overrides: Any) -> Snapshot:
    return make_snapshot(4, **{"host": HERE, "processes": processes, **overrides})


def view(*processes: Process, key: str = "enter", **options: Any) -> Any:
    return on_screen(host_of(*processes), key, **{"size": (80, 100), **options})


async def test_shows_what_the_process_is_and_sees(job: int) -> None:
    async with view(shown(job)) as on:
        text = await on.shows("ENVIRONMENT")
        for words in (str(job), "of alice", "/usr", "CUDA 0 = GPU 2", "FAMILY", "sleep 600"):
            assert words in text
        assert re.search(r"rss +[\d.]+ [KMG]iB  (<1|\d+)%", text)
        assert "secret" in on.lines[-1]


async def test_its_values_have_the_names_of_the_lists(job: int) -> None:
    async with view(shown(job)) as on:
        text = await on.shows("ENVIRONMENT")
        headings = next(line for line in on.lines if line.startswith(" GPU  NAME")).split()
        known = {column.header for column in (*DEVICE_COLUMNS, *PROCESS_COLUMNS)}
        assert set(headings) <= known | {"ENC", "DEC"}
        assert {"time", "cpu", "rss", "GPU-MEM"} <= set(text.split())


async def test_keys_of_overview_and_view_lead_to_tree_and_environment(job: int) -> None:
    for key, heading in (("t", "FAMILY"), ("e", "ENVIRONMENT")):
        async with view(shown(job), size=(60, 8), key=key) as on:
            await on.shows(heading)
            await on.press("home")
            assert heading not in on.text
            await on.press(key)
            assert heading in on.text


async def test_a_section_that_is_asked_for_before_it_is_read_comes_to_the_top(
    job: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_read = threading.Event()

    def wait_and_inspect(*arguments: Any) -> Inspection:
        may_read.wait(WAIT_SECONDS)
        return inspect(*arguments)

    monkeypatch.setattr("gpudash.tui.views.process.inspect", wait_and_inspect)
    async with view(shown(job), size=(80, 22)) as on:
        await on.press("e")
        may_read.set()
        await on.shows("HF_TOKEN")
        await on.press("q")
        await on.shows("rss")
        assert isinstance(on.app.screen, ProcessView)


async def test_the_footer_offers_to_kill_it_unless_nothing_may_be_sent(job: int) -> None:
    async with view(shown(job)) as on:
        await on.shows("••••••")
        assert on.lines[-1].startswith(" q back  h help  K kill  ")
        await on.pilot.click("#footer", offset=(on.lines[-1].index("kill"), 0))
        await on.shows("Kill PID ")
        await on.press("escape")
    async with view(process_of(0), size=(80, 24), read_only=True) as on:
        assert "q back" in await on.shows("t tree")
        assert "kill" not in on.lines[-1]


async def test_curves_reach_as_far_back_as_the_process_was_seen() -> None:
    host = {"simulated": True}
    first = make_host(uptime_seconds=100.0, **host)
    async with on_screen(host_of(process_of(0), host=first), "enter", size=(200, 60)) as on:
        for second, oldest in ((140.0, "-45s"), (190.0, "-1m"), (300.0, "-4m")):
            told = make_host(uptime_seconds=second, **host)
            on.feed.give(host_of(process_of(0), process_of(1), host=told))
            await on.shows(f" {oldest} ")
        await on.press("q", "down", "enter")
        text = await on.shows("job1.py")
        assert " -4m " in text
        later = make_host(uptime_seconds=330.0, **host)
        on.feed.give(host_of(process_of(0), process_of(1), process_of(2), host=later))
        await on.press("q", "end", "enter")
        text = await on.shows("job2.py")
        assert " -4m " not in text


async def test_exited_process_stays_and_says_since_when(holders: Holders) -> None:
    (holder,) = holders(1)
    now = 50.0
    async with on_screen(host_of(shown(holder.pid), process_of(31)), size=(100, 60)) as on:
        row = next(row for row in on.listing.rows if row.process.pid == holder.pid)
        on.app.push_screen(ProcessView(on.dashboard, row, clock=lambda: now))
        await on.shows(" variables")
        holder.end()
        on.feed.give(host_of(process_of(31)))
        now += 12
        on.feed.give(host_of(process_of(31)))
        text = await on.shows("EXITED 12s AGO")
        assert str(holder.pid) in text
        assert "ENVIRONMENT" in text


async def test_process_that_was_gone_when_first_seen_has_no_time_of_its_end(
    holders: Holders,
) -> None:
    (holder,) = holders(1)
    holder.end()
    gone = make_process(pid=holder.pid, create_time=None, start_ticks=None, hidden_reason="exited")
    async with view(gone) as on:
        text = await on.shows("EXITED")
        assert "AGO" not in text
        assert "K kill" not in text


async def test_end_of_one_that_had_left_its_gpu_is_when_it_ended(holders: Holders) -> None:
    (holder,) = holders(1)
    now, process = 50.0, shown(holder.pid)
    snapshot = host_of(process)

    async with on_screen(snapshot, size=(100, 60)) as on:

        def looked() -> None:
            on.app.screen.post_message(ProcessView.Inspected(inspect(process, snapshot)))

        (row,) = on.listing.rows
        on.app.push_screen(ProcessView(on.dashboard, row, clock=lambda: now))
        assert "K kill" in await on.shows("ENVIRONMENT")
        on.feed.give(host_of())
        assert "K kill" not in await on.shows("LEFT THE GPU")
        now += 60
        looked()
        await on.pilot.pause()
        holder.end()
        looked()
        await on.shows("EXITED 0s AGO")
        now += 7
        on.feed.give(host_of())
        await on.shows("EXITED 7s AGO")


async def test_process_that_lets_go_of_its_gpu_is_not_said_to_have_exited(job: int) -> None:
    async with view(shown(job)) as on:
        await on.shows("ENVIRONMENT")
        on.feed.give(host_of(process_of(31)))
        assert "EXITED" not in await on.shows("LEFT THE GPU")
        await on.give(host_of(process_of(31), shown(job)))
        assert "LEFT THE GPU" not in on.text


async def test_it_left_when_the_last_sample_had_it(job: int) -> None:
    def sampled(seconds: float, *processes: Process) -> Snapshot:
        host = make_host(hostname=HERE.hostname, uptime_seconds=1000.0 + seconds)
        return host_of(*processes, host=host)

    async with on_screen(sampled(0, shown(job)), "enter", size=(100, 60)) as on:
        await on.shows("ENVIRONMENT")
        on.feed.give(sampled(5, process_of(31)))
        await on.shows("LEFT THE GPU 5s AGO")
        on.feed.give(sampled(9, process_of(31)))
        await on.shows("LEFT THE GPU 9s AGO")


async def test_successor_under_the_same_pid_is_not_followed(holders: Holders) -> None:
    (holder,) = holders(1)
    process = shown(holder.pid)
    async with view(process) as on:
        await on.shows("ENVIRONMENT")
        on.feed.give(host_of(shown(holder.pid, create_time=1.0, start_ticks=1, username="mallory")))
        assert "mallory" not in await on.shows("LEFT THE GPU")


async def test_nothing_is_signalled_once_the_process_is_gone(job: int) -> None:
    async with view(shown(job), process_of(31)) as on:
        await on.shows("ENVIRONMENT")
        assert on.selected == job
        on.feed.give(host_of(process_of(31)))
        await on.shows("LEFT THE GPU")
        await on.press("K")
        assert isinstance(on.app.screen, ProcessView)
        assert "refused" not in on.text


async def test_the_past_before_its_first_moment_is_said_to_be_without_it(job: int) -> None:
    async with on_screen(size=(100, 60)) as on:
        for number, processes in enumerate([(), (shown(job),)]):
            host = make_host(hostname=HERE.hostname, uptime_seconds=1000.0 + number)
            on.feed.give(host_of(*processes, host=host))
        await on.press("enter")
        await on.shows("ENVIRONMENT")
        await on.press("left_square_bracket")
        await on.shows("NOT ON A GPU AT THIS MOMENT")
        await on.press("right_square_bracket")
        text = on.text
        assert "AT THIS MOMENT" not in text
        assert "LEFT" not in text


async def test_numbers_that_were_read_stay_while_the_screen_is_frozen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    every = 0.1
    monkeypatch.setattr(ProcessView, "read_seconds", every)
    async with view(shown(os.getpid())) as on:
        await on.shows("ENVIRONMENT")
        await on.press("p")
        waiting.until(lambda: not inspections())  # one that was begun before
        await on.pilot.pause()
        (before,) = (line for line in on.lines if "threads" in line)
        turns: list[None] = []
        on.app.set_interval(every, lambda: turns.append(None))
        with ExitStack() as opened:
            for number in range(99):
                opened.enter_context((tmp_path / str(number)).open("w"))
            while len(turns) < 3:
                await on.pilot.pause(every)
            assert before in on.lines


def test_of_a_command_line_that_a_snapshot_cuts_all_is_shown(holders: Holders) -> None:
    (holder,) = holders(1, ("sh", "-c", "sleep 600; true", "x" * 9000, "--token=hunter2", "end"))
    process = shown(holder.pid, command_line=("sh", "…"))
    snapshot = host_of(process)
    seen = ProcessDetails(
        ProcessRow(process, "0", None), snapshot, inspection=inspect(process, snapshot)
    )
    assert seen.command(process).endswith(f"{'x' * 4096}…' '--token=***' end")
    assert seen._replace(shows_secrets=True).command(process).endswith(" --token=hunter2 end")


SNAPSHOT = make_snapshot(4, host=HERE)


class Told:
    """What an inspector was told, awaited."""

    def __init__(self) -> None:
        self._seen: list[Inspection] = []
        self._changed = threading.Condition()

    def __call__(self, seen: Inspection) -> None:
        with self._changed:
            self._seen.append(seen)
            self._changed.notify()

    def next(self) -> Inspection:
        with self._changed:
            assert self._changed.wait_for(lambda: self._seen, WAIT_SECONDS)
            return self._seen.pop(0)


def look(inspector: Inspector, told: Told, process: Process) -> None:
    inspector.begin(process, SNAPSHOT)
    inspector.take(told.next())
    waiting.until(lambda: not inspector.is_reading)


def test_looks_beside_the_caller() -> None:
    told = Told()
    inspector = Inspector(told)
    assert inspector.waiting == "reading"
    look(inspector, told, shown(os.getpid()))
    assert inspector.waiting == ""
    assert inspector.latest.pid == os.getpid()
    assert inspector.io_rates == IoRates()
    look(inspector, told, shown(os.getpid()))
    assert inspector.io_rates.read is not None


def inspections() -> int:
    return [thread.name for thread in threading.enumerate()].count("inspection")


def test_a_look_that_hangs_is_said_and_not_repeated() -> None:
    told, release = Told(), threading.Event()

    def hang(seen: Inspection) -> None:
        """Keep the look from its end, as a read does that the kernel holds up."""
        told(seen)
        release.wait(WAIT_SECONDS)

    now = 100.0
    inspector = Inspector(hang, clock=lambda: now)
    waiting.until(lambda: not inspections())  # of earlier tests
    inspector.begin(shown(os.getpid()), SNAPSHOT)
    seen = told.next()
    now += 12
    assert inspector.waiting == "/proc has not answered for 12s"
    inspector.begin(shown(os.getpid()), SNAPSHOT)
    assert inspections() == 1
    release.set()
    inspector.take(seen)
    assert inspector.latest is seen
