import os
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from gpudash.collect.processes import ProcessReader
from gpudash.model.process import Process
from gpudash.system import processes as proc_stat
from gpudash.system.processes import Facts, ProcStat
from tests import waiting
from tests.holders import Holder, Holders

ME = os.getpid()
COMM = Path("/proc/self/comm")
SETTLED = Facts(username="alice", command_line=("python", "train.py"))


class Asked:
    """Answers with facts, and counts how often it was asked for each PID."""

    def __init__(self, *answers: Facts | None) -> None:
        self._answers = list(answers)
        self.count = 0

    def __call__(self, pid: int, stat: ProcStat) -> Facts | None:
        self.count += 1
        return self._answers.pop(0) if self._answers else SETTLED


def test_facts_are_asked_for_once_while_a_process_stays() -> None:
    facts = Asked()
    table = ProcessReader(facts)
    for _ in range(5):
        assert table.sample([ME])[ME].username == "alice"
    assert facts.count == 1


def test_a_process_in_the_midst_of_exec_is_asked_again() -> None:
    table = ProcessReader(Asked(Facts(username="alice")))
    assert table.sample([ME])[ME].command_line is None
    assert table.sample([ME])[ME].command_line == SETTLED.command_line


def test_another_program_does_not_get_the_arguments_of_the_one_before() -> None:
    name = COMM.read_text()
    table = ProcessReader(Asked(SETTLED, Facts(username="alice")))
    assert table.sample([ME])[ME].command_line == SETTLED.command_line
    try:
        COMM.write_text("other")
        assert table.sample([ME])[ME].command_line is None
    finally:
        COMM.write_text(name.rstrip())


def test_a_process_that_was_left_out_is_forgotten() -> None:
    facts = Asked()
    table = ProcessReader(facts)
    table.sample([ME])
    table.sample([])
    table.sample([ME])
    assert facts.count == 2


def test_facts_that_cannot_be_had_leave_a_row() -> None:
    process = ProcessReader(Asked(None)).sample([ME])[ME]
    assert process.username is None
    assert process.status == "running"
    assert process.hidden_reason is None


def test_memory_stays_flat_over_ten_thousand_ticks_of_new_pids() -> None:
    table = ProcessReader(Asked())
    absent = 1 << 24

    def ticks(first: int, count: int) -> None:
        for tick in range(first, first + count):
            table.sample([ME, absent + tick])

    ticks(0, 100)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        ticks(100, 10_000)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 50_000


def test_a_process_is_reported_by_when_it_started_since_boot() -> None:
    process = ProcessReader(Asked()).sample([ME])[ME]
    stat = proc_stat.read_stat(ME)
    assert process.start_ticks == stat.start_ticks
    assert process.key == (ME, stat.start_ticks)


def test_a_process_that_started_after_it_was_listed_is_another(
    holders: Holders,
) -> None:
    listed_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    (holder,) = holders(1)
    process = ProcessReader(Asked()).sample([holder.pid], {holder.pid: listed_at})[holder.pid]
    assert process.hidden_reason == "exited"
    assert (process.username, process.start_ticks, process.create_time) == (None, None, None)


def test_a_process_that_started_before_it_was_listed_is_that_one() -> None:
    process = ProcessReader(Asked()).sample([ME], {ME: time.clock_gettime(time.CLOCK_BOOTTIME)})[ME]
    assert process.hidden_reason is None
    assert process.username == "alice"


def sample(table: ProcessReader, holder: Holder) -> Process:
    return table.sample([holder.pid])[holder.pid]


def test_a_process_at_rest_is_reported_as_before(job: Holder) -> None:
    table = ProcessReader(Asked())

    def rests() -> bool:
        process = sample(table, job)
        return process.status == "sleeping" and process.cpu_percent == 0.0

    waiting.until(rests)
    waiting.until(lambda: sample(table, job) is sample(table, job))


def test_memory_that_a_process_takes_is_reported_at_the_next_sample() -> None:
    table = ProcessReader(Asked())
    table.sample([ME])
    before = table.sample([ME])[ME].resident_memory_bytes
    block = bytearray(os.urandom(1 << 26))
    after = table.sample([ME])[ME].resident_memory_bytes
    assert before is not None
    assert after is not None
    assert after - before > len(block) // 2


def test_a_process_that_has_ended_is_not_reported_from_its_open_file(
    job: Holder,
) -> None:
    table = ProcessReader(Asked())
    for _ in range(3):
        assert table.sample([job.pid])[job.pid].hidden_reason is None
    job.end()
    assert table.sample([job.pid])[job.pid].hidden_reason is not None


def test_of_a_process_that_exits_its_owner_and_name_stay_known(
    job: Holder,
) -> None:
    if not proc_stat.in_first_pid_namespace():
        pytest.skip("these tests run in a PID namespace")
    table = ProcessReader(Asked(Facts(username="alice", name="sleep", command_line=("sleep",))))
    before = table.sample([job.pid])[job.pid]
    job.end()
    for _ in range(3):
        after = table.sample([job.pid])[job.pid]
        assert after.hidden_reason == "exited"
        assert (after.username, after.name, after.key) == ("alice", "sleep", before.key)
        assert (after.command_line, after.status, after.cpu_percent) == (None, None, None)
    table.sample([])
    assert table.sample([job.pid])[job.pid].username is None


def test_files_of_processes_that_are_not_asked_for_are_closed() -> None:
    table = ProcessReader(Asked())
    table.sample([ME])
    table.sample([ME])
    assert _open_files().count(f"/proc/{ME}/stat") == 1
    table.sample([])
    assert _open_files().count(f"/proc/{ME}/stat") == 0


def _open_files() -> list[str]:
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the listing itself is closed again
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return links
