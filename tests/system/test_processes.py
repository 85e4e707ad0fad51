import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from subprocess import PIPE, Popen

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.system import processes
from tests import waiting
from tests.holders import Holders

NUMBERS = b"100 4242 4242 0 -1 4194560 5 0 0 0 150 50 0 0 20 0 1 0 123456 1 2"
"""The fields of a stat line from the parent on, up to resident pages."""

ABSENT_PID = 1 << 30


@pytest.mark.parametrize("pid", [1, os.getpid()], ids=["init", "self"])
def test_agrees_with_psutil(pid: int) -> None:
    process = psutil.Process(pid)
    stat = processes.read_stat(pid)
    boot_time = processes.boot_time()
    assert stat is not None
    assert boot_time == psutil.boot_time()
    assert boot_time + stat.started_seconds == pytest.approx(process.create_time(), abs=0.001)
    assert stat.parent_pid == process.ppid()
    assert stat.session_id == os.getsid(pid)
    assert stat.has_terminal == (process.terminal() is not None)
    times = process.cpu_times()
    assert times.user + times.system == pytest.approx(stat.cpu_seconds, abs=10)
    assert not stat.is_kernel_thread


def test_resident_memory_agrees_with_psutil() -> None:
    oracle = psutil.Process().memory_info().rss
    assert processes.resident_memory_bytes(os.getpid()) == pytest.approx(oracle, rel=0.5)


@pytest.mark.parametrize("name", [b"python", b"a b", b") R 1 (", b"\xff\x1b[31m\n", b""])
def test_a_name_never_shifts_the_fields(name: bytes) -> None:
    assert processes.parse_stat(b"4242 (" + name + b") S " + NUMBERS) == processes.ProcStat(
        name=name,
        status="sleeping",
        parent_pid=100,
        session_id=4242,
        is_kernel_thread=False,
        cpu_seconds=200 * processes.TICK_SECONDS,
        thread_count=1,
        start_ticks=123456,
    )


def test_recognises_a_kernel_thread_by_its_flag() -> None:
    stat = processes.parse_stat(b"31 (kswapd0) S " + NUMBERS.replace(b"4194560", b"2129984"))
    assert stat.is_kernel_thread


def test_each_thread_has_its_own_state() -> None:
    blocked = threading.Event()
    thread = threading.Thread(target=blocked.wait)
    thread.start()
    try:
        # Threads of earlier tests may end meanwhile.
        waiting.until(
            lambda: len(processes.threads(os.getpid())) == len(psutil.Process().threads()) > 1
        )
    finally:
        blocked.set()
        thread.join()


def test_a_start_is_reported_from_another_one_tick_later() -> None:
    stat = processes.read_stat(os.getpid())
    assert stat is not None
    created = psutil.Process().create_time()
    assert processes.is_start_of(stat, None, created)
    assert not processes.is_start_of(stat, None, created + processes.TICK_SECONDS)
    assert not processes.is_start_of(stat, None, None)


def test_ticks_tell_a_start_whatever_the_wall_clock_says() -> None:
    stat = processes.read_stat(os.getpid())
    assert processes.is_start_of(stat, stat.start_ticks, 1.0)
    assert not processes.is_start_of(stat, stat.start_ticks + 1, psutil.Process().create_time())


def test_an_absent_process_is_none() -> None:
    assert processes.read_stat(ABSENT_PID) is None
    assert processes.resident_memory_bytes(ABSENT_PID) is None
    assert processes.threads(ABSENT_PID) == ()


@given(st.binary() | st.lists(st.sampled_from([b"9" * 19, b"1", b")", b"S", b"x"])).map(b" ".join))
def test_any_line_is_a_process_or_none(line: bytes) -> None:
    stat = processes.parse_stat(line)
    assert stat is None or stat.status in {"sleeping", "unknown"}


UNKNOWN_UID = 3_999_999_999


def test_facts_agree_with_psutil() -> None:
    oracle, stat = psutil.Process(), processes.read_stat(os.getpid())
    assert stat is not None
    facts = processes.facts(os.getpid(), stat)
    assert facts.username == oracle.username()
    assert facts.command_line == tuple(oracle.cmdline())
    assert facts.name == oracle.name()


FORGER = """
import ctypes, mmap, os, sys, time
libc = ctypes.CDLL(None)
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
field = lambda number: int(fields[number - 3])
size = 1 << 28
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
start = ctypes.addressof(ctypes.c_char.from_buffer(area))
area[:11] = b"forged\\0-v\\0\\0"
libc.sbrk.restype = ctypes.c_void_p
brk = libc.sbrk(0)
limits = [field(26), field(27), field(45), field(46), field(47), brk, field(28)]
limits += [start, start + size, start, start + size, 0]
layout = (ctypes.c_uint64 * 13)(*limits, 0xFFFFFFFF << 32)
libc.prctl(15, ctypes.c_char_p(b"Uid:\\t4242\\t0\\t0"), 0, 0, 0)
print(libc.prctl(35, 14, layout, 104, 0), flush=True)
time.sleep(600)
"""
"""Claims 256 MiB of arguments and environment, and an owner that it does not have."""


