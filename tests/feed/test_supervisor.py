import sys
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace

from gpudash.feed.supervisor import CollectorError, Limits, Output, Supervisor
from gpudash.model.snapshot import Snapshot
from gpudash.model.wire import Received, decode, encode
from tests.factories import make_snapshot
from tests.feed.clock import Clock

LINE = encode(make_snapshot(1)).decode()
LIMITS = Limits(stale=5.0, hung=30.0, max_hung=100.0, retry=1.0, max_retry=8.0, max_refused_retry=2)


class Collectors(list[Supervisor[Snapshot]]):
    def start(self, script: str, clock: Clock) -> Supervisor[Snapshot]:
        argv = [sys.executable, "-S", "-c", f"import sys, time; LINE = {LINE!r}\n{script}"]
        self.append(Supervisor(argv, 1.0, decode, limits=LIMITS, clock=clock))
        self[-1].start()
        return self[-1]


@pytest.fixture
def collectors() -> Iterator[Collectors]:
    started = Collectors()
    yield started
    for each in started:
        each.close()


def until_down(supervisor: Supervisor) -> None:
    while supervisor.is_running:
        supervisor.wait(60.0)
        supervisor.advance()


@pytest.mark.parametrize(
    ("status", "waits"), [(1, [1, 2, 4, 8, 8]), (9, [1, 2, 2, 2, 2]), (231, [1, 2, 2])]
)
def test_retries_come_later_each_time_but_soon_after_a_refusal_of_nvml(
    collectors: Collectors, clock: Clock, status: int, waits: list[float]
) -> None:
    supervisor = collectors.start(f"sys.exit({status})", clock)
    for seconds in waits:
        until_down(supervisor)
        assert supervisor.due_in() == seconds
        assert supervisor.exit_status == status
        assert isinstance(supervisor.failure, CollectorError)
        clock.now += seconds
        supervisor.advance()
        assert supervisor.is_running
        assert supervisor.is_restarting


def test_a_variable_for_the_collector_is_one_of_all_that_are_started(clock: Clock) -> None:
    script = "import os, sys; sys.exit(os.environ['GPUDASH_SCRAPE'])"
    argv, environ = [sys.executable, "-S", "-c", script], {"GPUDASH_SCRAPE": "http://n1:9400"}
    with closing(Supervisor(argv, 1.0, decode, environ=environ, limits=LIMITS, clock=clock)) as it:
        it.start()
        for _ in range(2):
            until_down(it)
            assert str(it.failure) == "http://n1:9400"
            clock.now += it.due_in()
            it.advance()


def test_a_collector_that_lingers_behind_its_output_has_no_status(
    collectors: Collectors, clock: Clock
) -> None:
    supervisor = collectors.start("import os; os.close(1); time.sleep(60)", clock)
    while supervisor.descriptor is not None:
        supervisor.wait(60.0)
        supervisor.advance()
    clock.now += LIMITS.exit
    supervisor.advance()
    assert not supervisor.is_running
    assert str(supervisor.failure) == "the collector closed its output"
    assert supervisor.exit_status is None


def test_each_hung_collector_is_given_more_time(collectors: Collectors, clock: Clock) -> None:
    supervisor = collectors.start("time.sleep(60)", clock)
    for seconds in (30, 60, 100, 100):
        pid = supervisor.pid
        assert supervisor.due_in() == 5
        clock.now += seconds - 1
        assert supervisor.due_in() == 1
        assert supervisor.advance() == []
        assert supervisor.pid == pid
        clock.now += 1
        assert supervisor.advance() == []
        assert supervisor.pid != pid
        assert "no answer for" in str(supervisor.failure)


@pytest.mark.sweep
def test_a_driver_that_hangs_for_days_is_asked_again_and_again(clock: Clock) -> None:
    argv = ["/bin/sh", "-c", "read line; read line"]
    with closing(Supervisor(argv, 1.0, decode, limits=LIMITS, clock=clock)) as it:
        it.start()
        for _ in range(1100):
            clock.now += LIMITS.max_hung
            it.advance()
        assert it.hung_after == LIMITS.max_hung


def test_a_sample_is_the_end_of_all_trouble(collectors: Collectors, clock: Clock) -> None:
    supervisor = collectors.start(
        "sys.stdin.readline(); print(LINE, flush=True); time.sleep(60)", clock
    )
    clock.now += 30
    supervisor.advance()
    assert supervisor.failure
    supervisor.change_interval(2.0)
    while not (samples := supervisor.advance()):
        supervisor.wait(60.0)
    assert [sample.line.decode() for sample in samples] == [LINE]
    assert (supervisor.failure, supervisor.is_restarting, supervisor.age) == (None, False, 0)
    assert supervisor.stale_after == 6


BRIEF = encode(replace(make_snapshot(1), brief=True)).decode()


def test_a_brief_snapshot_is_no_sample(collectors: Collectors, clock: Clock) -> None:
    supervisor = collectors.start(f"print({BRIEF!r}, flush=True); time.sleep(60)", clock)
    while supervisor.preview is None:
        supervisor.wait(60.0)
        assert supervisor.advance() == []
    assert supervisor.latest is None
    assert supervisor.latest_line == b""


def test_a_brief_snapshot_gives_way_to_the_first_whole_one(
    collectors: Collectors, clock: Clock
) -> None:
    script = f"print({BRIEF!r}); print(LINE); print({BRIEF!r}, flush=True); time.sleep(60)"
    supervisor = collectors.start(script, clock)
    samples: list[Received[Snapshot]] = []
    while not samples:
        supervisor.wait(60.0)
        samples += supervisor.advance()
    assert [sample.snapshot.brief for sample in samples] == [False]
    assert supervisor.preview is None
    assert supervisor.latest is samples[-1].snapshot


def test_empty_lines_are_output_too() -> None:
    command = ["sh", "-c", "yes '' | head -c 70000"]
    with closing(Output(command, 60.0, max_bytes=1 << 16)) as output:
        output.start()
        while output.is_running:
            output.wait(60.0)
            output.advance()
        assert output.failure == "more than 0 MiB"
