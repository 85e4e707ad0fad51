"""`gpudash --once` when something is broken: faults one by one, as real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.e2e.killing import ABSENT_PID
from tests.e2e.run import complete, gpudash, no_library
from tests.e2e.stream import streaming
from tests.holders import Holder

pytestmark = pytest.mark.e2e

Holders = Callable[..., list[Holder]]


def test_missing_driver_names_the_demo(tmp_path: Path) -> None:
    run = gpudash("--once", "--json", library=no_library(tmp_path))
    assert run.status == 12
    assert run.stdout == b""
    assert run.stderr.count("\n") == 1
    assert "--demo" in run.stderr


def test_gpu_lost_while_it_is_read_keeps_its_name(fakenvml: Path) -> None:
    run = gpudash("--once", "--json", library=fakenvml, DEVICES=4, LOST="1:20")
    assert run.status == 15
    lost = run.snapshot.devices[1]
    assert (lost.state, lost.index) == ("lost", 1)
    assert lost.uuid is not None
    assert all(complete(device) for device in run.snapshot.devices if device.index != 1)


@pytest.mark.parametrize("code", [3, 999])
def test_failing_call_costs_its_own_values_only(fakenvml: Path, code: int) -> None:
    run = gpudash(
        *("--once", "--json"),
        library=fakenvml,
        DEVICES=2,
        FAIL=f"nvmlDeviceGetUtilizationRates:1:{code}",
    )
    assert run.status == 0
    good, bad = run.snapshot.devices
    assert complete(good)
    assert bad.gpu_utilization_percent is None
    assert bad.memory_utilization_percent is None
    assert complete(replace(bad, gpu_utilization_percent=0))


def test_garbage_is_null(fakenvml: Path, holders: Holders) -> None:
    (holder,) = holders(1)
    run = gpudash(
        *("--once", "--json"),
        library=fakenvml,
        DEVICES=2,
        MODEL="geforce",
        PROCS_PER_DEVICE=1,
        PIDS=holder.pid,
        GARBAGE="nvmlDeviceGetUtilizationRates:1,nvmlDeviceGetTemperature:1,"
        "nvmlDeviceGetTemperatureV:1,nvmlDeviceGetPowerUsage:1,nvmlDeviceGetFanSpeed:1,"
        "nvmlDeviceGetClockInfo:1,nvmlDeviceGetPerformanceState:1,nvmlDeviceGetMemoryInfo:1,"
        "nvmlDeviceGetProcessUtilization:1,nvmlDeviceGetEncoderUtilization:1",
    )
    assert run.status == 0
    good, bad = run.snapshot.devices
    assert complete(good)
    assert bad.uuid is not None
    for name in (
        "gpu_utilization_percent",
        "memory_utilization_percent",
        "encoder_utilization_percent",
        "temperature_celsius",
        "power_usage_mw",
        "fan_speed_percent",
        "sm_clock_mhz",
        "performance_state",
        "memory_used_bytes",
    ):
        assert getattr(bad, name) is None, name
    (process,) = run.snapshot.processes
    assert process.devices[1].sm_utilization_percent is None


def test_everything_garbage_still_gives_a_document(fakenvml: Path) -> None:
    run = gpudash(
        "--once", "--json", library=fakenvml, DEVICES=2, PROCS_PER_DEVICE=2, GARBAGE="*:*"
    )
    assert run.stderr == ""
    assert len(run.snapshot.devices) == 2
    assert run.snapshot.processes == ()


def test_garbage_name_is_printable(fakenvml: Path) -> None:
    run = gpudash("--once", library=fakenvml, DEVICES=1, GARBAGE="nvmlDeviceGetName:0")
    assert run.status == 0
    assert "\x1b" not in run.text


def test_process_that_is_gone_keeps_its_memory(fakenvml: Path, holders: Holders) -> None:
    (stays,) = holders(1)
    run = gpudash(
        *("--once", "--json"),
        library=fakenvml,
        DEVICES=1,
        PROCS_PER_DEVICE=2,
        PIDS=f"{ABSENT_PID},{stays.pid}",
    )
    assert run.status == 0
    processes = {process.pid: process for process in run.snapshot.processes}
    assert processes[ABSENT_PID].hidden_reason is not None
    assert processes[ABSENT_PID].used_gpu_memory_bytes
    assert processes[ABSENT_PID].username is None
    assert processes[stays.pid].hidden_reason is None


def test_hostile_command_line_is_harmless_text(fakenvml: Path, holders: Holders) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J\u202e[/red]\n" + "x" * 50_000
    (holder,) = holders(1, (sys.executable, "-c", "import signal; signal.pause()", hostile))
    told = {"DEVICES": 1, "PROCS_PER_DEVICE": 1, "PIDS": holder.pid}
    table = gpudash("--once", library=fakenvml, **told)
    assert not {"\x1b", "\x07", "\u202e"} & set(table.text)
    document = gpudash("--once", "--json", library=fakenvml, **told)
    (process,) = document.snapshot.processes
    assert process.command_line is not None
    assert r"\x1b]0;owned\x07" in process.command_line[3]
    assert all(argument.isprintable() for argument in process.command_line)
    assert len(document.stdout) < 40_000


QUERIES = (("--once",), ("--once", "--json"), ("--json",))


@pytest.mark.parametrize(
    ("arguments", "status"), [*((each, 0) for each in QUERIES), (QUERIES[0], 7)]
)
def test_a_library_that_ends_the_process_does_not_do_so_in_silence(
    fakenvml: Path, arguments: tuple[str, ...], status: int
) -> None:
    run = gpudash(*arguments, library=fakenvml, EXIT=f"nvmlDeviceGetSerial:1:{status}")
    assert run.stderr == "gpudash: the driver's library ended the process that queried it\n"
    assert (run.status, run.stdout) == (1, b"")


def test_what_a_library_prints_is_not_in_our_output(fakenvml: Path) -> None:
    noisy = {"DEVICES": 1, "PRINT": "nvmlDeviceGetName:*,nvmlDeviceGetSerial:*"}
    run = gpudash("--once", "--json", library=fakenvml, **noisy)
    assert run.snapshot.devices[0].name is not None
    assert "noise from nvmlDeviceGetName" in run.stderr
    with streaming(fakenvml, **noisy) as stream:
        assert stream.next().devices[0].serial is not None
