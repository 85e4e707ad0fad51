from typing import Any

import pytest

from gpudash.doctor import Check, gpus
from gpudash.doctor.machine import Machine
from gpudash.snapshot import Device, Fault
from tests.doctor.machines import told
from tests.factories import gpu_uuid, make_device, make_snapshot


def checked(*devices: Device, seconds: float = 0.02, **environ: str) -> dict[str, Check]:
    return told(gpus.checks(make_snapshot(devices=devices), seconds, Machine("/", environ)))


def pair(**overrides: Any) -> tuple[Device, Device]:
    return make_device(index=0, **overrides), make_device(index=1, **overrides)


def test_all_is_well() -> None:
    found = checked(*pair(persistence_mode=True))
    assert {check.verdict for check in found.values()} == {"PASS"}
    assert found["CUDA order"].finding == "cuda:0 to cuda:1 are GPU 0-1"


def test_no_gpu() -> None:
    assert checked()["GPUs"].verdict == "FAIL"


def test_a_slow_answer() -> None:
    check = checked(*pair(), seconds=11.2)["GPUs"]
    assert check.verdict == "WARN"
    assert "11.20 s" in check.finding


def test_a_lost_gpu_fails_and_a_sleeping_one_does_not() -> None:
    fault = Fault(source="nvml", message="GPU 1 fell off the bus", code=15)
    lost = make_device(index=1, state="lost", fault=fault)
    asleep = make_device(index=0, state="asleep", fault=Fault(source="nvml", message="asleep"))
    found = checked(asleep, lost)
    assert found["GPU 1"].verdict == "FAIL"
    assert "GPU 0" not in found


def test_persistence_off() -> None:
    check = checked(*pair(persistence_mode=False))["persistence"]
    assert check.verdict == "WARN"
    assert "GPU 0-1" in check.finding


def test_persistence_that_is_not_told_is_not_judged() -> None:
    assert "persistence" not in checked(*pair(persistence_mode=None))


@pytest.mark.parametrize(
    ("mig_mode", "pending", "finding"),
    [
        (False, True, "a change waits for a reset of GPU 0-1"),
        (True, True, "on without instances on GPU 0-1: no program can use it"),
    ],
)
def test_mig_that_helps_nobody(mig_mode: bool, pending: bool, finding: str) -> None:
    check = checked(*pair(mig_mode=mig_mode, pending_mig_mode=pending))["MIG"]
    assert (check.verdict, check.finding) == ("WARN", finding)


def test_mig_in_use() -> None:
    parent = make_device(mig_mode=True, pending_mig_mode=True)
    instance = make_device(uuid="MIG-1", parent_uuid=gpu_uuid(0))
    assert checked(parent, instance)["MIG"].finding == "on, 1 instance"


def test_the_order_is_a_guess_where_models_differ() -> None:
    mixed = make_device(index=0), make_device(index=1, name="NVIDIA A100")
    check = checked(*mixed)["CUDA order"]
    assert check.verdict == "WARN"
    assert "PCI_BUS_ID" in (check.advice or "")
    assert checked(*mixed, CUDA_DEVICE_ORDER="PCI_BUS_ID")["CUDA order"].verdict == "PASS"


def test_the_order_that_a_program_would_inherit() -> None:
    check = checked(*pair(), CUDA_VISIBLE_DEVICES="1,0")["CUDA order"]
    assert check.finding == "CUDA_VISIBLE_DEVICES='1,0': cuda:0 to cuda:1 are GPU 1, 0"
    assert check.verdict == "PASS"


@pytest.mark.parametrize("value", ["", "7", "\x1b[2J"])
def test_a_variable_that_hides_all(value: str) -> None:
    check = checked(*pair(), CUDA_VISIBLE_DEVICES=value)["CUDA order"]
    assert check.verdict == "WARN"
    assert check.finding.isprintable()
