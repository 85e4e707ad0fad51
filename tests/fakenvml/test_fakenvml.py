"""The stand-in library itself, through real pynvml in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakenvml.build import environment

PRELUDE = """
import os, sys, time
import pynvml as N

def code(call, *arguments):
    try:
        return call(*arguments)
    except N.NVMLError as error:
        return f"error {error.value}"

def seconds(call, *arguments):
    start = time.monotonic()
    call(*arguments)
    return time.monotonic() - start

def told(**settings):
    path = os.environ["FAKENVML_CONTROL"]
    with open(path + ".new", "w") as file:
        file.writelines(f"{key}={value}\\n" for key, value in settings.items())
    os.replace(path + ".new", path)
"""
DEVICES = """
N.nvmlInit()
D = [N.nvmlDeviceGetHandleByIndex(i) for i in range(N.nvmlDeviceGetCount())]
"""


def ask(library: Path, expressions: str, *, prelude: str = DEVICES, **settings: object) -> Any:
    """Evaluate expressions, one a line, in one process; statements start with a bang."""
    lines = [line.strip() for line in expressions.strip().splitlines()]
    body = "\n".join(
        line[1:] if line.startswith("!") else f"out.append(({line}))" for line in lines
    )
    script = f"{PRELUDE}{prelude}\nout = []\n{body}\nprint(repr(out))"
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(library, **settings),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert run.returncode == 0, run.stderr
    return eval(run.stdout)


def test_serves_eight_plausible_devices(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        len(D)
        N.nvmlDeviceGetPciInfo(D[1]).busId
        [N.nvmlDeviceGetIndex(N.nvmlDeviceGetHandleByUUID(N.nvmlDeviceGetUUID(d))) for d in D]
        N.nvmlDeviceGetIndex(N.nvmlDeviceGetHandleByPciBusId("00000000:52:00.0"))
        N.nvmlDeviceGetIndex(N.nvmlDeviceGetHandleBySerial(N.nvmlDeviceGetSerial(D[5])))
        all(0 <= N.nvmlDeviceGetUtilizationRates(d).gpu <= 100 for d in D)
        20 < N.nvmlDeviceGetTemperature(D[0], 0) < 90
        N.nvmlDeviceGetComputeRunningProcesses(D[1])
        code(N.nvmlDeviceGetFanSpeed, D[0])
        """,
    )
    assert answers == [8, "00000000:16:00.0", [*range(8)], 5, 5, True, True, [], "error 3"]


@pytest.mark.parametrize("count", [0, 1, 128])
def test_any_number_of_devices_with_names_of_their_own(fakenvml: Path, count: int) -> None:
    answers = ask(
        fakenvml,
        "len({N.nvmlDeviceGetUUID(d) for d in D})\nlen({N.nvmlDeviceGetPciInfo(d).busId for d in D})",
        DEVICES=count,
    )
    assert answers == [count, count]


def test_memory_adds_up_in_both_versions(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        !old = N.nvmlDeviceGetMemoryInfo(D[0])
        !new = N.nvmlDeviceGetMemoryInfo(D[0], N.nvmlMemory_v2)
        old.used + old.free == old.total
        new.used + new.free + new.reserved == new.total
        old.used - new.used == new.reserved
        new.used > sum(p.usedGpuMemory for p in N.nvmlDeviceGetComputeRunningProcesses(D[0]))
        """,
        TIME=1000,
        PROCS_PER_DEVICE=5,
    )
    assert answers == [True] * 4


def test_clock_moves_or_stands(fakenvml: Path) -> None:
    line = "len({(N.nvmlDeviceGetPowerUsage(D[0]), time.sleep(0.11)) for _ in range(4)}) > 1"
    assert ask(fakenvml, line) == [True]
    assert ask(fakenvml, line, TIME=1000) == [False]


def test_geforce_has_a_fan_and_no_ecc(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        N.nvmlDeviceGetFanSpeed(D[0]) > 0
        code(N.nvmlDeviceGetEccMode, D[0])
        code(N.nvmlDeviceGetSerial, D[0])
        N.nvmlDeviceGetDisplayActive(D[0])
        N.nvmlDeviceGetFieldValues(D[0], [N.NVML_FI_DEV_MEMORY_TEMP])[0].nvmlReturn
        """,
        MODEL="geforce",
    )
    assert answers == [True, "error 3", "error 3", 1, 3]


