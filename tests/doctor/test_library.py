from pathlib import Path

import pytest

from gpudash.doctor import Check, driver
from gpudash.model.errors import DriverError
from gpudash.model.snapshot import Snapshot
from tests.doctor.machines import machine, told, write


class Refusing:
    """A driver that does not let itself be opened."""

    def __init__(self, code: int) -> None:
        self._code = code

    def sample(self) -> Snapshot:
        raise DriverError(self._code, f"it refuses (NVML error {self._code}); load it here")

    def close(self) -> None:
        pass


def refusal(root: Path, code: int) -> Check:
    answer = driver.answer(Refusing(code), machine(root))
    assert not answer.is_open
    return told(answer.checks)["driver"]


@pytest.mark.parametrize(("code", "advice"), [(9, "on the host"), (12, "--gpus all")])
def test_in_a_container_it_is_the_host_that_has_the_driver(
    tmp_path: Path, code: int, advice: str
) -> None:
    assert refusal(tmp_path, code).advice == "load it here"
    write(tmp_path, ".dockerenv")
    check = refusal(tmp_path, code)
    assert check.verdict == "FAIL"
    assert advice in (check.advice or "")


def test_a_container_that_lost_its_gpus_is_started_again(tmp_path: Path) -> None:
    write(tmp_path, ".dockerenv")
    check = refusal(tmp_path, 999)
    assert "revoked" in check.finding
    assert "daemon-reload" in (check.advice or "")


def test_a_mismatch_names_both_versions(tmp_path: Path) -> None:
    write(tmp_path, "sys/module/nvidia/version", "550.54.15\n")
    write(tmp_path, "proc/self/maps", "7f00 r-xp 0 0:0 1 /usr/lib/libnvidia-ml.so.560.35.03\n")
    assert refusal(tmp_path, 18).finding == "kernel module 550.54.15, library 560.35.03"
