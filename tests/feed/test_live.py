import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudash.feed.collector import lingering
from gpudash.feed.live import LiveFeed
from gpudash.feed.protocol import FeedState
from gpudash.feed.supervisor import Limits
from gpudash.model.device import Device
from gpudash.model.fault import XidEvent
from gpudash.model.snapshot import Host, Snapshot
from gpudash.model.wire import Received, decode, encode
from gpudash.system.fork import ForkedProcess
from tests.feed.clock import Clock
from tests.undying import undying


def line(hostname: str = "node") -> str:
    return encode(
        Snapshot(host=Host(hostname=hostname), taken_at=datetime(2026, 1, 1, tzinfo=timezone.utc))
    ).decode()


def collector(body: str) -> list[str]:
    return [sys.executable, "-S", "-c", f"import os, sys, time, signal\nLINE = {line()!r}\n{body}"]


async def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


class Listener:
    def __init__(
        self, body: str, clock: Callable[[], float] = time.monotonic, **limits: float
    ) -> None:
        self.snapshots: list[Snapshot] = []
        self.changes = 0
        self.feed = LiveFeed(collector(body), 0.1, decode, limits=Limits(**limits), clock=clock)

    async def __aenter__(self) -> "Listener":
        self.feed.start()
        self.feed.attach(asyncio.get_running_loop(), self.take, self._change)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.feed.stop()

    def take(self, received: Sequence[Received[Snapshot]], after_jump: bool) -> None:
        assert not after_jump
        assert all(encode(each.snapshot) == each.line for each in received)
        self.snapshots += [each.snapshot for each in received]

    def _change(self) -> None:
        self.changes += 1


SLEEP = "\ntime.sleep(60)"


async def test_a_collector_that_runs_already_is_the_first_and_a_command_the_next() -> None:
    def speak() -> None:
        os.write(1, f"{line('first')}\n".encode())

    forked = ForkedProcess(speak)
    feed = LiveFeed(
        collector(f"print({line('next')!r}, flush=True)" + SLEEP), 0.1, decode, forked=forked
    )
    seen: list[str | None] = []
    feed.start()
    feed.attach(
        asyncio.get_running_loop(), lambda new, _: seen.append(new[0].snapshot.host.hostname), int
    )
    await until(lambda: "next" in seen)
    assert seen[0] == "first"
    feed.stop()


async def test_a_bad_line_is_an_error_until_the_next_snapshot() -> None:
    body = (
        "print('{\"schema\": 1', flush=True)\nsys.stdin.readline(); print(LINE, flush=True)" + SLEEP
    )
    async with Listener(body) as listener:
        await until(lambda: listener.feed.error)
        assert listener.changes == 1
        listener.feed.change_interval(0.2)
        await until(lambda: listener.snapshots)
        assert listener.feed.error is None


async def test_reports_status_and_last_line_of_a_collector_that_ends() -> None:
    body = "sys.stderr.write('noise\\ngpudash: no \\x1b[2Jdriver\\n'); sys.exit(9)"
    async with Listener(body, retry=60) as listener:
        await until(lambda: listener.feed.exit_status is not None)
        assert listener.feed.exit_status == 9
        assert listener.feed.error == "gpudash: no \\x1b[2Jdriver"
        assert listener.feed.state is FeedState.RESTARTING


XID = Device(index=0, uuid="GPU-1", xid_events=(XidEvent(code=48, seen_at=1.0),))


async def test_what_one_that_tells_nothing_of_a_gpu_was_given_goes_to_the_next() -> None:
    reported = encode(replace(decode(line().encode()), devices=(XID,))).decode()
    body = (
        "given = 'GPU-1' in os.environ.get('GPUDASH_XID_HANDOVER', '')\n"
        f"print(LINE.replace('node', 'heir') if given else {reported!r}, flush=True)" + SLEEP
    )
    async with Listener(body) as listener:
        await until(lambda: listener.snapshots)
        for count in (2, 3):
            listener.feed.resume()
            await until(lambda count=count: len(listener.snapshots) == count)  # type: ignore[misc]
            assert listener.snapshots[-1].host.hostname == "heir"


