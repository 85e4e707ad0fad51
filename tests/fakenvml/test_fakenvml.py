"""The stand-in library itself, through real pynvml in processes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakenvml.asking import ask
from tests.fakenvml.build import CLOCK, build


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
        """
        len({N.nvmlDeviceGetUUID(d) for d in D})
        len({N.nvmlDeviceGetPciInfo(d).busId for d in D})
        """,
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


def test_clock_moves_or_stands(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LD_PRELOAD", str(build(fakenvml.parent, CLOCK, "wallclock.so")))
    monkeypatch.setenv("WALLCLOCK", str(tmp_path / "ahead"))
    line = "len({(later(s), N.nvmlDeviceGetPowerUsage(D[0])) for s in range(4)}) > 1"
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


def test_processes_are_the_pids_configured(fakenvml: Path) -> None:
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