def test_no_process_forges_its_owner_or_floods_its_reader() -> None:
    with subprocess.Popen((sys.executable, "-c", FORGER), stdout=subprocess.PIPE) as forger:
        answer, stat = forger.stdout.readline(), processes.read_stat(forger.pid)
        assert stat is not None
        tracemalloc.start()
        facts = processes.facts(forger.pid, stat)
        environment = processes.read_environ(forger.pid, 1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        forger.kill()
    assert facts.username == processes.username(os.getuid())
    assert peak < 1 << 20
    if answer == b"0\n":  # a kernel without checkpoint and restore refuses it
        assert facts.command_line == ("forged", "-v", "…")
        assert len(environment) == 1000


def test_what_is_gone_is_none() -> None:
    assert processes.read_status(ABSENT_PID) is None
    assert processes.command_line(ABSENT_PID) is None
    assert processes.has_device_open(ABSENT_PID) is None


def test_a_user_without_a_name_is_a_number() -> None:
    assert processes.username(UNKNOWN_UID) == str(UNKNOWN_UID)


def test_a_process_that_has_no_device_open_is_reported() -> None:
    assert processes.has_device_open(os.getpid()) is False


def test_arguments_are_cleaned_and_bounded(holders: Holders) -> None:
    hostile = "\x1b]0;x\x07\u202e"
    script = "import time; time.sleep(600)"
    (holder,) = holders(1, (sys.executable, "-c", script, hostile, *["x"] * 600))
    arguments = waiting.until(lambda: processes.command_line(holder.pid))
    assert arguments[3] == r"\x1b]0;x\x07\u202e"
    assert len(arguments) == 513
    assert arguments[-1] == "…"


@pytest.mark.parametrize(
    ("line", "pids"), [(b"NSpid:\t42\t7\t1", (42, 7, 1)), (b"NSpid:\t42", (42,)), (b"", ())]
)
def test_pids_of_inner_namespaces_follow(line: bytes, pids: tuple[int, ...]) -> None:
    assert processes.namespace_pids(b"Name:\tx\n" + line + b"\nThreads:\t1\n") == pids


@given(st.text(st.characters(codec="ascii", exclude_characters="\n"), max_size=15))
def test_a_name_never_forges_an_owner(name: str) -> None:
    status = f"Name:\t{name}\nUmask:\t0022\nUid:\t1000\t1000\t1000\t1000\n".encode()
    assert processes.owner_id(status) == 1000
    shown = processes.name(name.encode(), None)
    assert shown is None or shown.isprintable()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (("python3 serve.py --token=hunter2",), "python3 serve.p"),
        (("/opt/python3 serve.p/x",), "python3 serve.p"),
        (None, "python3 serve.p"),
    ],
)
def test_a_title_with_options_is_no_name(arguments: tuple[str, ...] | None, name: str) -> None:
    assert processes.name(b"python3 serve.p", arguments) == name


def test_a_name_that_the_kernel_cuts_is_whole() -> None:
    arguments = ("/usr/bin/text-generation-server", "--port=80")
    assert processes.name(b"text-generation", arguments) == "text-generation-server"


def test_network_is_counted_for_a_namespace_of_its_own_alone() -> None:
    assert processes.usage(os.getpid()).received_bytes is None
    namespace = ["unshare", "--user", "--map-root-user", "--net"]
    script = "import sys; print(flush=True); sys.stdin.read()"
    with Popen([*namespace, sys.executable, "-c", script], stdin=PIPE, stdout=PIPE) as inside:
        if not inside.stdout.readline():
            pytest.skip("no network namespace can be made here")
        # Nothing but a loopback device is there, which does not count.
        usage = processes.usage(inside.pid)
        inside.stdin.close()
    assert (usage.received_bytes, usage.sent_bytes) == (0, 0)


def test_the_network_of_a_process_that_ends_meanwhile_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Popen(["true"]) as ended:
        # It is left a zombie, which has no network any more, but as of a moment before.
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        monkeypatch.setattr(os, "readlink", lambda path: f"net:[{str(ended.pid) in path}]")
        usage = processes.usage(ended.pid)
    assert usage.thread_count is not None
    assert (usage.received_bytes, usage.sent_bytes) == (None, None)


def test_a_machine_of_which_little_is_shown_is_none_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc = str(tmp_path)
    nothing = processes.machine(proc)
    assert nothing.cpu_seconds is None
    assert nothing.memory_total_bytes is None
    assert nothing.memory_available_bytes is None
    assert processes.pids(proc) == processes.pids(f"{proc}/none") == ()
    monkeypatch.setattr(psutil, "PROCFS_PATH", proc)
    assert processes.usage(os.getpid()) == processes.Usage()

    # As in gVisor: few counters.
    (tmp_path / "meminfo").write_text(
        "MemTotal: 100 kB\nMemFree: 50 kB\nMemAvailable: 60 kB\nSwapTotal: 8 kB\nSwapFree: 4 kB\n"
    )
    (tmp_path / "stat").write_text("cpu  1 2 3 400 500 6 7 8 0 0\nbtime 1700000000\n")
    machine = processes.machine(proc)
    assert machine.memory_total_bytes == 102400
    assert machine.memory_available_bytes == 61440
    assert (machine.swap_total_bytes, machine.swap_used_bytes) == (8192, 4096)
    assert machine.cpu_seconds == pytest.approx(
        (27 * processes.TICK_SECONDS, 927 * processes.TICK_SECONDS)
    )

    # As in a container with a limit of its own.
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 50 kB\nMemAvailable: 900 kB\n")
    assert processes.machine(proc).memory_available_bytes == 51200
