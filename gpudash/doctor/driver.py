"""The kernel's side: its module, the GPUs on the bus, and the nodes through which they are used."""

from __future__ import annotations

import os
import re
import time

from msgspec import Struct

from gpudash.collect.source import Source
from gpudash.doctor import environment as surroundings
from gpudash.doctor import gpus
from gpudash.doctor.check import Check, failed, passed, warned
from gpudash.doctor.environment import Machine, container
from gpudash.model.errors import DriverError
from gpudash.model.text import SafeText, clean

_BUS = "/sys/bus/pci/devices"
_NVIDIA, _DISPLAY, _BRIDGE = "0x10de", "0x03", "0x0680"
_VERSION = re.compile(r"\s(\d{3,4}\.\d+(?:\.\d+)?)\s")
_WSL_NODE = "/dev/dxg"


def checks(machine: Machine, *, answers: bool = False) -> list[Check]:
    """Return how module, bus and nodes stand, by a driver that answers or does not."""
    gpus = _on_bus(machine, _DISPLAY)
    module = _module(machine, gpus, answers=answers)
    return [module, *_bus(machine, gpus), *_nodes(machine, gpus), *_fabric(machine)]


def module_version(machine: Machine) -> str | None:
    """Return the version of the loaded kernel module, None where there is none."""
    text = machine.read("/proc/driver/nvidia/version") or ""
    found = _VERSION.search(f"{text.partition(chr(10))[0]} ")
    return found[1] if found else machine.read("/sys/module/nvidia/version")


def is_wsl(machine: Machine) -> bool:
    """Whether this is Linux under Windows, which has no module and no nodes of NVIDIA's."""
    return "microsoft" in (machine.read("/proc/version") or "").lower()


def _module(machine: Machine, gpus: list[str], *, answers: bool) -> Check:
    topic = "kernel module"
    version = module_version(machine)
    if version is not None:
        return passed(topic, f"nvidia {clean(version)} is loaded")
    if is_wsl(machine):
        return passed(topic, "Windows drives the GPU; Linux needs no module under WSL")
    if answers:
        return passed(topic, "not to be seen from here, but the driver answers")
    if machine.exists("/sys/module/nouveau"):
        advice = "blacklist nouveau, install NVIDIA's driver and reboot"
        return failed(topic, "nouveau drives the GPUs, which offers no NVML", advice)
    if gpus:
        advice = "install the driver, then: sudo modprobe nvidia"
        return failed(topic, "nvidia is not loaded although there are GPUs", advice)
    advice = (
        "is one seated, powered and enabled in the firmware? lspci -d 10de: lists them; a virtual "
        "machine or a container has to be given one"
    )
    finding = "nvidia is not loaded and there is no NVIDIA GPU on the PCI bus"
    return failed(topic, finding, advice)


def _bus(machine: Machine, gpus: list[str]) -> list[Check]:
    topic = "PCI bus"
    if not gpus:
        return []
    asleep = [gpu for gpu in gpus if _fact(machine, gpu, "power/runtime_status") == "suspended"]
    unbound = [gpu for gpu in gpus if _driver(machine, gpu) != "nvidia"]
    count = f"{len(gpus)} NVIDIA GPU{'s' * (len(gpus) != 1)}"
    if unbound and module_version(machine) is not None:
        finding = f"{len(unbound)} of {count} not driven by nvidia: {', '.join(unbound)}"
        return [warned(topic, finding, "vfio-pci holds those given to virtual machines")]
    sleep = f", {len(asleep)} asleep: gpudash lets them sleep" if asleep else ""
    return [passed(topic, f"{count}{sleep}")]


def _nodes(machine: Machine, gpus: list[str]) -> list[Check]:
    topic = "device nodes"
    if is_wsl(machine):
        return [_wsl_node(machine)]
    if module_version(machine) is None:
        return []
    cards = [f"/dev/{name}" for name in machine.names("/dev") if re.fullmatch(r"nvidia\d+", name)]
    needed = ["/dev/nvidiactl", *cards]
    missing = [] if machine.exists("/dev/nvidiactl") else ["/dev/nvidiactl"]
    if missing or not cards:
        advice = "sudo nvidia-modprobe -c0 makes them; a container needs them passed in"
        return [failed(topic, f"missing: {', '.join(missing) or '/dev/nvidia0'}", advice)]
    closed = [node for node in needed if not machine.is_accessible(node)]
    if closed:
        advice = "join the group that owns them: ls -l /dev/nvidia*"
        return [failed(topic, f"no permission on {', '.join(closed)}", advice)]
    driven = sum(_driver(machine, gpu) == "nvidia" for gpu in gpus)
    if len(cards) < driven and container(machine) is None:
        finding = f"{len(cards)} for {driven} GPUs"
        return [warned(topic, finding, "running nvidia-smi as root makes the others")]
    plural = "s" * (len(cards) != 1)
    finding = f"nvidiactl and those of {len(cards)} GPU{plural} are readable and writable"
    found = [passed(topic, finding)]
    if not machine.exists("/dev/nvidia-uvm"):
        advice = "CUDA programs make it when root; else: sudo nvidia-modprobe -c0 -u"
        found.append(warned(topic, "/dev/nvidia-uvm is missing: CUDA cannot start", advice))
    return found