def test_field_values_in_one_batch(fakenvml: Path) -> None:
    fields = "[82, 83, 185, 186, 197, 198, 230, 9999]"
    answers = ask(
        fakenvml,
        f"""
        !values = N.nvmlDeviceGetFieldValues(D[0], {fields})
        [v.nvmlReturn for v in values]
        30 < values[0].value.uiVal < 100
        values[2].value.uiVal == values[3].value.uiVal == N.nvmlDeviceGetPowerUsage(D[0])
        """,
        TIME=1.8e9,
    )
    assert answers == [[0] * 7 + [3], True, True]


def test_processes_are_the_pids_told(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        [p.pid for p in N.nvmlDeviceGetComputeRunningProcesses(D[1])]
        [p.pid for p in N.nvmlDeviceGetGraphicsRunningProcesses(D[1])]
        len(N.nvmlDeviceGetProcessUtilization(D[0], 0))
        code(N.nvmlDeviceGetProcessUtilization, D[0], 2**62)
        """,
        PROCS_PER_DEVICE=2,
        GRAPHICS_PER_DEVICE=1,
        PIDS="1,2,3,4,5,6",
    )
    assert answers == [[4, 5], [6], 2, "error 6"]


def test_mig_instances_have_no_utilization(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        !M = [N.nvmlDeviceGetMigDeviceHandleByIndex(D[0], i) for i in range(3)]
        N.nvmlDeviceGetMigMode(D[0])
        [N.nvmlDeviceGetName(m)[-7:] for m in M]
        [N.nvmlDeviceGetGpuInstanceId(m) for m in M]
        code(N.nvmlDeviceGetUtilizationRates, M[0])
        code(N.nvmlDeviceGetUtilizationRates, D[0])
        code(N.nvmlDeviceGetMigDeviceHandleByIndex, D[0], 3)
        [p.gpuInstanceId for p in N.nvmlDeviceGetComputeRunningProcesses(M[1])]
        """,
        MIG=1,
        PROCS_PER_DEVICE=3,
    )
    names = ["3g.40gb", "2g.20gb", "1g.10gb"]
    assert answers == [[1, 1], names, [1, 2, 3], "error 3", "error 3", "error 6", [2]]


def test_islands_are_linked_inside_only(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        [[N.nvmlDeviceGetP2PStatus(a, b, 2) for b in (D[1], D[4])] for a in (D[0], D[5])]
        [N.nvmlDeviceGetTopologyCommonAncestor(D[0], D[i]) for i in (1, 2, 4)]
        sum(N.nvmlDeviceGetNvLinkState(D[0], i) for i in range(12))
        len({N.nvmlDeviceGetNvLinkRemotePciInfo(D[0], i).busId for i in range(12)})
        [[w for w in N.nvmlDeviceGetCpuAffinity(D[i], 2)] for i in (0, 7)]
        """,
    )
    low, high = 2**32 - 1, 2**64 - 2**32
    assert answers == [[[0, 5], [5, 0]], [10, 20, 50], 12, 3, [[low, 0], [high, 0]]]


@pytest.mark.parametrize(
    ("topology", "expected"), [("nvswitch", [1, 2, 12]), ("pcie", ["error 3", "error 3", 0])]
)
def test_other_topologies(fakenvml: Path, topology: str, expected: list[object]) -> None:
    answers = ask(
        fakenvml,
        """
        code(N.nvmlDeviceGetNvLinkState, D[0], 0)
        code(N.nvmlDeviceGetNvLinkRemoteDeviceType, D[0], 0)
        !field = N.nvmlDeviceGetFieldValues(D[0], [147])[0]
        field.value.uiVal if field.nvmlReturn == 0 else 0
        """,
        TOPO=topology,
    )
    assert answers == expected


@pytest.mark.parametrize("status", [4, 9, 18])
def test_init_fails_as_told(fakenvml: Path, status: int) -> None:
    assert ask(fakenvml, "code(N.nvmlInit)", prelude="", INIT_ERR=status) == [f"error {status}"]


def test_shutdown_ends_everything(fakenvml: Path) -> None:
    assert ask(fakenvml, "!N.nvmlShutdown()\ncode(N.nvmlDeviceGetName, D[0])") == ["error 1"]


def test_one_call_fails_on_one_device(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        code(N.nvmlDeviceGetPowerUsage, D[2])
        code(N.nvmlDeviceGetTemperature, D[2], 0) < 100
        code(N.nvmlDeviceGetPowerUsage, D[1]) > 0
        code(N.nvmlDeviceGetComputeRunningProcesses_v3, D[0])
        """,
        FAIL="nvmlDeviceGetPowerUsage:2:999,nvmlDeviceGetComputeRunningProcesses:*:13",
    )
    assert answers == ["error 999", True, True, "error 13"]


