from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudash.system import processes
from tests.holders import Holder

ABSENT_PID = 1 << 30
UNKNOWN_UID = 3_999_999_999

Holders = Callable[..., list[Holder]]


def test_agrees_with_psutil() -> None:
    oracle = psutil.Process()
    status = processes.read_status(os.getpid())
    assert status is not None
    assert processes.owner_id(status) == oracle.uids().real
    assert processes.username(oracle.uids().real) == oracle.username()
    arguments = processes.command_line(os.getpid())
    assert arguments == tuple(oracle.cmdline())
    assert processes.name(status, arguments) == oracle.name()
    assert processes.namespace_pids(status)[0] == os.getpid()


def test_what_is_gone_is_none() -> None:
    assert processes.read_status(ABSENT_PID) is None
    assert processes.command_line(ABSENT_PID) is None
    assert processes.has_device_open(ABSENT_PID) is None


def test_a_user_without_a_name_is_a_number() -> None:
    assert processes.username(UNKNOWN_UID) == str(UNKNOWN_UID)


def test_a_process_that_has_no_device_open_is_told() -> None:
    assert processes.has_device_open(os.getpid()) is False


def test_arguments_are_cleaned_and_bounded(holders: Holders) -> None:
    hostile = "\x1b]0;x\x07\u202e"
    script = "import time; time.sleep(600)"
    (holder,) = holders(1, (sys.executable, "-c", script, hostile, *["x"] * 600))
    deadline = time.monotonic() + 10
    while not (arguments := processes.command_line(holder.pid)):
        assert time.monotonic() < deadline
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
    shown = processes.name(status, None)
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
    assert processes.name(b"Name:\tpython3 serve.p\nUmask:\t0022\n", arguments) == name


def test_a_name_that_the_kernel_cuts_is_whole() -> None:
    status = b"Name:\ttext-generation\nUmask:\t0022\n"
    arguments = ("/usr/bin/text-generation-server", "--port=80")
    assert processes.name(status, arguments) == "text-generation-server"