def _wsl_node(machine: Machine) -> Check:
    if machine.exists(_WSL_NODE):
        return passed("device nodes", f"{_WSL_NODE}; under WSL no process can be attributed")
    advice = "run WSL 2, and update Windows and its NVIDIA driver"
    return failed("device nodes", f"{_WSL_NODE} is missing: WSL has no GPU", advice)


def _fabric(machine: Machine) -> list[Check]:
    """Look for the manager without which GPUs behind NVSwitches do not start CUDA."""
    switches = [gpu for gpu in _on_bus(machine, _BRIDGE) if _driver(machine, gpu) is not None]
    if not switches:
        return []
    topic = "fabric manager"
    for name in machine.names("/proc"):
        if name.isdecimal() and (machine.read(f"/proc/{name}/comm") or "").startswith("nv-fabric"):
            return [passed(topic, f"runs, for {len(switches)} NVSwitches")]
    advice = "outside a container: sudo systemctl start nvidia-fabricmanager"
    return [warned(topic, f"not seen, although there are {len(switches)} NVSwitches", advice)]


def _on_bus(machine: Machine, kind: str) -> list[str]:
    """Return the addresses of NVIDIA's devices of a PCI class."""
    return [
        address
        for address in machine.names(_BUS)
        if _fact(machine, address, "vendor") == _NVIDIA
        and (_fact(machine, address, "class") or "").startswith(kind)
    ]


def _driver(machine: Machine, address: str) -> str | None:
    target = machine.target(f"{_BUS}/{address}/driver")
    return target.rpartition("/")[2] if target else None


def _fact(machine: Machine, address: str, name: str) -> str | None:
    return machine.read(f"{_BUS}/{address}/{name}")


_NAME = "libnvidia-ml.so"
_NOT_LOADED, _NOT_FOUND, _MISMATCH, _UNKNOWN = 9, 12, 18, 999
_IN_A_CONTAINER = {
    _NOT_LOADED: "load it on the host: sudo modprobe nvidia",
    _NOT_FOUND: "start it with --gpus all: NVIDIA's container toolkit brings the library in",
    _UNKNOWN: "start it again; `systemctl daemon-reload` on the host does this to containers",
}
"""What to do where the host has the driver."""


class Answer(Struct, frozen=True, kw_only=True):
    """What the driver had to say, and the newest CUDA that it runs, None if it did not tell."""

    checks: list[Check]
    is_open: bool = False
    """Whether the driver let itself be opened."""
    cuda_driver_version: str | None = None


def answer(source: Source, machine: Machine) -> Answer:
    """Return how library, driver and GPUs stand."""
    start = time.monotonic()
    try:
        snapshot = source.sample()
    except DriverError as error:
        return Answer(checks=[*_library(machine), _refusal(error, machine)])
    seconds = time.monotonic() - start
    return Answer(
        checks=[*_library(machine), *gpus.checks(snapshot, seconds, machine)],
        is_open=snapshot.host.driver_version is not None,
        cuda_driver_version=snapshot.host.cuda_driver_version,
    )


def _library(machine: Machine) -> list[Check]:
    path = _loaded(machine)
    if path is None:
        return []
    if "/stubs/" in path:
        advice = "take the stubs folder out of LD_LIBRARY_PATH"
        return [failed("library", f"{path} is a stub that answers nothing", advice)]
    return [passed("library", path)]


def _refusal(error: DriverError, machine: Machine) -> Check:
    finding, _, advice = str(error).partition("; ")
    module = module_version(machine)
    if error.code == _MISMATCH and module:
        loaded = (_loaded(machine) or "").partition(f"{_NAME}.")[2]
        finding = f"kernel module {clean(module)}, library {loaded or 'of another version'}"
    if surroundings.container(machine):
        advice = _IN_A_CONTAINER.get(error.code, advice)
        if error.code == _UNKNOWN:
            finding = "the container's access to the GPUs was revoked (NVML error 999)"
    return failed("driver", finding, advice or None)


def _loaded(machine: Machine) -> SafeText | None:
    """Return the file that NVML was loaded from, None if there was none."""
    for line in (machine.read("/proc/self/maps") or "").splitlines():
        path = line.partition("/")[2]
        if _NAME in path:
            return clean(os.path.realpath(f"/{path}"))
    return None