def test_handle_lookup_fails_for_one_device(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        "[code(N.nvmlDeviceGetHandleByIndex, i) == 'error 8' for i in range(4)]",
        prelude="N.nvmlInit()",
        DEVICES=4,
        FAIL="nvmlDeviceGetHandleByIndex:2:8",
    )
    assert answers == [[False, False, True, False]]


def test_lost_after_some_calls(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        [code(N.nvmlDeviceGetIndex, D[1]) for _ in range(3)]
        code(N.nvmlDeviceGetHandleByIndex, 1)
        code(N.nvmlDeviceGetIndex, D[0])
        """,
        LOST="1:3",
    )
    assert answers == [[1, 1, "error 15"], "error 15", 0]


def test_delays_and_hangs(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        seconds(N.nvmlDeviceGetPcieThroughput, D[0], 0) > 0.02
        seconds(N.nvmlDeviceGetName, D[0]) > 0.002
        seconds(N.nvmlDeviceGetPowerUsage, D[1]) > 0.2
        seconds(N.nvmlDeviceGetPowerUsage, D[1]) > 0.2
        seconds(N.nvmlDeviceGetPowerUsage, D[0]) < 0.2
        """,
        PCIE_MS=20,
        LATENCY_US=2000,
        HANG="nvmlDeviceGetPowerUsage:1:0.3:1",
    )
    assert answers == [True, True, False, True, True]


def test_garbage_on_one_device(fakenvml: Path) -> None:
    answers = ask(
        fakenvml,
        """
        N.nvmlDeviceGetUtilizationRates(D[1]).gpu
        N.nvmlDeviceGetTemperature(D[1], 0)
        N.nvmlDeviceGetPowerUsage(D[1])
        {s.smUtil for s in N.nvmlDeviceGetProcessUtilization(D[1], 0)}
        [(p.pid, p.usedGpuMemory) for p in N.nvmlDeviceGetComputeRunningProcesses(D[1])]
        N.nvmlDeviceGetUtilizationRates(D[0]).gpu <= 100
        """,
        PROCS_PER_DEVICE=1,
        GARBAGE="*:1",
    )
    assert answers == [37100, 2**32 - 1, 2**32 - 1, {2147483632}, [(0, None)], True]


def test_garbage_text_is_no_utf8(fakenvml: Path) -> None:
    script = """
    !raised = ""
    !try: N.nvmlDeviceGetName(D[1])
    !except UnicodeDecodeError as error: raised = type(error).__name__
    raised
    """
    assert ask(fakenvml, script, GARBAGE="nvmlDeviceGetName:1") == ["UnicodeDecodeError"]


def test_control_file_changes_the_world_while_it_runs(fakenvml: Path, tmp_path: Path) -> None:
    answers = ask(
        fakenvml,
        """
        code(N.nvmlDeviceGetIndex, D[2])
        !told(LOST=2, INIT_ERR=9)
        code(N.nvmlDeviceGetIndex, D[2]), code(N.nvmlDeviceGetIndex, D[1]), code(N.nvmlInit)
        !told(PROCS_PER_DEVICE=1, PIDS="77")
        code(N.nvmlDeviceGetIndex, D[2]), code(N.nvmlInit)
        [p.pid for p in N.nvmlDeviceGetComputeRunningProcesses(D[2])]
        """,
        DEVICES=4,
        CONTROL=tmp_path / "control",
    )
    assert answers == [2, ("error 15", 1, "error 9"), (2, None), [77]]


def test_hang_ends_when_the_control_file_changes(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    control.write_text("HANG=nvmlDeviceGetPowerUsage:0:inf\n")
    answers = ask(
        fakenvml,
        """
        !import threading
        !threading.Timer(0.1, told).start()
        0.05 < seconds(N.nvmlDeviceGetPowerUsage, D[0]) < 10
        """,
        CONTROL=control,
    )
    assert answers == [True]


def test_counts_its_calls(fakenvml: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    ask(fakenvml, "[N.nvmlDeviceGetName(D[0]) for _ in range(3)]", COUNT=counts)
    table = dict(line.split() for line in counts.read_text().splitlines())
    assert table["nvmlDeviceGetName"] == "3"
