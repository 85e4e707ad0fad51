from pathlib import Path

import pytest

from gpudash.doctor import driver
from tests.doctor.machines import VERSION, add_gpu, add_module, add_nodes, machine, told, write


def test_all_is_well(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_gpu(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    found = driver.checks(machine(tmp_path))
    assert [check.verdict for check in found] == ["PASS", "PASS", "PASS"]
    assert "550.54.15" in found[0].finding


@pytest.mark.parametrize(
    "line",
    [VERSION, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build"],
)
def test_the_version_of_the_module(tmp_path: Path, line: str) -> None:
    add_module(tmp_path, line)
    assert driver.module_version(machine(tmp_path)) == "550.54.15"


def test_no_module_and_no_gpu(tmp_path: Path) -> None:
    (module,) = driver.checks(machine(tmp_path))
    assert module.verdict == "FAIL"
    assert "no NVIDIA GPU on the PCI bus" in module.finding
    assert "lspci" in (module.advice or "")


def test_a_module_that_cannot_be_seen_is_no_fault_where_the_driver_answers(tmp_path: Path) -> None:
    (module,) = driver.checks(machine(tmp_path), answers=True)
    assert module.verdict == "PASS"


@pytest.mark.parametrize("inside", [False, True])
def test_a_gpu_without_its_node(tmp_path: Path, inside: bool) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    add_gpu(tmp_path)
    add_gpu(tmp_path, "0000:3b:00.0")
    if inside:
        write(tmp_path, ".dockerenv")
    nodes = told(driver.checks(machine(tmp_path)))["device nodes"]
    assert nodes.verdict == ("PASS" if inside else "WARN")
    assert inside or nodes.finding == "1 for 2 GPUs"


def test_no_module_for_a_gpu(tmp_path: Path) -> None:
    add_gpu(tmp_path, driver=None)
    module = told(driver.checks(machine(tmp_path)))["kernel module"]
    assert module.verdict == "FAIL"
    assert "sudo modprobe nvidia" in (module.advice or "")


def test_nouveau_in_its_place(tmp_path: Path) -> None:
    add_gpu(tmp_path, driver="nouveau")
    write(tmp_path, "sys/module/nouveau/refcnt")
    assert "nouveau" in told(driver.checks(machine(tmp_path)))["kernel module"].finding


def test_a_gpu_given_to_a_virtual_machine(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia-uvm")
    add_gpu(tmp_path)
    add_gpu(tmp_path, "0000:3b:00.0", driver="vfio-pci")
    bus = told(driver.checks(machine(tmp_path)))["PCI bus"]
    assert bus.verdict == "WARN"
    assert "1 of 2 NVIDIA GPUs not driven by nvidia: 0000:3b:00.0" in bus.finding


def test_a_sleeping_gpu_is_no_fault(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_gpu(tmp_path)
    write(tmp_path, "sys/bus/pci/devices/0000:1a:00.0/power/runtime_status", "suspended\n")
    bus = told(driver.checks(machine(tmp_path)))["PCI bus"]
    assert bus.verdict == "PASS"
    assert "1 asleep" in bus.finding


def test_missing_nodes(tmp_path: Path) -> None:
    add_module(tmp_path)
    nodes = told(driver.checks(machine(tmp_path)))["device nodes"]
    assert nodes.verdict == "FAIL"
    assert "/dev/nvidiactl" in nodes.finding


def test_nodes_without_permission(tmp_path: Path) -> None:
    class Closed(driver.Machine):
        def is_accessible(self, path: str) -> bool:
            return path != "/dev/nvidia1"

    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0", "nvidia1", "nvidia-uvm")
    nodes = told(driver.checks(Closed(str(tmp_path), {})))["device nodes"]
    assert nodes.verdict == "FAIL"
    assert nodes.finding == "no permission on /dev/nvidia1"


def test_cuda_cannot_start_without_uvm(tmp_path: Path) -> None:
    add_module(tmp_path)
    add_nodes(tmp_path, "nvidiactl", "nvidia0")
    checks = driver.checks(machine(tmp_path))
    assert checks[-1].verdict == "WARN"
    assert "nvidia-uvm" in checks[-1].finding


@pytest.mark.parametrize("has_node", [True, False])
def test_wsl(tmp_path: Path, has_node: bool) -> None:
    write(tmp_path, "proc/version", "Linux version 6.6.87.2-microsoft-standard-WSL2")
    if has_node:
        add_nodes(tmp_path, "dxg")
    found = told(driver.checks(machine(tmp_path)))
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
    fabric = told(driver.checks(machine(tmp_path)))["fabric manager"]
    assert fabric.verdict == ("PASS" if runs else "WARN")
