import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path

import gpudash as package
from tests.e2e.faults import BEYOND
from tests.e2e.forking import GPUDASH
from tests.e2e.run import Line, each_of, gpudash
from tests.e2e.terminal import Terminal


def test_what_the_driver_and_the_place_for_leases_are(fakenvml: Path, tmp_path: Path) -> None:
    told: dict[str, object] = {"DEVICES": 2}
    lines: list[Line] = [
        ("doctor --json", told),
        ("leases", told),
        ("doctor", {**told, "LOST": "1"}),
        ("doctor", {"INIT_ERR": 18}),
        (f"doctor --bundle {tmp_path}/bundle", {"INIT_ERR": 9}),
    ]
    # The GPUs of the stand-in have no directory in the sysfs of this machine.
    for folder in ("", str(tmp_path / "missing")):
        found = each_of(lines, fakenvml, variables={"GPUDASH_LOCK_DIR": folder})
        (_, document, errors), leases, lost, differ, bundle = found
        checks = {each["topic"]: each for each in json.loads(document)}
        assert errors == ""
        well = ("library", "driver", "GPUs", "gpudash")
        assert {checks[topic]["verdict"] for topic in well} == {"PASS"}
        assert (checks["leases"]["verdict"], leases[0]) == ("WARN", 1)
        assert leases[2].startswith(f"gpudash: {checks['leases']['finding']}; ")
        assert lost[0] == differ[0] == 1
        assert "GPU 1 fell off the bus" in lost[1]
        assert "FAIL  driver" in differ[1]
        # The second time the file is there.
        assert bundle[0] == (2 if folder else 0)
    _, _, snapshot = (tmp_path / "bundle").read_text().partition("== snapshot")
    assert "the NVIDIA driver is not loaded" in snapshot


def test_missing_bytecode_comes_with_a_remedy_that_ends_it(tmp_path: Path) -> None:
    source = os.path.dirname(package.__file__)
    shutil.copytree(source, tmp_path / "gpudash", ignore=shutil.ignore_patterns("__pycache__"))
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}

    def remedies() -> list[str]:
        argv = [*GPUDASH, "doctor", "--json"]
        done = subprocess.run(argv, cwd=tmp_path, env=environ, capture_output=True)
        checks = [check for check in json.loads(done.stdout) if check["topic"] == "bytecode"]
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


def test_a_bundle_can_be_declined(tmp_path: Path) -> None:
    path = tmp_path / "report.txt"
    argv = [*GPUDASH, "doctor", "--bundle", str(path)]
    with Terminal(argv, env=dict(os.environ)) as terminal:
        terminal.wait_for("Write it? [y/N]")
        terminal.send("n\n")
        assert terminal.wait_exit() == 1
    assert not path.exists()
