"""The dialects as processes, beside the tools they replace on the same library where installed."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpudash.output.queries import QUERIES
from tests.e2e.run import Line, each_of, gpudash
from tests.fakenvml.build import environment
from tests.output.newer import newer

MOMENT = 1_795_000_000
# Of the moment, or read through nvidia-smi's unnamed table, which the stand-in cannot answer truly.
UNNAMED = {
    "timestamp",
    "temperature.gpu.tlimit",
    "enforced.power.limit",
    "addressing_mode",
    "pcie.link.gen.hostmax",
}


@pytest.mark.parametrize(
    ("model", "worn"), [("sxm", 0), ("sxm", 1), ("sxm", 2), ("pcie", 1), ("geforce", 1)]
)
def test_queries_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path, model: str, worn: int) -> None:
    settings = {
        "DEVICES": 2,
        "MODEL": model,
        "TIME": MOMENT,
        "PROCS_PER_DEVICE": 1,
        "PIDS": os.getpid(),
        "WORN": worn,
    }
    # The name of a process is the driver's, and that of the stand-in its short one.
    left_out = UNNAMED | {"name", "process_name"}
    gpu = ",".join(name for name in QUERIES["gpu"].fields if name not in UNNAMED | newer("gpu"))
    for words in (
        *(
            (
                f"--query-{query}={','.join(set(kind.fields) - left_out - newer(query))}",
                "--format=csv",
            )
            for query, kind in QUERIES.items()
            if query != "gpu"
        ),
        (f"--query-gpu={gpu}", "--format=csv"),
        (f"--query-gpu={gpu}", "--format=csv,noheader,nounits", "-i", "1"),
        ("-L",),
    ):
        env = environment(fakenvml, **settings)
        theirs = subprocess.run([nvidia_smi, *words], env=env, capture_output=True, text=True)
        mine = gpudash(*words, library=fakenvml, **settings)
        assert mine.text == theirs.stdout
        assert mine.status == theirs.returncode


@pytest.mark.parametrize("words", ["-s", "-e", "-c", "-s -i 1", "-e -i 0 -l 3"])
def test_links_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path, words: str) -> None:
    settings: dict[str, object] = {"DEVICES": 2, "LINK_DOWN": "1:3"}
    argv = ["nvlink", *words.split()]
    env = environment(fakenvml, **settings)
    theirs = subprocess.run([nvidia_smi, *argv], env=env, capture_output=True, text=True)
    assert gpudash(*argv, library=fakenvml, **settings).text == theirs.stdout


def matrix(text: str, gpus: int) -> list[list[str]]:
    """Return the rows of a matrix of GPUs: its name, and a cell for each GPU."""
    lines = re.sub(r"\x1b\[\d*m", "", text).splitlines()
    return [line.split()[: gpus + 1] for line in lines if re.match(r"\s*GPU\d+\s+(?!GPU)\S", line)]


@pytest.mark.parametrize("words", ["-m", *(f"-p2p {capability}" for capability in "rwnap")])
def test_topology_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path, words: str) -> None:
    argv = ["topo", *words.split()]
    env = environment(fakenvml, DEVICES=4)
    theirs = subprocess.run([nvidia_smi, *argv], env=env, capture_output=True, text=True)
    mine = matrix(gpudash(*argv, library=fakenvml, DEVICES=4).text, 4)
    assert len(mine) == 4
    assert mine == matrix(theirs.stdout, 4)


def test_the_counters_of_clocks_event_reasons_of_each_driver(fakenvml: Path) -> None:
    names = ("sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown")
    query = f"--query-gpu={','.join(f'clocks_event_reasons_counters.{name}' for name in names)}"
    absent, known = ", ".join(["[N/A]"] * 3), "100000000, 200000000, 300000000"
    expected = {
        "535.261.03": absent,
        "575.57.08": known,
        # No release of NVML's header says which ids this one has.
        "580.76.05": absent,
        "610.43.02": known,
    }
    found = each_of(
        [(f"{query} --format=csv,noheader,nounits", {"DRIVER": driver}) for driver in expected],
        fakenvml,
        DEVICES=1,
        TIME=1_700_000_100,
        RISE="0:269:1e9,0:270:2e9,0:271:3e9",
    )
    assert [text.strip() for _, text, _ in found] == [*expected.values()]


GRACE = {
    "pci.baseClass": "0x3",
    "pci.subClass": "0x2",
    "dramEncryption.mode.current": "Enabled",
    "dramEncryption.mode.pending": "Disabled",
    "module.power.draw.average": "488.29 W",
    "module.power.draw.instant": "487.68 W",
    "module.power.min_limit": "500.00 W",
    "module.power.max_limit": "2900.00 W",
    "module.power.default_limit": "2800.00 W",
    "module.enforced.power.limit": "2600.00 W",
    "module.power.limit": "2700.00 W",
    "platform.chassis_serial_number": "1820000000001",
    "platform.slot_number": "25",
    "platform.tray_index": "15",
    "platform.host_id": "1",
    "platform.peer_type": "Switch Connected",
    "platform.module_id": "1",
}


def test_what_boards_with_a_grace_cpu_report(fakenvml: Path) -> None:
    words = (f"--query-gpu={','.join(GRACE)}", "--format=csv,noheader")
    run = gpudash(*words, library=fakenvml, DEVICES=1, GRACE=1)
    assert run.text.rstrip("\n").split(", ") == list(GRACE.values())
    other = gpudash(*words, library=fakenvml, DEVICES=1)
    assert other.text.rstrip("\n").split(", ") == ["0x3", "0x2", *["[N/A]"] * 14, "1"]
    platform = f"--query-gpu={','.join(name for name in GRACE if name.startswith('platform.'))}"
    server = gpudash(platform, "--format=csv,noheader", library=fakenvml, DEVICES=1, GRACE=2)
    assert server.text == ", 0, 0, 1, Switch Connected, 1\n"


def test_the_health_of_the_fabric(fakenvml: Path) -> None:
    names = ("summary", "bandwidth", "route_unhealthy", "incorrect_configuration")
    query = f"--query-gpu={','.join(f'fabric.health.{name}' for name in names)}"
    words = (query, "--format=csv,noheader")
    # The mask of a tray of GB300, whose nvidia-smi wrote these words.
    run = gpudash(*words, library=fakenvml, DEVICES=1, FABRIC=f"3:0:{0x1AA}:1")
    assert run.text == "Healthy, Full, False, None\n"
    other = gpudash(*words, library=fakenvml, DEVICES=1)
    assert other.text == "N/A, N/A, N/A, N/A\n"


def test_the_power_of_a_module_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    env = environment(fakenvml, DEVICES=1, GRACE=1)
    words = [nvidia_smi, "-q", "-d", "POWER"]
    text = subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout
    lines = text.partition("Module Power Readings")[2].splitlines()
    theirs = {key.strip(): value.strip() for key, _, value in (x.partition(":") for x in lines)}
    for label, name in {
        "Power Draw": "power.draw.average",
        "Current Power Limit": "enforced.power.limit",
        "Requested Power Limit": "power.limit",
        "Default Power Limit": "power.default_limit",
        "Min Power Limit": "power.min_limit",
        "Max Power Limit": "power.max_limit",
    }.items():
        assert theirs[label] == GRACE[f"module.{name}"]


def test_json_beside_gpustat(fakenvml: Path) -> None:
    settings = {"DEVICES": 3, "TIME": MOMENT, "PROCS_PER_DEVICE": 1, "PIDS": os.getpid()}
    env = environment(fakenvml, **settings)
    command = [sys.executable, "-m", "gpustat", "--json"]
    theirs = json.loads(subprocess.run(command, env=env, capture_output=True, check=True).stdout)
    mine = gpudash("--json=gpustat", library=fakenvml, **settings).document
    for document in (theirs, mine):
        assert document.pop("query_time")
        for gpu in document["gpus"]:
            for process in gpu["processes"]:
                # Taken at different moments.
                assert process.pop("cpu_percent") >= 0
                assert process.pop("cpu_memory_usage") > 0
    assert mine == theirs


PROCESSES, BROKEN = "--query-compute-apps=pid", "nvmlDeviceGetComputeRunningProcesses"
AFFINITY: dict[str, object] = {"HANG": "nvmlDeviceGetCpuAffinity:*:inf"}
NO_ROW: dict[str, tuple[dict[str, object], int, str]] = {
    f"{PROCESSES} ": ({"FAIL": f"{BROKEN}:0:4"}, 4, "gpudash: GPU 0: processes unknown: .*\n"),
    f"{PROCESSES} -i 1": ({"FAIL": f"{BROKEN}:0:4"}, 0, ""),
    PROCESSES: (
        {"DEVICES": 4, "FAIL": f"{BROKEN}:*:999"},
        231,
        "gpudash: GPU 0-3: processes unknown: unknown error\n",
    ),
    f"{PROCESSES} --timeout 2": (
        {"HANG": f"{BROKEN}:1:inf"},
        10,
        "gpudash: GPU 1: driver not answering.*\n",
    ),
    f"{PROCESSES} -i 0,1": ({"LOST": "1"}, 15, "gpudash: GPU 1 fell off the bus.*\n"),
    "--query-gpu=index -i 7": ({}, 6, "gpudash: .*no devices were found.*\n"),
    "--query-gpu=index --timeout 60": (AFFINITY, 0, ""),
    "-L --timeout 60": (AFFINITY, 0, ""),
    "topo --timeout 0.5": (AFFINITY, 10, ".*\n"),
    "-L -f /dev/null/file": ({}, 74, "gpudash: .*\n"),
}
"""Settings, status and line of error of what has no row for all, or needs not to be asked."""


def test_what_has_no_row_is_one_line_and_a_status(fakenvml: Path) -> None:
    lines: list[Line] = [
        (f"{line} --format=csv,noheader" if "--query" in line else line, {"DEVICES": 2, **told})
        for line, (told, *_) in NO_ROW.items()
    ]
    found = each_of(lines, fakenvml)
    for (line, (_, expected, pattern)), (status, _, errors) in zip(
        NO_ROW.items(), found, strict=True
    ):
        assert status == expected, line
        assert re.fullmatch(pattern, errors), line


def test_a_query_reads_what_it_prints_and_no_more(fakenvml: Path) -> None:
    queries: dict[str, set[str]] = {
        "index,uuid,pci.bus_id": set(),
        "temperature.gpu": {"TemperatureV"},
        "clocks.applications.gr,inforom.img": {"ApplicationsClock", "InforomImageVersion"},
        "ecc.errors.corrected.volatile.dram": {"MemoryErrorCounter"},
    }
    lines: list[Line] = [(f"--query-gpu={names} --format=csv", {}) for names in queries]
    found = each_of(lines, fakenvml, DEVICES=1, TRACE=1)
    for calls, (status, _, trace) in zip(queries.values(), found, strict=True):
        made = set(re.findall(r"^fakenvml nvmlDeviceGet(\w+)\(0\)$", trace, re.MULTILINE))
        # What tells which GPU it is, for -i and to find it again.
        made -= {"HandleByIndex_v2", "UUID", "Name", "PciInfo_v3", "MinorNumber"}
        assert (status, made) == (0, calls)


def test_a_gpu_is_found_by_its_serial_number(fakenvml: Path) -> None:
    stamp = re.compile(r"Timestamp.*")
    for words in ("-q -d COMPUTE", "nvlink -s"):
        lines: list[Line] = [(f"{words} -i {word}", {}) for word in ("1", "1650523000001")]
        by_index, by_serial = each_of(lines, fakenvml, DEVICES=2, TIME=MOMENT)
        assert by_serial[0] == 0
        assert stamp.sub("", by_serial[1]) == stamp.sub("", by_index[1])
