import os
import pwd
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from gpudash.collect.host import LinuxReader
from gpudash.model.process import Process
from gpudash.model.snapshot import Host
from gpudash.model.text import clean, wire_size
from gpudash.system import processes as proc_stat
from gpudash.system.processes import TICK_SECONDS, in_first_pid_namespace
from tests import waiting
from tests.holders import Holder, Holders
from tests.pid_reuse import start_as

ME = os.getpid()
GONE = "exited" if in_first_pid_namespace() else "belongs to another PID namespace"


def read(pid: int, reader: LinuxReader | None = None) -> Process:
    return (reader or LinuxReader()).processes([pid])[pid]


def until(
    condition: Callable[[Process], bool], pid: int, reader: LinuxReader | None = None
) -> Process:
    """Sample until the process is as it should be."""
    reader = reader or LinuxReader()

    def found() -> Process | None:
        return process if condition(process := read(pid, reader)) else None

    return waiting.until(found, lambda: read(pid, reader))


def spend(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def in_new_pid_namespace(script: str, *arguments: str, options: str = "") -> str:
    """Run a script as the first process of a PID namespace of its own, and return its output."""
    namespace = ["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c"]
    remount = f"mount -o remount,{options} /proc && " if options else ""
    try:
        subprocess.run([*namespace, f"{remount}true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no PID namespace can be made here: {error}")
    command = [*namespace, f'{remount}exec "$@"', "sh", sys.executable, "-c", script, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_the_host_has_its_memory_and_its_load() -> None:
    host = LinuxReader().host()
    assert host.hostname == clean(os.uname().nodename)
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    assert host.cpu_count == psutil.cpu_count()
    assert host.memory_total_bytes == memory.total
    assert host.memory_available_bytes == pytest.approx(memory.available, rel=0.5)
    assert host.memory_used_bytes == host.memory_total_bytes - host.memory_available_bytes
    assert host.swap_total_bytes == swap.total
    assert host.uptime_seconds == pytest.approx(time.time() - psutil.boot_time(), abs=60)
    assert host.load_average is not None
    assert host.driver_version is None


def test_what_is_sampled_needs_no_psutil() -> None:
    code = (
        "import os, sys\n"
        "from gpudash.collect.host import LinuxReader\n"
        "reader = LinuxReader()\n"
        "host, own = reader.host(), reader.processes([os.getpid()])[os.getpid()]\n"
        "assert own.create_time and host.memory_total_bytes and reader.holders([0], [])\n"
        "sys.exit('psutil' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_cpu_of_the_host_is_that_since_boot_and_then_since_the_last_sample() -> None:
    def idle_and_all() -> tuple[float, float]:
        times = psutil.cpu_times()
        return times.idle + times.iowait, sum(times) - times.guest - times.guest_nice

    reader = LinuxReader()
    idle, total = idle_and_all()
    since_boot = reader.host().cpu_percent
    later_idle, later_total = idle_and_all()
    assert since_boot is not None
    assert 100 * (1 - later_idle / total) - 0.1 <= since_boot
    assert since_boot <= 100 * (1 - idle / later_total) + 0.1
    spend(0.2)
    since_then = reader.host().cpu_percent
    assert since_then is not None
    assert since_then > 10 / (os.cpu_count() or 1)


def test_two_samples_at_once_give_the_same_share() -> None:
    reader = LinuxReader()
    hosts: list[Host] = [reader.host() for _ in range(20)]
    assert all(host.cpu_percent is not None for host in hosts)
    passed = TICK_SECONDS
    while passed >= TICK_SECONDS:
        start = time.monotonic()
        first, second = read(ME, reader), read(ME, reader)
        passed = time.monotonic() - start
    assert first.cpu_percent == second.cpu_percent


def test_tells_everything_about_an_own_process(job: Holder) -> None:
    process = until(
        lambda process: process.status == "sleeping" and process.cpu_percent == 0, job.pid
    )
    oracle = psutil.Process(job.pid)
    assert process.devices == ()
    assert process.username == pwd.getpwuid(os.getuid()).pw_name
    assert process.name == "sleep"
    assert process.command_line == ("sleep", "600")
    assert process.resident_memory_bytes == pytest.approx(oracle.memory_info().rss, rel=0.5)
    assert process.create_time == pytest.approx(oracle.create_time(), abs=0.001)
    assert process.parent_pid == ME
    assert process.hidden_reason is None


def test_a_first_share_of_cpu_is_that_over_the_life(holders: Holders) -> None:
    (holder,) = holders(1, ("sh", "-c", "while :; do :; done"))

    def used_and_age() -> tuple[float, float]:
        stat = proc_stat.read_stat(holder.pid)
        assert stat is not None
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        return stat.cpu_seconds, now - stat.started_seconds

    used, age = waiting.until(lambda: (found := used_and_age())[0] > 0.1 and found)  # type: ignore[misc]
    cpu_percent = read(holder.pid).cpu_percent
    later_used, later_age = used_and_age()
    assert cpu_percent is not None
    assert 100 * used / later_age - 0.1 <= cpu_percent <= 100 * later_used / age + 0.1


def test_a_later_share_of_cpu_is_that_since_the_last_sample() -> None:
    def used_and_now() -> tuple[float, float]:
        return time.process_time(), time.monotonic()

    reader, outer = LinuxReader(), used_and_now()
    read(ME, reader)
    inner = used_and_now()
    spend(0.2)
    used, passed = (after - before for after, before in zip(used_and_now(), inner, strict=True))
    cpu_percent = read(ME, reader).cpu_percent
    max_used, max_passed = (
        after - before for after, before in zip(used_and_now(), outer, strict=True)
    )
    assert cpu_percent is not None
    # Its time is counted in ticks.
    assert 100 * (used - 2 * TICK_SECONDS) / max_passed <= cpu_percent
    assert cpu_percent <= 100 * (max_used + 2 * TICK_SECONDS) / passed


def test_every_pid_has_one_entry(holders: Holders) -> None:
    pids = [holder.pid for holder in holders(3)]
    asked = [*pids, 0, -1, 1 << 22, 1 << 31, 1 << 70]
    processes = LinuxReader().processes(asked)
    assert list(processes) == asked
    assert [processes[pid].hidden_reason for pid in asked[:3]] == [None] * 3
    assert {processes[pid].hidden_reason for pid in asked[3:]} == {GONE}


@pytest.mark.parametrize(
    ("argument", "shown"),
    [
        (b"\x1b]0;owned\x07\x1b[31m", "\\x1b]0;owned\\x07\\x1b[31m"),
        (b"two\nlines\r", "two\\nlines\\r"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("a\u202eb".encode(), "a\\u202eb"),
        (b"[/x][@click=app.quit]", "[/x][@click=app.quit]"),
        (b"", ""),
    ],
)
def test_a_hostile_argument_is_harmless_text(holders: Holders, argument: bytes, shown: str) -> None:
    (holder,) = holders(1, (b"sh", b"-c", b"sleep 600; true", argument, b"end"))
    process = until(lambda process: process.name == "sh" and process.command_line, holder.pid)
    assert process.command_line == ("sh", "-c", "sleep 600; true", shown, "end")


def test_an_argument_of_100_kilobytes_is_cut(holders: Holders) -> None:
    (holder,) = holders(1, ("sh", "-c", "sleep 600; true", "x" * 100_000, "end"))
    process = until(lambda process: process.name == "sh" and bool(process.command_line), holder.pid)
    assert process.command_line[3] == "x" * (len(process.command_line[3]) - 1) + "…"
    assert 4000 < sum(map(wire_size, process.command_line)) <= 4096


def test_a_command_line_of_many_arguments_is_cut(holders: Holders) -> None:
    (holder,) = holders(1, ("sh", "-c", "sleep 600; true", *["word"] * 5000))
    process = until(lambda process: process.name == "sh" and bool(process.command_line), holder.pid)
    assert process.command_line[-2:] == ("word", "…")
    assert len(process.command_line) < 1000


def test_a_zombie_is_reported_as_one_and_keeps_its_command_line() -> None:
    with subprocess.Popen(("sleep", "600")) as child:
        reader = LinuxReader()
        # In the midst of exec a process has its new name and no arguments yet.
        until(lambda process: process.command_line == ("sleep", "600"), child.pid, reader)
        child.kill()
        process = until(lambda process: process.status == "zombie", child.pid, reader)
        assert process.command_line == ("sleep", "600")
        assert read(child.pid).name == "sleep"
        assert read(child.pid).parent_pid == ME


def test_a_process_that_exits_between_two_samples_keeps_an_entry(holders: Holders) -> None:
    reader = LinuxReader()
    started = holders(30)
    pids = [holder.pid for holder in started]
    assert {process.hidden_reason for process in reader.processes(pids).values()} == {None}
    for holder in started:
        holder.end()
    processes = reader.processes(pids)
    assert {process.hidden_reason for process in processes.values()} == {GONE}
    assert {process.create_time for process in processes.values()} == {None}


def test_a_reused_pid_is_another_process() -> None:
    reader = LinuxReader()
    with subprocess.Popen(("sleep", "600")) as first:
        before = until(lambda process: process.name == "sleep", first.pid, reader)
        spend(2 * proc_stat.TICK_SECONDS)
        first.kill()
    with start_as(first.pid, ("tail", "-f", "/dev/null")) as second:
        after = until(lambda process: process.name == "tail", second.pid, reader)
        second.kill()
    assert after.command_line == ("tail", "-f", "/dev/null")
    assert after.key != before.key


def test_a_pid_namespace_is_reported_once_and_its_outside_is_hidden() -> None:
    script = (
        "import sys; from gpudash.collect.host import LinuxReader; reader = LinuxReader()\n"
        "outside, itself = reader.processes([int(sys.argv[1]), 1]).values()\n"
        "print(outside.hidden_reason, itself.hidden_reason, len(reader.faults()), sep='|')\n"
        "print(reader.faults()[0].source, reader.faults()[0].message, sep='|')\n"
    )
    first, second = in_new_pid_namespace(script, str(1 << 20)).splitlines()
    assert first == "belongs to another PID namespace|None|1"
    assert second.startswith("processes|")
    assert "--pid=host" in second


def test_a_pid_that_was_taken_since_the_listing_does_not_mean_an_exit_in_a_pid_namespace() -> None:
    script = (
        "from gpudash.collect.host import LinuxReader\n"
        "print(LinuxReader().processes([1], {1: 1.0})[1].hidden_reason)\n"
    )
    assert in_new_pid_namespace(script) == "belongs to another PID namespace\n"


def test_a_process_that_proc_hides_is_not_taken_for_exited() -> None:
    script = (
        "import os, subprocess; from gpudash.collect.host import LinuxReader\n"
        "reader = LinuxReader(); other = subprocess.Popen(['sleep', '60'])\n"
        "os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)\n"
        "print(reader.processes([other.pid])[other.pid].hidden_reason, flush=True)\n"
        "os._exit(0)\n"
    )
    output = in_new_pid_namespace(script, options="hidepid=2")
    assert output == "hidden process of another user\n"


def test_nothing_is_hidden_in_the_first_pid_namespace() -> None:
    if not in_first_pid_namespace():
        pytest.skip("these tests run in a PID namespace")
    assert LinuxReader().faults() == ()
