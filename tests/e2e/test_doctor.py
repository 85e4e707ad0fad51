"""`gpudash doctor` as a process: on the stand-in, on a hung driver, without any."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import gpudash as package
from tests.e2e.faults import BEYOND
from tests.e2e.run import GPUDASH, gpudash, no_library
from tests.e2e.terminal import Terminal

pytestmark = pytest.mark.e2e


def verdicts(document: object) -> dict[str, str]:
    assert isinstance(document, list)
    return {check["topic"]: check["verdict"] for check in document}


def test_what_the_driver_says(fakenvml: Path) -> None:
    run = gpudash("doctor", "--json", library=fakenvml, DEVICES=4)
    assert run.stderr == ""
    found = verdicts(run.document)
    assert found["library"] == found["driver"] == found["GPUs"] == found["gpudash"] == "PASS"


@pytest.mark.parametrize("folder", ["", "missing"])
def test_leases_are_possible_where_gpudash_leases_says_so(
    fakenvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    """The GPUs of the stand-in have no directory in the sysfs of this machine."""
    monkeypatch.setenv("GPUDASH_LOCK_DIR", str(tmp_path / folder) if folder else "")
    run = gpudash("doctor", "--json", library=fakenvml, DEVICES=2)
    (check,) = (each for each in run.document if each["topic"] == "leases")  # type: ignore[attr-defined]
    leases = gpudash("leases", library=fakenvml, DEVICES=2)
    assert (check["verdict"], leases.status) == ("WARN", 1)
    assert leases.stderr.startswith(f"gpudash: {check['finding']}; ")


def test_a_lost_gpu(fakenvml: Path) -> None:
    run = gpudash("doctor", library=fakenvml, DEVICES=2, LOST="1")
    assert run.status == 1
    assert "GPU 1 fell off the bus" in run.text


def test_versions_that_differ_name_the_library(fakenvml: Path) -> None:
    run = gpudash("doctor", library=fakenvml, INIT_ERR=18)
    assert run.status == 1
    assert "FAIL  driver" in run.text


def test_no_library(tmp_path: Path) -> None:
    run = gpudash("doctor", "--json", library=no_library(tmp_path))
    assert run.status == 1
    found = verdicts(run.document)
    assert found["driver"] == "FAIL"
    assert found["gpudash"] == "PASS"


def test_missing_bytecode_comes_with_a_remedy_that_ends_it(tmp_path: Path) -> None:
    source = os.path.dirname(package.__file__)
    shutil.copytree(source, tmp_path / "gpudash", ignore=shutil.ignore_patterns("__pycache__"))
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def remedies() -> list[str]:
        argv = [*GPUDASH, "doctor", "--json"]
        run = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True)
        checks = [check for check in json.loads(run.stdout) if check["topic"] == "bytecode"]
        assert {check["verdict"] for check in checks} <= {"WARN"}
        return [check["advice"] for check in checks]

    (advice,) = remedies()
    _, _, command = advice.partition(": ")
    subprocess.run(shlex.split(command), check=True)
    assert remedies() == []


def test_a_hung_driver_holds_nobody(fakenvml: Path) -> None:
    run = gpudash("doctor", "--timeout", "2", library=fakenvml, HANG="nvmlInitWithFlags:*:inf")
    assert run.status == 1
    assert "FAIL  driver" in run.text
    assert "nvmlInitWithFlags" in run.text
    assert run.seconds < BEYOND


def test_a_bundle_is_listed_before_it_is_written(fakenvml: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    run = gpudash("doctor", "--bundle", str(path), library=fakenvml, DEVICES=2)
    assert run.status == 0
    assert f"{path} will hold:" in run.stderr
    text = path.read_text()
    assert "== snapshot" in text
    assert '"schema": 1' in text
    assert path.stat().st_mode & 0o777 == 0o600
    again = gpudash("doctor", "--bundle", str(path), library=fakenvml, DEVICES=2)
    assert again.status == 2
    assert path.read_text() == text


def test_a_bundle_says_why_there_is_no_snapshot(fakenvml: Path, tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    run = gpudash("doctor", "--bundle", str(path), library=fakenvml, INIT_ERR=9)
    assert run.status == 0
    assert "Traceback" not in run.stderr
    _, _, snapshot = path.read_text().partition("== snapshot")
    assert "the NVIDIA driver is not loaded" in snapshot


def test_a_bundle_can_be_declined(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    argv = [*GPUDASH, "doctor", "--bundle", str(path)]
    with Terminal(argv, env=dict(os.environ)) as terminal:
        terminal.wait_for("Write it? [y/N]")
        terminal.send("n\n")
        assert terminal.wait_exit() == 1
    assert not path.exists()
