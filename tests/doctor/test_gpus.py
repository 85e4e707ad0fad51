from pathlib import Path
from typing import Any

import pytest

from gpudash.doctor import Check, gpus
from gpudash.doctor.environment import Machine
from gpudash.model.device import Device, DeviceState
from gpudash.model.fault import Fault
from gpudash.model.text import clean
from tests.doctor.machines import told, write
from tests.factories import gpu_uuid, make_device, make_snapshot

NOWHERE = Path("/nowhere")


def checked(
    *devices: Device, seconds: float = 0.02, root: Path = NOWHERE, **environ: str
) -> dict[str, Check]:
    machine = Machine(str(root), environ)
    return told(gpus.checks(make_snapshot(devices=devices), seconds, machine))


def out_of_order(index: int, state: DeviceState) -> Device:
    fault = Fault(source="nvml", message=clean(f"GPU {index}: {state}"))
    return make_device(index=index, state=state, fault=fault)


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
    assert "persistence" not in (check.advice or "")
    check = checked(*pair(persistence_mode=False), seconds=11.2)["GPUs"]
    assert "persistence" in (check.advice or "")


def test_one_that_hangs_does_not_make_the_others_slow() -> None:
    found = checked(make_device(index=0), out_of_order(1, "not-answering"), seconds=3)
    assert found["GPUs"].verdict == "PASS"
    assert found["GPU 1"].verdict == "FAIL"
    assert "dmesg" in (found["GPU 1"].advice or "")


def test_a_lost_gpu_fails_and_a_sleeping_one_does_not() -> None:
    fault = Fault(source="nvml", message="GPU 1 fell off the bus", code=15)
    lost = make_device(index=1, state="lost", fault=fault)
    asleep = make_device(index=0, state="asleep", fault=Fault(source="nvml", message="asleep"))
    found = checked(asleep, lost, out_of_order(2, "resting"))
    assert found["GPU 1"].verdict == "FAIL"
    assert "GPU 0" not in found
    assert "GPU 2" not in found


def test_persistence_off() -> None:
    check = checked(*pair(persistence_mode=False))["persistence"]
    assert check.verdict == "WARN"
    assert "GPU 0-1" in check.finding


def test_persistence_off_lets_the_gpu_of_a_laptop_sleep(tmp_path: Path) -> None:
    write(tmp_path, "sys/class/power_supply/BAT0/capacity")
    found = checked(make_device(persistence_mode=False), root=tmp_path)
    assert found["persistence"].verdict == "PASS"


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


@pytest.mark.parametrize("state", ["lost", "not-answering", "reset-required"])
def test_the_order_cannot_be_told_where_one_is_out_of_order(state: DeviceState) -> None:
    order = checked(make_device(index=0), out_of_order(1, state))["CUDA order"]
    assert order.verdict == "WARN"
    assert "CUDA may leave out GPU 1" in order.finding
    named = checked(make_device(index=0), out_of_order(1, state), CUDA_VISIBLE_DEVICES=gpu_uuid(0))
    assert named["CUDA order"].verdict == "PASS"


def test_the_order_that_a_program_would_inherit() -> None:
    check = checked(*pair(), CUDA_VISIBLE_DEVICES="1,0")["CUDA order"]
    assert check.finding == "CUDA_VISIBLE_DEVICES='1,0': cuda:0 to cuda:1 are GPU 1, 0"
    assert check.verdict == "PASS"


@pytest.mark.parametrize("value", ["", "7", "\x1b[2J"])
def test_a_variable_that_hides_all(value: str) -> None:
    check = checked(*pair(), CUDA_VISIBLE_DEVICES=value)["CUDA order"]
    assert check.verdict == "WARN"
    assert check.finding.isprintable()
