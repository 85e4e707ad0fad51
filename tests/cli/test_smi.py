"""Called nvidia-smi: its options, messages, channel and exit statuses."""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpudash.cli.smi_options import as_there, no_handle
from gpudash.model.device import Device
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from tests.e2e.run import Line, each_of, gpudash, tell
from tests.fakenvml.build import environment
from tests.waiting import until

Run = Callable[..., "subprocess.CompletedProcess[str]"]

DRIVER = "535.261.03"
FROZEN: dict[str, object] = {"DEVICES": 2, "DRIVER": DRIVER, "TIME": 1_795_000_000}
HELP = "Please run 'nvidia-smi -h' for help."
INVALID = "Invalid combination of input arguments"

REFUSED = {
    "foo": (255, "ERROR: Option foo is not recognized. Please run 'nvidia-smi -h'.\n"),
    "-l5": (255, "ERROR: Option -l5 is not recognized. Please run 'nvidia-smi -h'.\n"),
    "-q=1": (255, "ERROR: Option 1 is not recognized. Please run 'nvidia-smi -h'.\n"),
    "-i": (255, f"ERROR: Option -i is missing its value. {HELP}\n"),
    "-i -q": (255, f"ERROR: Option -i is missing its value. {HELP}\n"),
    "-pm": (255, f"ERROR: Option -pm is missing its value. {HELP}\n"),
    "-i 0 -i 1": (255, "Input combination for device modification is not valid.\n"),
    "-q -i 0 -i 1": (255, f"ERROR: Option -q is not recognized. {HELP}\n"),
    "-i 9": (6, "No devices were found"),
    "-q -i 9": (6, "No devices were found"),
    "-i 9 -i 0": (255, "Input combination for device modification is not valid.\n"),
    "-i 0 -i 9": (6, "No devices were found"),
    "-q -i 0 -i 9": (255, f"ERROR: Option -q is not recognized. {HELP}\n"),
    "-i -i 0": (255, f"ERROR: Option -i is missing its value. {HELP}\n"),
    "-i -L": (2, f"ERROR: Option -i is not valid for this command. {HELP}\n"),
    "-h -q": (2, f"ERROR: Option -q is not valid for this command. {HELP}\n"),
    "-L -q": (2, f"ERROR: Option -q is not valid for this command. {HELP}\n"),
    "--id=0 -L": (2, f"ERROR: Option --id=0 is not valid for this command. {HELP}\n"),
    "-L -L": (2, f"ERROR: Only one command can be run at a time. {HELP}\n"),
    "-l 0": (
        2,
        "Provided [-l(ms) | --loop(-ms)=] value is incorrect. "
        "Loop frequency must be greater than 0.\n",
    ),
    "-x": (2, f"{INVALID}. Specify -q/--query and -x/--xml-format to run an XML query.  {HELP}\n"),
    "-d ECC": (
        2,
        f"{INVALID}. Specify -q/--query and -d/--display to run a filtered query.  {HELP}\n",
    ),
    "-u": (2, f"{INVALID}. Specify -q/--query and -u/--unit to run a unit query.  {HELP}\n"),
    "-q -d FOO": (2, "Failed to parse --display/-d flags"),
    "-q -x -d ECC": (
        2,
        f"{INVALID}: --display/-d flags can not be combined with -x/--xml-format flags.",
    ),
    "-q -u -d ECC": (2, f"{INVALID}: --display/-d flags can not be combined with -u/--unit flags."),
    "-q --dtd": (
        2,
        f"{INVALID}: Specify -x/--xml-format with the -q/--query and --dtd flags to embed DTD.",
    ),
    "--query-gpu=name --format=noheader": (2, "Format modifier --format=csv is mandatory."),
    "-f /nowhere/x": (255, "Failed to create the log file /nowhere/x\n"),
    "--query-gpu=index": (2, f'"--format=" switch is missing. {HELP}\n'),
    "--query-gpu=foo --format=csv": (2, 'Field "foo" is not a valid field to query.\n'),
    "--query-gpu=name --format=json": (2, "Format modifier is not recognized."),
    "--query-gpu=name -q --format=csv": (2, f"ERROR: Option -q is not recognized. {HELP}\n"),
    "--query-gpu=name --query-compute-apps=pid --format=csv": (
        2,
        "Only one --query-* switch can be used at a time.",
    ),
    "--format=csv": (
        255,
        "ERROR: Option --format=csv is not recognized. Please run 'nvidia-smi -h'.\n",
    ),
}
"""What nvidia-smi 535 answers with another status than 0."""

