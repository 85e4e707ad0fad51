from pathlib import Path
from typing import Any

import pytest

from gpudash.doctor import driver
from gpudash.doctor.checks import Check, Machine
from gpudash.model.device import Device, DeviceState
from gpudash.model.errors import DriverError
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.model.text import clean
from tests.doctor.machines import VERSION, add_gpu, add_module, add_nodes, by_topic, machine, write
from tests.factories import gpu_uuid, make_device, make_snapshot


def test_all_is_well(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_gpu(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    found = driver.kernel_checks(machine(tmp_path))
    assert [check.verdict for check in found] == ["PASS", "PASS", "PASS"]
    assert "550.54.15" in found[0].finding


@pytest.mark.parametrize(
    "line",
    [VERSION, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build"],
)
def test_the_version_of_the_module(tmp_path: Path, line: str) -> None:
    add_module(tmp_path, line)
    (module,) = driver.kernel_checks(machine(tmp_path))[:1]
    assert module.finding == "nvidia 550.54.15 is loaded"


def test_no_module_and_no_gpu(tmp_path: Path) -> None:
    (module,) = driver.kernel_checks(machine(tmp_path))
    assert module.verdict == "FAIL"
    assert "no NVIDIA GPU on the PCI bus" in module.finding
    assert "lspci" in (module.advice or "")


def test_a_module_that_cannot_be_seen_is_no_fault_where_the_driver_answers(tmp_path: Path) -> None:
    (module,) = driver.kernel_checks(machine(tmp_path), answers=True)
    assert module.verdict == "PASS"


@pytest.mark.parametrize("inside", [False, True])
def test_a_gpu_without_its_node(tmp_path: Path, inside: bool) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    add_gpu(tmp_path)
    add_gpu(tmp_path, "0000:3b:00.0")
    if inside:
        write(tmp_path, ".dockerenv")
    nodes = by_topic(driver.kernel_checks(machine(tmp_path)))["device nodes"]
    assert nodes.verdict == ("PASS" if inside else "WARN")
    assert inside or nodes.finding == "1 for 2 GPUs"


def test_no_module_for_a_gpu(tmp_path: Path) -> None:
    add_gpu(tmp_path, driver=None)
    module = by_topic(driver.kernel_checks(machine(tmp_path)))["kernel module"]
    assert module.verdict == "FAIL"
    assert "sudo modprobe nvidia" in (module.advice or "")


def test_nouveau_in_its_place(tmp_path: Path) -> None:
    add_gpu(tmp_path, driver="nouveau")
    write(tmp_path, "sys/module/nouveau/refcnt")
    assert "nouveau" in by_topic(driver.kernel_checks(machine(tmp_path)))["kernel module"].finding


def test_a_gpu_given_to_a_virtual_machine(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    add_gpu(tmp_path)
    add_gpu(tmp_path, "0000:3b:00.0", driver="vfio-pci")
    bus = by_topic(driver.kernel_checks(machine(tmp_path)))["PCI bus"]
    assert bus.verdict == "WARN"
    assert "1 of 2 NVIDIA GPUs not driven by nvidia: 0000:3b:00.0" in bus.finding


def test_a_sleeping_gpu_is_no_fault(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_gpu(tmp_path)
    write(tmp_path, "sys/bus/pci/devices/0000:1a:00.0/power/runtime_status", "suspended\n")
    bus = by_topic(driver.kernel_checks(machine(tmp_path)))["PCI bus"]
    assert bus.verdict == "PASS"
    assert "1 asleep" in bus.finding


def test_missing_nodes(tmp_path: Path) -> None:
    add_module(tmp_path)
    nodes = by_topic(driver.kernel_checks(machine(tmp_path)))["device nodes"]
    assert nodes.verdict == "FAIL"
    assert "/dev/nvidiactl" in nodes.finding


def test_nodes_without_permission(tmp_path: Path) -> None:
    class Closed(driver.Machine):
        def is_accessible(self, path: str) -> bool:
            return path != "/dev/nvidia1"

    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm")
    nodes = by_topic(driver.kernel_checks(Closed(str(tmp_path), {})))["device nodes"]
    assert nodes.verdict == "FAIL"
    assert nodes.finding == "no permission on /dev/nvidia1"


def test_cuda_cannot_start_without_uvm(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0")
    checks = driver.kernel_checks(machine(tmp_path))
    assert checks[-1].verdict == "WARN"
    assert "nvidia-uvm" in checks[-1].finding


@pytest.mark.parametrize("has_node", [True, False])
def test_wsl(tmp_path: Path, has_node: bool) -> None:
    write(tmp_path, "proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2")
    if has_node:
        add_nodes(tmp_path, "dxg")
    found = by_topic(driver.kernel_checks(machine(tmp_path)))
    assert found["kernel module"].verdict == "PASS"
    assert found["device nodes"].verdict == ("PASS" if has_node else "FAIL")


@pytest.mark.parametrize("runs", [True, False])
def test_switches_need_their_manager(tmp_path: Path, runs: bool) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    add_gpu(tmp_path, "0000:85:00.0", driver="nvidia-nvswitch")
    write(tmp_path, "sys/bus/pci/devices/0000:85:00.0/class", "0x068000\n")
    if runs:
        write(tmp_path, "proc/812/comm", "nv-fabricmanage\n")
    fabric = by_topic(driver.kernel_checks(machine(tmp_path)))["fabric manager"]
    assert fabric.verdict == ("PASS" if runs else "WARN")
    assert fabric.finding.endswith("there is 1 NVSwitch" if not runs else "runs, for 1 NVSwitch")


class Refusing:
    def __init__(self, code: int) -> None:
        self._code = code

    def sample(self) -> Snapshot:
        raise DriverError(self._code, f"it refuses (NVML error {self._code}); load it here")

    def close(self) -> None:
        pass


def refusal(root: Path, code: int) -> Check:
    answer = driver.examine(Refusing(code), machine(root))
    assert not answer.is_open
    return by_topic(answer.checks)["driver"]


@pytest.mark.parametrize(("code", "advice"), [(9, "on the host"), (12, "--gpus all")])
def test_in_a_container_it_is_the_host_that_has_the_driver(
    tmp_path: Path, code: int, advice: str
) -> None:
    assert refusal(tmp_path, code).advice == "load it here"
    write(tmp_path, ".dockerenv")
    check = refusal(tmp_path, code)
    assert check.verdict == "FAIL"
    assert advice in (check.advice or "")


NOWHERE = Path("/nowhere")


def checked(
    *devices: Device, seconds: float = 0.02, root: Path = NOWHERE, **environ: str
) -> dict[str, Check]:
    machine = Machine(str(root), environ)
    return by_topic(driver.gpu_checks(make_snapshot(devices=devices), seconds, machine))


def out_of_order(index: int, state: DeviceState) -> Device:
    fault = Fault(source="nvml", message=clean(f"GPU {index}: {state}"))
    return make_device(index=index, state=state, fault=fault)


def pair(**overrides: Any) -> tuple[Device, Device]:
    return make_device(index=0, **overrides), make_device(index=1, **overrides)


def test_gpus_are_well() -> None:
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


def test_persistence_that_is_not_reported_is_not_judged() -> None:
    assert "persistence" not in checked(*pair(persistence_mode=None))


@pytest.mark.parametrize(
    ("mig_mode", "pending", "finding"),
    [
        (False, True, "a change takes effect with a reset of GPU 0-1"),
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
def test_the_order_cannot_be_reported_where_one_is_out_of_order(state: DeviceState) -> None:
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
