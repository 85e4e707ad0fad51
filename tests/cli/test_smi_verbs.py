"""The commands of nvidia-smi that begin with a word, and its help, called nvidia-smi."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudash.output.queries import QUERIES
from tests.cli.test_smi import DRIVER, Run, answers, answers_there, script, smi
from tests.e2e.run import Line
from tests.fakenvml.build import environment

__all__ = ["smi"]

SINGLE = "must be used in conjunction with the -i argument which must be a single identifier.\n\n"
PAIR = (
    "Path command line flag must be used in conjection with the -i argument which must be two GPU "
    "identifiers.\n\n"
)
ANSWERED = {
    "-B": (0, "No excluded devices found.\n"),
    "mig -lgip": (6, "No MIG-enabled devices found.\n"),
    "mig -lgi -i 9": (6, "No devices were found\n"),
    "mig -lci": (6, "No MIG-enabled devices found.\n"),
    "mig -z": (2, 'Option "-z" is not recognized.\n'),
    "vgpu": (0, "No supported devices in vGPU mode\n"),
    "vgpu -q": (0, "No supported devices in vGPU mode\n"),
    "vgpu -z": (2, 'Option "-z" is not recognized.\n'),
    "topo -m foo": (2, 'Option "foo" is not recognized.\n'),
    "topo -n 9 -i 0": (255, "Failed to display the nearest GPUs\n\n"),
    "topo -n x -i 0": (2, 'Option "x" is invalid for "-n".\n'),
    "topo -n 1": (2, f"Nearest GPUs argument {SINGLE}"),
    "topo -n 1 -i 0,1": (2, f"Nearest GPUs argument {SINGLE}"),
    "topo -n -i 0": (2, 'Option "-n" is missing its value.\n'),
    "topo -n=1 -i=0": (
        0,
        "Device 0 is connected by way of a single PCIe switch to device(s): 1\n\n",
    ),
    "topo --nearest_gpus=1 --id=0": (
        0,
        "Device 0 is connected by way of a single PCIe switch to device(s): 1\n\n",
    ),
    "topo -n 1 -i 99": (6, "No devices were found\n"),
    "topo -p -i 0,0": (2, PAIR),
    "topo -p -i 0,99": (2, PAIR),
    "topo -C": (2, f"NUMA ID of nearest CPU {SINGLE}"),
    "topo -gnid": (2, f"GPU NUMA ID command {SINGLE}"),
    "topo -m -i 0": (
        255,
        "The -i command line argument must be used in conjunction with -n or -p.\n\n",
    ),
    "topo -c x": (2, 'Option "x" is invalid for "-c".\n'),
    "topo -c 40": (0, "The GPUs that have an affinity with CPU 40 are:\n1\n\n"),
    "topo -p2p": (2, 'Option "-p2p" is missing its value.\n'),
    "topo -p2p z": (2, "Invalid p2p capability index specified at the command-line\n"),
    "nvlink -i": (2, 'Option "-i" is missing its value.\n'),
    "nvlink -s foo": (2, 'Option "foo" is not recognized.\n'),
    "nvlink -gt": (2, 'Option "-gt" is missing its value.\n'),
    "nvlink -s -l x": (2, 'Option "x" is invalid for "-l".\n'),
    "nvlink -s -i 9": (6, "No devices were found\n"),
    "pmon -c 1 -s z": (
        255,
        "Failed to find any metric to display\nFailed to process command line \n\n",
    ),
    "pmon -i 9 -c 1": (6, "No devices were found\n"),
    "dmon -o Z -c 1": (255, "Error in parsing options\nFailed to process command line \n\n"),
    "dmon -c 1 -i 9": (6, "No devices were found\n"),
    "dmon -c 1 --gpm-metrics 7,98": (
        255,
        "Metric value too high: 98\nCould not parse GPM metrics\n"
        "Failed to process command line \n\n",
    ),
    "dmon -c 1 --gpm-metrics 1,x": (
        255,
        "Found offending character: x\nCould not parse GPM metrics\n"
        "Failed to process command line \n\n",
    ),
    "stats": (255, "ERROR: Option stats is not recognized. Please run 'nvidia-smi -h'.\n\n"),
}
"""What nvidia-smi 535 prints to stdout, and its status."""


def test_the_words_and_statuses_are_those_of_nvidia_smi(fakenvml: Path) -> None:
    found = answers([(line, {}) for line in ANSWERED], fakenvml)
    expected = {line: (*answer, "") for line, answer in ANSWERED.items()}
    assert dict(zip(ANSWERED, found, strict=True)) == expected


def test_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    lines: list[Line] = [(line, {}) for line in ANSWERED]
    assert answers(lines, fakenvml) == answers_there(nvidia_smi, lines, fakenvml)


def test_a_metric_of_performance_monitoring_that_is_not_read_has_a_column(smi: Run) -> None:
    run = smi(["dmon", "-c", "1", "-s", "p", "--gpm-metrics", "7,,20"], LOAD="busy", DEVICES=1)
    assert (run.returncode, run.stdout) == (
        0,
        "# gpu    pwr  gtemp  mtemp       id=7     id=20\n"
        "# Idx      W      C      C        GPM       GPM\n"
        "    0    387     74     80          -         -\n",
    )


PROCESSES = [
    "pmon -c 1 -s um",
    "--query-compute-apps=gpu_uuid,pid,name,used_memory --format=csv",
    "-q -d PIDS -i 0",
]


@pytest.mark.parametrize("mig", [0, 1])
def test_processes_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path, mig: int) -> None:
    # pmon leaves out those that are not there.
    pids = sorted((os.getpid(), os.getppid(), 1), reverse=True)
    settings = {"MIG": mig, "PROCS_PER_DEVICE": 3, "PIDS": ",".join(map(str, pids))}
    lines: list[Line] = [(line, settings) for line in PROCESSES]
    ours, theirs = answers(lines, fakenvml), answers_there(nvidia_smi, lines, fakenvml)
    assert [without_time(text) for _, text, _ in ours] == [without_time(x) for _, x, _ in theirs]


def without_time(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("Timestamp")]


CAPTURED = Path(__file__).parents[1] / "output" / "captured"
OF_INSTANCES = ["-lgip", "-lgipp", "-lgi", "-lcip", "-lcipp", "-lci"]


def test_a_list_of_instances_as_it_was_captured(fakenvml: Path) -> None:
    found = answers([(f"mig {option}", {"MIG": 1}) for option in OF_INSTANCES], fakenvml)
    captured = [(CAPTURED / f"mig{option}.txt").read_text() for option in OF_INSTANCES]
    assert found == [(0, text, "") for text in captured]


CALL = "nvmlDeviceGetGpuInstance"
OF_SOME_INSTANCES = {
    ("-lci -gi 9", ""): (6, "No GPU instances found: Not Found\n"),
    ("-lgip -i 1", ""): (6, "No MIG-enabled devices found.\n"),
    ("-lgi", f"{CALL}s:*:4"): (4, "Failed to display GPU instances: Insufficient Permissions\n"),
    ("-lcip", f"{CALL}s:*:4"): (4, "No GPU instances found: Insufficient Permissions\n"),
    ("-lgipp", f"{CALL}ProfileInfoV:*:999"): (
        255,
        "Failed to display GPU instance placements: Unknown Error\n",
    ),
}


def of_instances(*cases: tuple[str, str]) -> list[Line]:
    return [(f"mig {line}", {"MIG": 1, "FAIL": fail}) for line, fail in cases]


def test_why_there_is_no_list_of_instances(fakenvml: Path) -> None:
    found = answers(of_instances(*OF_SOME_INSTANCES), fakenvml)
    assert found == [(*answer, "") for answer in OF_SOME_INSTANCES.values()]


def test_lists_of_instances_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    lines = of_instances(
        *OF_SOME_INSTANCES,
        *((option, "") for option in (*OF_INSTANCES, "-lcip -gi 2,3", "-lci -gi 1 -ci 0 -lgip")),
        ("-lgip", f"{CALL}ProfileInfoV:*:4"),
    )
    ours, theirs = answers(lines, fakenvml), answers_there(nvidia_smi, lines, fakenvml)
    assert [each[:2] for each in ours] == [each[:2] for each in theirs]


def test_what_is_not_done_here_is_said(fakenvml: Path) -> None:
    lines = "mig -cgi 9", "nvlink -re"
    found = answers([(line, {"MIG": 1}) for line in lines], fakenvml)
    for line, (status, text, _) in zip(lines, found, strict=True):
        assert (status, text.count("\n")) == (3, 1)
        assert text.startswith(line.split()[0])


def test_the_help_of_a_command(fakenvml: Path) -> None:
    lines = "topo", "topo -m -h", "nvlink", "mig", "pmon -h"
    found = answers([(line, {}) for line in lines], fakenvml)
    for line, (status, text, _) in zip(lines, found, strict=True):
        assert status == 0
        assert f"sage: nvidia-smi {line.split()[0]} [" in text


BEGINNINGS = {
    "topo": "topo -- Display topological information about the system.\n",
    "nvlink": "nvlink -- Display NvLink information.\n",
    "mig": "mig -- Multi Instance GPU management.\n",
    "vgpu": "vgpu -- Display vGPU information.\n",
    "dmon": "GPU statistics are displayed in scrolling format with one line\n    per sampling",
    "pmon": "Process statistics are displayed in scrolling format per sampling\n    interval.",
}


def test_the_help_of_a_command_begins_as_there(fakenvml: Path) -> None:
    found = answers([(f"{name} -h", {}) for name in BEGINNINGS], fakenvml)
    for (name, begin), (_, text, _) in zip(BEGINNINGS.items(), found, strict=True):
        assert text.startswith(f"\n    {begin}")
        usage = f"Usage: nvidia-smi {name} [options]"
        assert f"\n\n    {usage}\n\n    Options include:\n    [-h | " in text
        assert "\n    [-i | --id]: only these GPUs" in text


def test_the_help_of_a_command_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    found = answers_there(nvidia_smi, [(f"{name} -h", {}) for name in BEGINNINGS], fakenvml)
    for begin, (_, text, _) in zip(BEGINNINGS.values(), found, strict=True):
        assert text.startswith(f"\n    {begin}")


def test_a_wrong_option_of_rolling_lines_is_followed_by_the_usage(smi: Run) -> None:
    run = smi(["dmon", "-z"])
    assert run.returncode == 0
    assert run.stdout.startswith('Option "-z" is not recognized.\n\n')
    assert "nvidia-smi dmon [" in run.stdout


def test_versions(smi: Run) -> None:
    run = smi(["--version"], DRIVER="580.159.04")
    assert (run.returncode, run.stdout) == (
        0,
        "NVIDIA-SMI version  : 580.159.04\n"
        "NVML version        : 580.159\n"
        "DRIVER version      : 580.159.04\n"
        "CUDA Version        : 12.4\n",
    )
    assert smi(["--version"], INIT_ERR=9).returncode == 9


def test_help_needs_no_driver(smi: Run) -> None:
    first = "NVIDIA System Management Interface -- v"
    assert smi(["-h"]).stdout.startswith(f"{first}{DRIVER}\n")
    without = smi(["--help"], INIT_ERR=9)
    assert (without.returncode, without.stdout[: len(first)]) == (0, first)


def test_help_without_a_driver_has_the_version_of_its_library(
    fakenvml: Path, tmp_path: Path
) -> None:
    library = tmp_path / "library" / f"libnvidia-ml.so.{DRIVER}"
    library.parent.mkdir()
    library.write_bytes(fakenvml.read_bytes())
    (library.parent / fakenvml.name).symlink_to(library)
    argv = [sys.executable, str(script(tmp_path / "bin" / "nvidia-smi")), "-h"]
    env = environment(library, INIT_ERR=9)
    run = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert run.stdout.startswith(f"NVIDIA System Management Interface -- v{DRIVER}\n")


def test_the_help_of_a_query_needs_no_driver(fakenvml: Path) -> None:
    lines: list[Line] = [(f"--help-query-{query}", {"INIT_ERR": 9}) for query in QUERIES]
    for status, text, _ in answers(lines, fakenvml):
        assert status == 0
        assert '\n\n"timestamp"\n' in text
