"""`gpudash doctor` as a process: on the stand-in, on a hung driver, without any."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.run import gpudash, no_library

pytestmark = pytest.mark.e2e


def verdicts(document: object) -> dict[str, str]:
    assert isinstance(document, list)
    return {check["topic"]: check["verdict"] for check in document}


def test_what_the_driver_says(fakenvml: Path) -> None:
    run = gpudash("doctor", "--json", library=fakenvml, DEVICES=4)
    assert run.stderr == ""
    found = verdicts(run.document)
    assert found["library"] == found["driver"] == found["GPUs"] == found["gpudash"] == "PASS"


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


def test_a_hung_driver_holds_nobody(fakenvml: Path) -> None:
    run = gpudash(
        "doctor", "--timeout", "2", library=fakenvml, HANG="nvmlInitWithFlags:*:inf", timeout=20
    )
    assert run.status == 1
    assert "FAIL  driver" in run.text
    assert "nvmlInitWithFlags" in run.text
    assert run.seconds < 15