async def test_missing_command_is_an_error_line_and_is_tried_again(tmp_path: Path) -> None:
    command = tmp_path / "collector"
    feed = LiveFeed([str(command)], 1, decode, limits=Limits(retry=0.01))
    got: list[Snapshot] = []
    feed.start()
    feed.attach(asyncio.get_running_loop(), lambda new, _: got.extend(new), lambda: None)
    await until(lambda: feed.error)
    assert str(command) in str(feed.error)
    later = tmp_path / "later"
    later.write_text(f"#!/bin/sh\necho '{line()}'; exec sleep 60\n")
    later.chmod(0o700)
    later.rename(command)
    await until(lambda: got)
    feed.stop()


async def test_silence_makes_it_stale_with_its_age() -> None:
    clock = Clock()
    async with Listener("print(LINE, flush=True)" + SLEEP, clock=clock) as listener:
        await until(lambda: listener.snapshots)
        clock.now += 4.9
        assert listener.feed.state is FeedState.LIVE
        clock.now += 2
        assert listener.feed.state is FeedState.STALE
        assert listener.feed.age == pytest.approx(6.9)


async def test_poll_waits_for_all_of_a_line_that_arrives_in_pieces() -> None:
    pieces = "os.write(1, LINE[:9].encode()); time.sleep(0.1); print(LINE[9:], flush=True)"
    feed = LiveFeed(collector(pieces + SLEEP), 1.0, decode)
    feed.start()
    assert feed.poll(60) is not None
    feed.stop()


async def test_hung_collector_is_replaced_without_waiting(tmp_path: Path) -> None:
    flag = tmp_path / "hung"
    body = (
        "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGTERM, signal.SIGHUP)]\n"
        f"if not os.path.exists({str(flag)!r}):\n"
        f"    open({str(flag)!r}, 'w').close(); time.sleep(60)\n"
        "print(LINE, flush=True)" + SLEEP
    )
    async with Listener(body, stale=0.3, hung=0.6) as listener:
        await until(flag.exists)
        await until(lambda: listener.snapshots)
        # It falls silent again, and then has another one.
        await until(lambda: listener.feed.state is FeedState.LIVE)


async def test_a_stopped_collector_is_ended_too() -> None:
    async with Listener("print(LINE.replace('node', str(os.getpid())), flush=True)" + SLEEP) as it:
        await until(lambda: it.snapshots)
        pid = int(str(it.snapshots[-1].host.hostname))
        os.kill(pid, signal.SIGSTOP)
        it.feed.stop()
    await until(lambda: lingering() == 0)
    assert not Path("/proc", str(pid)).exists()


