from __future__ import annotations

import os
import threading

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.system import processes as proc_stat

NUMBERS = b"100 4242 4242 0 -1 4194560 5 0 0 0 150 50 0 0 20 0 1 0 123456 1 2"
"""The fields of a stat line from the parent on, up to resident pages."""

ABSENT_PID = 1 << 30


@pytest.mark.parametrize("pid", [1, os.getpid()], ids=["init", "self"])
def test_agrees_with_psutil(pid: int) -> None:
    process = psutil.Process(pid)
    stat = proc_stat.read_stat(pid)
    boot_time = proc_stat.boot_time()
    assert stat is not None
    assert boot_time is not None
    assert boot_time + stat.started_seconds == pytest.approx(process.create_time(), abs=0.001)
    assert stat.parent_pid == process.ppid()
    assert stat.session_id == os.getsid(pid)
    assert stat.has_terminal == (process.terminal() is not None)
    times = process.cpu_times()
    assert times.user + times.system == pytest.approx(stat.cpu_seconds, abs=0.5)
    assert not stat.is_kernel_thread


def test_resident_memory_agrees_with_psutil() -> None:
    oracle = psutil.Process().memory_info().rss
    assert proc_stat.resident_memory_bytes(os.getpid()) == pytest.approx(oracle, rel=0.1)


@pytest.mark.parametrize("name", [b"python", b"a b", b") R 1 (", b"\xff\x1b[31m\n", b""])
def test_a_name_never_shifts_the_fields(name: bytes) -> None:
    assert proc_stat.parse_stat(b"4242 (" + name + b") S " + NUMBERS) == proc_stat.ProcStat(
        name=name,
        status="sleeping",
        parent_pid=100,
        session_id=4242,
        is_kernel_thread=False,
        cpu_seconds=200 * proc_stat.TICK_SECONDS,
        start_ticks=123456,
    )


def test_recognises_a_kernel_thread_by_its_flag() -> None:
    stat = proc_stat.parse_stat(b"31 (kswapd0) S " + NUMBERS.replace(b"4194560", b"2129984"))
    assert stat is not None
    assert stat.is_kernel_thread


def test_pids_agree_with_psutil() -> None:
    stay = {1, os.getpid(), os.getppid()}
    assert stay <= set(proc_stat.pids()) & set(psutil.pids())


def test_each_thread_has_its_own_state() -> None:
    blocked = threading.Event()
    thread = threading.Thread(target=blocked.wait)
    thread.start()
    try:
        assert len(proc_stat.threads(os.getpid())) == len(psutil.Process().threads())
    finally:
        blocked.set()
        thread.join()


def test_a_start_is_told_from_another_one_tick_later() -> None:
    stat = proc_stat.read_stat(os.getpid())
    assert stat is not None
    created = psutil.Process().create_time()
    assert proc_stat.is_start_of(stat, None, created)
    assert not proc_stat.is_start_of(stat, None, created + proc_stat.TICK_SECONDS)
    assert not proc_stat.is_start_of(stat, None, None)


def test_ticks_tell_a_start_whatever_the_wall_clock_says() -> None:
    stat = proc_stat.read_stat(os.getpid())
    assert stat is not None
    assert proc_stat.is_start_of(stat, stat.start_ticks, 1.0)
    assert not proc_stat.is_start_of(stat, stat.start_ticks + 1, psutil.Process().create_time())


def test_an_absent_process_is_none() -> None:
    assert proc_stat.read_stat(ABSENT_PID) is None
    assert proc_stat.resident_memory_bytes(ABSENT_PID) is None
    assert proc_stat.threads(ABSENT_PID) == ()


@given(st.binary() | st.lists(st.sampled_from([b"9" * 400, b"1", b")", b"S", b"x"])).map(b" ".join))
def test_any_line_is_a_process_or_none(line: bytes) -> None:
    stat = proc_stat.parse_stat(line)
    assert stat is None or stat.status in {"sleeping", "unknown"}
