"""The faults that the stand-in library plays, through real pynvml in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakenvml.asking import ask


@pytest.mark.parametrize("status", [4, 9, 18])
def test_init_fails_as_configured(fakenvml: Path, status: int) -> None:
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
        min(seconds(N.nvmlDeviceGetPowerUsage, D[0]) for _ in range(50)) < 0.2
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
        !configure(LOST=2, INIT_ERR=9)
        code(N.nvmlDeviceGetIndex, D[2]), code(N.nvmlDeviceGetIndex, D[1]), code(N.nvmlInit)
        !configure(PROCS_PER_DEVICE=1, PIDS="77")
        code(N.nvmlDeviceGetIndex, D[2]), code(N.nvmlInit)
        [p.pid for p in N.nvmlDeviceGetComputeRunningProcesses(D[2])]
        """,
        DEVICES=4,
        CONTROL=tmp_path / "control",
    )
    assert answers == [2, ("error 15", 1, "error 9"), (2, None), [77]]


def test_gpus_are_numbered_again_by_the_next_init_only(fakenvml: Path, tmp_path: Path) -> None:
    answers = ask(
        fakenvml,
        """
        !names = [N.nvmlDeviceGetUUID(d) for d in D]
        !found = lambda: [N.nvmlDeviceGetUUID(N.nvmlDeviceGetHandleByIndex(i)) for i in range(2)]
        !again = lambda: (N.nvmlShutdown(), N.nvmlInit(), N.nvmlDeviceGetCount())[-1]
        !configure(REMOVED=1)
        N.nvmlDeviceGetCount(), code(N.nvmlDeviceGetName, D[1]), code(N.nvmlDeviceGetIndex, D[2])
        again(), found() == [names[0], names[2]], code(N.nvmlDeviceGetIndex, D[2])
        !configure()
        N.nvmlDeviceGetCount(), code(N.nvmlDeviceGetName, D[1])
        again(), found() == names[:2], N.nvmlDeviceGetIndex(D[1])
        """,
        DEVICES=3,
        CONTROL=tmp_path / "control",
    )
    assert answers == [(3, "error 15", 2), (2, True, 1), (2, "error 15"), (3, True, 1)]


def test_hang_ends_when_the_control_file_changes(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    control.write_text("HANG=nvmlDeviceGetPowerUsage:0:inf\n")
    answers = ask(
        fakenvml,
        """
        !import threading
        !threading.Timer(0.1, configure).start()
        0.05 < seconds(N.nvmlDeviceGetPowerUsage, D[0]) < 60
        """,
        CONTROL=control,
    )
    assert answers == [True]


def test_counts_its_calls(fakenvml: Path, tmp_path: Path) -> None:
    counts = tmp_path / "counts"
    ask(fakenvml, "[N.nvmlDeviceGetName(D[0]) for _ in range(3)]", COUNT=counts)
    table = dict(line.split() for line in counts.read_text().splitlines())
    assert table["nvmlDeviceGetName"] == "3"