async def test_waiting_for_a_restart_is_not_taken_for_silence(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    body = f"open({str(starts)!r}, 'a').write('x'); sys.exit('driver gone')"
    clock = Clock()
    async with Listener(body, clock=clock, stale=5, hung=30, retry=100) as listener:
        await until(lambda: listener.feed.exit_status is not None)
        clock.now += 90
        listener.feed.change_interval(0.2)
        assert listener.feed.error == "gpudash: driver gone"
        assert listener.feed.state is FeedState.RESTARTING
        assert starts.read_text() == "x"
        clock.now += 10
        listener.feed.change_interval(0.1)
        await until(lambda: starts.read_text() == "xx")
        assert listener.feed.error == "gpudash: driver gone"


async def test_another_interval_is_asked_to_the_collector_that_runs() -> None:
    body = (
        'print(LINE.replace("node", "begun"), flush=True)\n'
        'for line in sys.stdin: print(LINE.replace("node", line.strip()), flush=True)'
    )
    async with Listener(body) as listener:
        await until(lambda: listener.snapshots)
        for seconds in (0.2, 0.5, 1.0):
            listener.feed.change_interval(seconds)
        await until(lambda: len(listener.snapshots) == 4)
        hosts = [snapshot.host.hostname for snapshot in listener.snapshots]
        assert hosts == ["begun", "0.2", "0.5", "1.0"]
        assert listener.feed.interval == 1.0


async def test_one_that_is_started_later_has_the_interval_that_was_chosen() -> None:
    body = "print(LINE.replace('node', sys.argv[-1]), flush=True)" + SLEEP
    feed = LiveFeed(collector(body), 0.1, decode)
    hosts: list[str | None] = []
    feed.start()
    feed.attach(
        asyncio.get_running_loop(), lambda new, _: hosts.append(new[0].snapshot.host.hostname), int
    )
    await until(lambda: hosts)
    feed.change_interval(0.5)
    feed.resume()
    await until(lambda: "0.5" in hosts)
    feed.stop()


async def fallen_silent(
    interval: float, *, stale_seconds: float
) -> tuple[LiveFeed, list[FeedState]]:
    """A feed that has sent one snapshot, and its states from then on."""
    states: list[FeedState] = []
    feed = LiveFeed(
        collector("print(LINE, flush=True)" + SLEEP),
        interval,
        decode,
        limits=Limits(stale=stale_seconds),
    )
    feed.start()
    loop = asyncio.get_running_loop()
    feed.attach(loop, lambda _new, _: None, lambda: states.append(feed.state))
    await until(lambda: feed.latest)
    return feed, states


async def test_silence_is_noticed_by_the_interval_that_was_chosen() -> None:
    feed, states = await fallen_silent(60.0, stale_seconds=0.05)
    feed.change_interval(0.01)
    await until(lambda: FeedState.STALE in states)
    feed.stop()


async def test_silence_is_noticed_however_often_the_interval_is_changed() -> None:
    feed, states = await fallen_silent(0.01, stale_seconds=0.2)

    def is_told() -> bool:
        feed.change_interval(0.03 - feed.interval)
        return FeedState.STALE in states

    await until(is_told)
    feed.stop()


async def test_released_it_has_no_collector_until_it_resumes() -> None:
    body = "while True: print(LINE, flush=True); time.sleep(0.05)"
    async with Listener(body) as listener:
        await until(lambda: listener.snapshots)
        listener.feed.release()
        assert listener.feed.state is FeedState.RELEASED
        await until(lambda: lingering() == 0)
        count = len(listener.snapshots)
        await until(lambda: listener.feed.age > 0.3)
        assert len(listener.snapshots) == count
        listener.feed.resume()
        await until(lambda: len(listener.snapshots) > count)
        assert listener.feed.state is FeedState.LIVE


async def test_what_was_seen_before_a_release_is_not_live_after_it(tmp_path: Path) -> None:
    flag, go = tmp_path / "ran", tmp_path / "go"
    body = (
        f"while os.path.exists({str(flag)!r}) and not os.path.exists({str(go)!r}): "
        "time.sleep(0.01)\n"
        f"open({str(flag)!r}, 'w').close()\nprint(LINE, flush=True)" + SLEEP
    )
    async with Listener(body) as listener:
        await until(lambda: listener.snapshots)
        listener.feed.release()
        listener.feed.resume()
        assert listener.feed.state is FeedState.RESTARTING
        go.touch()
        await until(lambda: len(listener.snapshots) == 2)
        assert listener.feed.state is FeedState.LIVE


async def test_released_it_does_not_wait_for_a_collector_that_cannot_die() -> None:
    body = (
        'LINE = LINE.replace("node", str(os.getpid()))\n'
        "while True: print(LINE, flush=True); time.sleep(0.05)"
    )
    async with Listener(body) as listener:
        await until(lambda: listener.snapshots)
        stuck = listener.snapshots[-1].host.hostname
        await until(lambda: lingering() == 0)
        with undying(int(stuck)):
            listener.feed.release()
            assert listener.feed.state is FeedState.RELEASED
            count = len(listener.snapshots)
            await until(lambda: listener.feed.age > 0.3)
            assert len(listener.snapshots) == count
            assert lingering() == 1
            listener.feed.resume()
            await until(lambda: len(listener.snapshots) > count)
            assert listener.feed.state is FeedState.LIVE
            assert listener.snapshots[-1].host.hostname != stuck
            assert lingering() == 1
        await until(lambda: lingering() == 0)


async def test_released_while_it_waits_for_a_restart_it_starts_none(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    body = f"open({str(starts)!r}, 'a').write('x'); sys.exit('driver gone')"
    async with Listener(body, retry=0.2) as listener:
        await until(lambda: listener.feed.exit_status is not None)
        listener.feed.release()
        await until(lambda: lingering() == 0)
        before = starts.read_text()
        await until(lambda: listener.feed.age > 1.0)
        assert starts.read_text() == before