LOST = "GPU is lost.  Reboot the system to recover this GPU\n\n\n"
NO_HANDLE = "Unable to determine the device handle for"
UUID = "GPU-10000000-fa4e-4000-8000-000000000001"
FIRST = f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {UUID})\n"
RESET = "A GPU reset must occur before this GPU can be used again.\n\n.\n"

WITHOUT_A_HANDLE = {
    (15, ""): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "-L"): (15, f"{FIRST}{NO_HANDLE} gpu 1: {LOST}"),
    (15, "-i 9"): (255, f"Problem with GPU 1: {LOST}"),
    (15, "-i 1,9"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, f"-q -x -i {UUID}"): (255, f"Problem with GPU 1: {LOST}"),
    (15, "--query-gpu=index --format=csv -i 0"): (0, "index\n0\n"),
    (15, "--query-gpu=index --format=csv -i 9"): (255, f"Problem with GPU 1: {LOST}"),
    (15, "-i 0 -i 9"): (255, f"Problem with GPU 1: {LOST}"),
    (15, "dmon -c 1"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "dmon -c 1 -i 1"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "dmon -c 1 -i 9"): (255, f"Problem with GPU 1: {LOST}"),
    (15, "pmon -c 1"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "nvlink -s"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "nvlink -p -i 0 -l 0"): (0, f"{FIRST}\t Link 0: 00000000:16:00.0\n"),
    (15, "topo -m"): (255, "Failed to run topology matrix\n\n"),
    (15, "topo -p2p r"): (
        255,
        "Failed to display p2p capability matrix for the specified p2p Index\n\n",
    ),
    (15, "topo -p -i 0,1"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (15, "topo -c 0"): (0, "The GPUs that have an affinity with CPU 0 are:\n0\n\n"),
    (15, "mig -lgi"): (15, f"{NO_HANDLE} GPU1: {LOST}"),
    (16, "-L"): (255, f"{FIRST}{NO_HANDLE} gpu 1: {RESET}"),
    (16, "-q"): (255, f"{NO_HANDLE} GPU1: {RESET}"),
    (16, "-i 9"): (255, f"Problem with GPU 1: {RESET}"),
    (999, "nvlink -s"): (255, f"{NO_HANDLE} GPU1: Unknown Error\n"),
    (17, "pmon -c 1"): (17, f"{NO_HANDLE} GPU1: Unknown Error\n"),
    (4, "-L"): (4, f"{FIRST}{NO_HANDLE} gpu 1: Insufficient Permissions\n"),
    (4, "--query-gpu=index --format=csv"): (0, "index\n0\n"),
    (4, "-q -i 1"): (
        4,
        "No devices were found. Please make sure /dev/nvidia* files are readable by current "
        "user.\n",
    ),
}
"""What it answers where NVML gives such an error in place of the handle of GPU 1."""

NOT_HERE = {
    9: "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure "
    "that the latest NVIDIA driver is installed and running.\n",
    12: "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that "
    "the NVIDIA Display Driver is properly installed and present in your system.\n"
    "Please also try adding directory that contains libnvidia-ml.so to your system PATH.",
    4: "Failed to initialize NVML: Insufficient Permissions",
    18: "Failed to initialize NVML: Driver/library version mismatch",
    19: "Failed to initialize NVML: In use by another client",
}


def answers(lines: Sequence[Line], library: Path) -> list[tuple[int, str, str]]:
    """What gpudash, called nvidia-smi, answers to command lines: status, stdout and stderr."""
    return each_of(lines, library, "nvidia-smi", **FROZEN)


def answers_there(
    nvidia_smi: str, lines: Sequence[Line], library: Path
) -> list[tuple[int, str, str]]:
    """What NVIDIA's own answers to them."""
    found = []
    for line, settings in lines:
        argv, env = [nvidia_smi, *line.split()], environment(library, **{**FROZEN, **settings})
        run = subprocess.run(argv, env=env, capture_output=True, text=True)
        found.append((run.returncode, run.stdout, run.stderr))
    return found


