from pathlib import Path

from gpudash.doctor import toolkit
from tests.doctor.machines import by_topic, machine, write

JSON = '{"cuda" : {"name" : "CUDA SDK", "version" : "%s"}, "nsight" : {"version" : "2024.1"}}'
HEADER = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n"


def test_none_is_no_fault(tmp_path: Path) -> None:
    assert {check.verdict for check in toolkit.checks(machine(tmp_path), "12.4")} == {"PASS"}


def test_a_toolkit_that_the_driver_runs(tmp_path: Path) -> None:
    write(tmp_path, "usr/local/cuda-12.4/version.json", JSON % "12.4.1")
    check = by_topic(toolkit.checks(machine(tmp_path), "12.4"))["CUDA toolkit"]
    assert check.verdict == "PASS"
    assert check.finding == "12.4.1 in /usr/local/cuda-12.4"


def test_a_folder_counts_once_however_it_is_named(tmp_path: Path) -> None:
    write(tmp_path, "usr/local/cuda-12.4/version.json", JSON % "12.4.1")
    inside = machine(tmp_path, links={"usr/local/cuda": "cuda-12.4"}, CUDA_HOME="/usr/local/cuda")
    check = by_topic(toolkit.checks(inside, "12.4"))["CUDA toolkit"]
    assert check.finding == "12.4.1 in /usr/local/cuda"


def test_two_folders_of_one_version_are_two_each_with_its_cudnn(tmp_path: Path) -> None:
    for folder in ("opt/cuda", "usr/local/cuda-12.4"):
        write(tmp_path, f"{folder}/version.json", JSON % "12.4.1")
    write(tmp_path, "usr/local/cuda-12.4/lib64/libcudnn.so.8.9.7")
    found = by_topic(toolkit.checks(machine(tmp_path, CUDA_HOME="/opt/cuda"), "12.4"))
    assert found["CUDA toolkit"].finding == "12.4.1 in /opt/cuda, 12.4.1 in /usr/local/cuda-12.4"
    assert found["cuDNN"].finding == "8.9.7 in /usr/local/cuda-12.4/lib64"


def test_a_toolkit_that_is_too_new(tmp_path: Path) -> None:
    write(tmp_path, "opt/cuda/version.txt", "CUDA Version 13.0.88")
    found = toolkit.checks(machine(tmp_path, CUDA_HOME="/opt/cuda"), "12.4")
    check = by_topic(found)["CUDA toolkit"]
    assert check.verdict == "WARN"
    assert "CUDA 12.4 at most" in check.finding


def test_an_unknown_driver_judges_no_toolkit(tmp_path: Path) -> None:
    write(tmp_path, "usr/local/cuda/version.json", JSON % "13.0.0")
    assert by_topic(toolkit.checks(machine(tmp_path), None))["CUDA toolkit"].verdict == "PASS"


def test_cudnn_by_its_header_and_by_its_name(tmp_path: Path) -> None:
    bundled = "venv/lib/python3.11/site-packages/nvidia/cudnn"
    write(tmp_path, f"{bundled}/lib/libcudnn.so.9")
    write(tmp_path, f"{bundled}/include/cudnn_version.h", HEADER)
    inside = machine(tmp_path, VIRTUAL_ENV="/venv")
    assert by_topic(toolkit.checks(inside, None))["cuDNN"].finding == f"9.1.0 in /{bundled}/lib"
    write(tmp_path, "usr/lib/x86_64-linux-gnu/libcudnn.so.8.9.7")
    check = by_topic(toolkit.checks(inside, None))["cuDNN"]
    assert check.verdict == "WARN"
    assert "8.9.7 in /usr/lib/x86_64-linux-gnu" in check.finding
