"""The table of nvidia-smi, line by line beside what 535 and 550 printed on the stand-in."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpudash.output.smi_table import table
from tests.e2e.run import each_of, gpudash
from tests.factories import make_host, make_process, make_snapshot
from tests.fakenvml.build import environment

CAPTURED = Path(__file__).parent / "captured"
FROZEN: dict[str, Any] = {"DEVICES": 2, "DRIVER": "535.261.03", "TIME": 1_795_000_000}

BOARDS: dict[str, dict[str, Any]] = {
    "sxm": {"PROCS_PER_DEVICE": 3, "GRAPHICS_PER_DEVICE": 1},
    "pcie": {"MODEL": "pcie"},
    "geforce": {"MODEL": "geforce", "GRAPHICS_PER_DEVICE": 2},
    "mig": {"MIG": 1, "PROCS_PER_DEVICE": 4},
    "mig-550": {"MIG": 1, "PROCS_PER_DEVICE": 4, "DRIVER": "550.163.01"},
}

NVML = "nvmlDeviceGet"
STATES: dict[str, dict[str, Any]] = {
    "many": {"DEVICES": 12, "PROCS_PER_DEVICE": 9},
    "lost": {"LOST": 1},
    "all lost": {"LOST": "0,1"},
    "no GPU": {"DEVICES": 0},
    "no driver": {"INIT_ERR": 9},
    "no library": {"INIT_ERR": 12},
    "no permission": {"INIT_ERR": 4},
    "mismatch": {"INIT_ERR": 18},
    "unknown": {"INIT_ERR": 999},
    "idle": {"LOAD": "idle"},
    "worn": {"WORN": 1},
    "long name": {"NAME": "NVIDIA RTX 6000 Ada Generation"},
    "fitting name": {"NAME": "NVIDIA RTX PRO 6000 Blackwe"},
    "MIG after a reset": {"ANSWER": f"{NVML}MigMode:0:0/1"},
    "no MIG after a reset": {"ANSWER": f"{NVML}MigMode:0:1/0"},
    "MIG without instances": {"ANSWER": f"{NVML}MigMode:0:1/1"},
    "ECC after a reset": {"ANSWER": f"{NVML}EccMode:0:0/1"},
    "no ECC after a reset": {"ANSWER": f"{NVML}EccMode:0:1/0"},
    "errors": {"ANSWER": f"{NVML}TotalEccErrors:0:0/23456/0/0"},
    "no persistence": {"ANSWER": f"{NVML}PersistenceMode:0:0"},
    "large memory": {"ANSWER": f"{NVML}MemoryInfo_v2:0:196608/500/96600/99508"},
    "high limit": {"ANSWER": f"{NVML}EnforcedPowerLimit:0:1200000"},
    "no known state": {"GARBAGE": f"{NVML}PerformanceState:0", "LOAD": "busy"},
    "fully used": {"ANSWER": f"{NVML}UtilizationRates:0:100/3"},
}
FAILING = {
    "PerformanceState 999": "| N/A   74C ERR!              387W / 400W |  30080MiB / 81920MiB |",
    "PerformanceState 6": "| N/A   74C  N/A              387W / 400W |  30080MiB / 81920MiB |",
    "Temperature 4": "| N/A  ERR!    P0             387W / 400W |  30080MiB / 81920MiB |",
    "Temperature 3": "| N/A   N/A    P0             387W / 400W |  30080MiB / 81920MiB |",
    "PowerUsage 10": "| N/A   74C    P0             ERR! / 400W |  30080MiB / 81920MiB |",
    "EnforcedPowerLimit 999": "| N/A   74C    P0             387W / ERR! |  30080MiB / 81920MiB |",
    "MemoryInfo 999": "| Unknown Error        |    100%      Default |",
    "MemoryInfo 6": "| Not Found            |    100%      Default |",
    "MemoryInfo 4": "|                  N/A |    100%      Default |",
    "MemoryInfo 3": "| Not Supported        |    100%      Default |",
    "UtilizationRates 999": "|  30080MiB / 81920MiB |    ERR!      Default |",
    "ComputeMode 999": "|  30080MiB / 81920MiB |    100%         ERR! |",
    "PersistenceMode 999": "|   0  NVIDIA A100-SXM4-80GB         ERR! | 00000000:07:00.0 Off |",
    "PersistenceMode 3": "|   0  NVIDIA A100-SXM4-80GB         N/A  | 00000000:07:00.0 Off |",
    "DisplayActive 999": "On  | 00000000:07:00.0ERR! |                    0 |",
    "EccMode 999": "On  | 00000000:07:00.0 Off |                 ERR! |",
    "TotalEccErrors 10": "On  | 00000000:07:00.0 Off |                 ERR! |",
    "MigMode 999": "|                      |                 ERR! |",
}
"""What stands in its lines where such calls give an error."""


def test_each_line_as_it_was_captured(fakenvml: Path) -> None:
    found = each_of([("smi", board) for board in BOARDS.values()], fakenvml, **FROZEN)
    for name, (status, text, errors) in zip(BOARDS, found, strict=True):
        assert (status, errors) == (0, "")
        assert lines(text) == lines((CAPTURED / f"table-{name}.txt").read_text())


def test_a_call_that_fails(fakenvml: Path) -> None:
    found = each_of([("smi", failing(each)) for each in FAILING], fakenvml, **FROZEN)
    for expected, (status, text, _) in zip(FAILING.values(), found, strict=True):
        assert status == 0
        assert expected in text


def test_a_call_that_fails_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    for each, expected in FAILING.items():
        env = environment(fakenvml, **FROZEN, **failing(each))
        theirs = subprocess.run([nvidia_smi], env=env, capture_output=True, text=True)
        assert expected in theirs.stdout


def failing(case: str) -> dict[str, str]:
    call, code = case.split()
    every = (f"{NVML}{call}{version}:0:{code}" for version in ("", "V", "_v2"))
    return {"LOAD": "busy", "FAIL": ",".join(every)}


def test_a_performance_state_that_the_driver_does_not_know(fakenvml: Path) -> None:
    settings = {**FROZEN, "LOAD": "busy", "GARBAGE": f"{NVML}PerformanceState:0"}
    run = gpudash("smi", library=fakenvml, **settings)
    assert "| N/A   74C ERR!              387W / 400W |" in run.text
    query = "--query-gpu=pstate", "--format=csv,noheader"
    assert gpudash(*query, library=fakenvml, **settings).text == "Unknown\nP0\n"
    run = gpudash("-q", "-d", "PERFORMANCE", library=fakenvml, **settings)
    assert re.search("Performance State  +: Unknown\n", run.text)


def test_each_line_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    found = each_of([("smi", state) for state in STATES.values()], fakenvml, **FROZEN)
    for state, (status, text, _) in zip(STATES.values(), found, strict=True):
        env = environment(fakenvml, **{**FROZEN, **state})
        theirs = subprocess.run([nvidia_smi], env=env, capture_output=True, text=True)
        assert (status, lines(text)) == (theirs.returncode, lines(theirs.stdout))


@pytest.mark.parametrize("words", ["-i 1", "-i 1,0", "-g 0", "--id=1"])
def test_chosen_gpus_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path, words: str) -> None:
    settings = {**FROZEN, **BOARDS["sxm"]}
    env = environment(fakenvml, **settings)
    theirs = subprocess.run([nvidia_smi, *words.split()], env=env, capture_output=True, text=True)
    ours = gpudash("smi", *words.split(), library=fakenvml, **settings)
    assert (ours.status, lines(ours.text)) == (theirs.returncode, lines(theirs.stdout))


def test_a_lost_gpu_of_others_does_not_matter(fakenvml: Path) -> None:
    run = gpudash("smi", "-i", "1", library=fakenvml, **FROZEN, LOST=0)
    assert run.status == 0
    assert "|  No running processes found  " in run.text


def test_a_list_that_is_not_known_is_not_called_empty(fakenvml: Path) -> None:
    fail = ",".join(f"{NVML}{kind}RunningProcesses:*:4" for kind in ("Compute", "Graphics"))
    run = gpudash("smi", library=fakenvml, **FROZEN, FAIL=fail)
    assert "No running processes found" not in run.text
    assert {len(line) for line in run.text.splitlines()[1:]} == {89}


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sleep", "sleep"),
        ("x" * 38, "x" * 38),
        ("/opt/envs/" + "x" * 38, "..." + "x" * 35),
        ("/opt/" + "\u65e5" * 14, "..." + "\u65e5" * 11),
    ],
)
def test_a_long_name_loses_its_beginning(name: str, shown: str) -> None:
    process = make_process(command_line=(name, "--argument"))
    host = make_host(driver_version=FROZEN["DRIVER"])
    text = "\n".join(table(make_snapshot(1, processes=(process,), host=host)))
    assert f"   {shown} " in text


def lines(text: str) -> list[str]:
    first, *others = text.splitlines()
    if re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4} {7}", first):
        first = "now"
    return [first, *others]