@pytest.fixture
def smi(tmp_path: Path, fakenvml: Path) -> Run:
    """A function that runs gpudash, called nvidia-smi, to its end."""
    program = script(tmp_path / "bin" / "nvidia-smi")

    def run(
        words: Sequence[str], path: str | None = None, **settings: object
    ) -> subprocess.CompletedProcess[str]:
        lines: list[Line] = [(" ".join(words), {**FROZEN, **settings})]
        variables = {"PATH": path or str(program.parent)}
        ((status, out, err),) = each_of(lines, fakenvml, str(program), variables)
        return subprocess.CompletedProcess(words, status, out, err)

    return run


def script(path: Path) -> Path:
    """Return a program that starts gpudash, as installers write it."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!{sys.executable}\nfrom gpudash.__main__ import main\nmain()\n")
    path.chmod(0o755)
    return path


def test_what_is_refused_there_is_refused_in_its_words(fakenvml: Path) -> None:
    found = answers([(line, {}) for line in REFUSED], fakenvml)
    expected = {line: (status, f"{text}\n", "") for line, (status, text) in REFUSED.items()}
    assert dict(zip(REFUSED, found, strict=True)) == expected


def test_refusals_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    lines: list[Line] = [(line, {}) for line in REFUSED]
    assert answers(lines, fakenvml) == answers_there(nvidia_smi, lines, fakenvml)


OUT_OF_ORDER: list[Line] = [(line, {"FAIL": f"*:1:{code}"}) for code, line in WITHOUT_A_HANDLE]


def test_a_gpu_without_a_handle_ends_what_is_about_it(fakenvml: Path) -> None:
    found = dict(zip(WITHOUT_A_HANDLE, answers(OUT_OF_ORDER, fakenvml), strict=True))
    assert found == {case: (*answer, "") for case, answer in WITHOUT_A_HANDLE.items()}


def test_no_gpu_beside_a_cpu_has_a_handle(smi: Run) -> None:
    run = smi(["topo", "-c", "7"], LOST="0,1")
    text = (
        "The GPUs that have an affinity with CPU 7 are:\nFailed to display GPUs with affinity for"
    )
    assert (run.returncode, run.stdout) == (255, f"{text} a given CPU information\n\n")


def test_a_gpu_without_a_handle_beside_nvidia_smi(nvidia_smi: str, fakenvml: Path) -> None:
    found = answers_there(nvidia_smi, OUT_OF_ORDER, fakenvml)
    assert [each[:2] for each in found] == [*WITHOUT_A_HANDLE.values()]


def test_the_kernel_knows_a_gpu_without_a_handle() -> None:
    fault = Fault(source="nvml", code=15, uuid=UUID, message=clean("fell off the bus"))
    kernel = {"uuid": UUID, "name": "NVIDIA A100", "pci_bus_id": "00000000:07:00.0"}
    lost = Device(index=0, state="lost", fault=fault, **kernel)
    error = no_handle(lost, "GPU0")
    assert error is not None
    assert as_there(error) == (15, f"{NO_HANDLE} GPU0: {LOST}")
    # One that was lost later answered when it was asked what it is.
    assert no_handle(replace(lost, pci_device_id="0x20B210DE"), "GPU0") is None


def test_a_list_without_gpus_is_refused_in_half_a_line(fakenvml: Path) -> None:
    found = answers([(line, {}) for line in ("-i ,", "nvlink -s -i ,", "mig -lgi -i ,")], fakenvml)
    assert {*found} == {(255, "Failed to parse device string on command line", "")}


EMPTY = {"gpu": "\n\n\n", "compute-apps": "\n", "supported-clocks": "\n\n\n"}


def test_a_query_of_nothing_has_empty_lines(fakenvml: Path) -> None:
    found = answers([(f"--query-{query}= --format=csv", {}) for query in EMPTY], fakenvml)
    assert found == [(0, text, "") for text in EMPTY.values()]


def test_without_a_driver(fakenvml: Path) -> None:
    of_queries = "-L", "foo", "--query-gpu=foo --format=csv", "-l 1", "-i 0 -i 1", "pmon -c 0"
    cases = [*product(NOT_HERE, of_queries)]
    found = answers([(line, {"INIT_ERR": status}) for status, line in cases], fakenvml)
    assert found == [(status, f"{NOT_HERE[status]}\n", "") for status, _ in cases]


SETS = [
    "-pm 1",
    "-pl 200 -i 0",
    "-lgc 1000,1200",
    "-rgc",
    "-ac=2000,800",
    "-c EXCLUSIVE_PROCESS",
    "--gpu-reset -i 0",
    "-e 1",
    "-mig 1",
    "mig -cgi 19 -C",
    "drain -p 0000:07:00.0 -m 1",
    "boost-slider --vboost 1",
    "nvlink -sLowPwrThres 5",
    "--an-option-of-tomorrow 1",
    "a-command-of-tomorrow",
]


def test_what_sets_goes_to_the_next_nvidia_smi(smi: Run, tmp_path: Path) -> None:
    script(tmp_path / "again" / "nvidia-smi")
    other = tmp_path / "other" / "nvidia-smi"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\necho "$#: $*"\nexit 4\n')
    other.chmod(0o755)
    for line in SETS:
        run = smi(line.split(), path=f"{tmp_path / 'bin'}:{tmp_path / 'again'}:{other.parent}")
        assert (run.returncode, run.stdout) == (4, f"{len(line.split())}: {line}\n")


@pytest.mark.parametrize("line", ["-pm 1", "drain -p 0000:07:00.0 -m 1"])
def test_without_another_nvidia_smi_nothing_is_set(smi: Run, line: str) -> None:
    run = smi(line.split())
    what = line.split()[0]
    text = f"{what}: gpudash leaves that to NVIDIA's own nvidia-smi, and PATH has none\n"
    assert (run.returncode, run.stdout, run.stderr) == (3, text, "")


def test_a_command_that_comes_back_is_not_handed_on_again(smi: Run, tmp_path: Path) -> None:
    disguised = tmp_path / "other" / "nvidia-smi"
    disguised.parent.mkdir()
    disguised.write_text(f'#!/bin/sh\nexec {sys.executable} {tmp_path}/bin/nvidia-smi "$@"\n')
    disguised.chmod(0o755)
    run = smi(["-pm", "1"], path=f"{tmp_path / 'bin'}:{disguised.parent}")
    assert run.returncode == 3


def test_a_file_keeps_its_content_where_nothing_is_printed(smi: Run, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("before")
    assert smi(["-f", str(log), "-i", "9"]).stdout == "No devices were found\n"
    assert log.read_text() == "before"
    assert smi(["-f", str(log)]).stdout == ""
    assert "NVIDIA-SMI" in log.read_text()


def test_a_loop_repeats_what_it_prints_until_it_is_interrupted(
    fakenvml: Path, tmp_path: Path
) -> None:
    program = script(tmp_path / "bin" / "nvidia-smi")
    words = [sys.executable, str(program), "--query-gpu=index", "--format=csv", "-lms", "1"]
    env = environment(fakenvml, DEVICES=1)
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, text=True) as run:
        lines = [run.stdout.readline() for _ in range(5)]
        run.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) == 0
    assert lines == ["index\n", *["0\n"] * 4]


def test_the_explicit_spelling(fakenvml: Path) -> None:
    run = gpudash("smi", "-L", library=fakenvml, DEVICES=1)
    assert (run.status, run.text.startswith("GPU 0: ")) == (0, True)
    assert gpudash("smi", "foo", library=fakenvml).status == 255
    assert gpudash("--demo=single", "smi", "-L", library=fakenvml).text.startswith("GPU 0: ")


def test_each_round_of_a_loop_reads_everything_anew(fakenvml: Path, tmp_path: Path) -> None:
    control = tmp_path / "control"
    tell(control, WORN=2, DEVICES=1)
    words = ["--query-retired-pages=retired_pages.cause", "--format=csv,noheader", "-lms", "50"]
    argv = [sys.executable, str(script(tmp_path / "bin" / "nvidia-smi")), *words]
    log = tmp_path / "log"
    with subprocess.Popen(
        [*argv, "-f", str(log)], env=environment(fakenvml, CONTROL=control)
    ) as run:
        until(log.exists)
        tell(control, WORN=1, DEVICES=1)
        until(lambda: "Double Bit ECC" in log.read_text())
        run.terminate()
        assert run.wait(timeout=60) == 0
