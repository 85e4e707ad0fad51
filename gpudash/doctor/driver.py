"""The driver: its kernel module and device nodes, its library, and the GPUs that it reports."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from msgspec import Struct

from gpudash.analysis.labels import index_ranges, visible_devices
from gpudash.collect.nvml.codes import library_path, module_version
from gpudash.collect.source import HostSource
from gpudash.doctor.checks import Check, Machine, failed, passed, warned
from gpudash.doctor.environment import lease_check
from gpudash.model.device import Device
from gpudash.model.errors import DriverError, ExitStatus
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot, whole_gpus
from gpudash.model.state import is_suspended_on_purpose
from gpudash.model.text import clean
from gpudash.model.units import counted

_SLOW_SECONDS = 2.0
_POWER = "/sys/class/power_supply"
_KERNEL_LOG = "sudo dmesg | grep -i -e xid -e nvrm"
_REMEDIES = {
    "not-answering": f"end what uses it, and reset it or reboot; why: {_KERNEL_LOG}",
    "failed": f"see the kernel log: {_KERNEL_LOG}",
}
"""Advice for states whose message has none."""

_BUS = "/sys/bus/pci/devices"
_NVIDIA, _DISPLAY, _BRIDGE = "0x10de", "0x03", "0x0680"
_WSL_NODE = "/dev/dxg"
_NOT_LOADED, _NOT_FOUND = 9, 12
_IN_A_CONTAINER = {
    _NOT_LOADED: "load it on the host: sudo modprobe nvidia",
    _NOT_FOUND: "start it with --gpus all: NVIDIA's container toolkit brings the library in",
}
"""What to do if the host has the driver."""


class DriverReport(Struct, frozen=True, kw_only=True):
    """The checks of the driver, and the newest CUDA that it supports, None if unknown."""

    checks: list[Check]
    is_open: bool = False
    """Whether the driver could be opened."""
    cuda_driver_version: str | None = None


def examine(source: HostSource, machine: Machine) -> DriverReport:
    """Return the checks of library, driver and GPUs."""
    start = time.monotonic()
    try:
        snapshot = source.sample()
    except DriverError as error:
        return DriverReport(checks=[*_library(machine), _refusal(error, machine)])
    seconds = time.monotonic() - start
    leases = [lease_check(machine, snapshot.devices)] if snapshot.devices else []
    return DriverReport(
        checks=[*_library(machine), *gpu_checks(snapshot, seconds, machine), *leases],
        is_open=snapshot.host.driver_version is not None,
        cuda_driver_version=snapshot.host.cuda_driver_version,
    )


def _library(machine: Machine) -> list[Check]:
    found = library_path(machine.root)
    if found is None:
        return []
    path = clean(found)
    if "/stubs/" in path:
        advice = "take the stubs folder out of LD_LIBRARY_PATH"
        return [failed("library", f"{path} is a stub that answers nothing", advice)]
    return [passed("library", path)]


def _refusal(error: DriverError, machine: Machine) -> Check:
    finding, _, advice = str(error).partition("; ")
    if machine.container:
        advice = _IN_A_CONTAINER.get(error.code, advice)
    return failed("driver", finding, advice or None)


def gpu_checks(snapshot: Snapshot, seconds: float, machine: Machine) -> list[Check]:
    """Return the checks of the driver and its GPUs, from a sample that took `seconds`."""
    gpus = whole_gpus(snapshot)
    return [
        _versions(snapshot),
        _answer(gpus, seconds),
        *_states(gpus),
        *map(_trouble, snapshot.errors),
        *_persistence(gpus, machine),
        *_mig(gpus, snapshot.devices),
        _order(snapshot, machine),
    ]


def _versions(snapshot: Snapshot) -> Check:
    host = snapshot.host
    known = [
        f"{name} {version}"
        for name, version in (
            ("driver", host.driver_version),
            ("NVML", host.nvml_version),
            ("CUDA up to", host.cuda_driver_version),
        )
        if version
    ]
    return passed("driver", ", ".join(known) or "its versions are unknown")


def _trouble(fault: Fault) -> Check:
    if fault.source == "nvml" and fault.code == ExitStatus.NO_ANSWER:
        return failed("driver", fault.message, "sudo dmesg | grep -i xid may say why")
    return warned("readings", fault.message)


def _answer(gpus: Sequence[Device], seconds: float) -> Check:
    count = len(gpus)
    if not count:
        return failed("GPUs", "the driver knows none", "see: sudo dmesg | grep -i nvrm")
    finding = f"{counted(count, 'GPU')}, read in {seconds:.2f} s"
    # One that does not answer has its own check.
    if seconds <= _SLOW_SECONDS or any(gpu.state == "not-answering" for gpu in gpus):
        return passed("GPUs", finding)
    advice = "another program or a failing GPU may block the driver: " + _KERNEL_LOG
    if any(gpu.persistence_mode is False for gpu in gpus):
        advice = "without persistence each GPU is initialised again: sudo nvidia-smi -pm 1"
    return warned("GPUs", f"{finding}, which is slow", advice)


def _states(gpus: Iterable[Device]) -> list[Check]:
    return [
        failed(f"GPU {gpu.index}", gpu.fault.message, _REMEDIES.get(gpu.state))
        for gpu in gpus
        if gpu.fault is not None and not is_suspended_on_purpose(gpu)
    ]


def _persistence(gpus: list[Device], machine: Machine) -> list[Check]:
    off = [gpu.index for gpu in gpus if gpu.persistence_mode is False]
    if off and any(name.startswith("BAT") for name in machine.names(_POWER)):
        return [passed("persistence", "off, as it should be on a laptop: an idle GPU can suspend")]
    if off:
        advice = "sudo systemctl enable --now nvidia-persistenced, or: sudo nvidia-smi -pm 1"
        finding = f"off on GPU {index_ranges(off)}: its first program waits seconds"
        return [warned("persistence", finding, advice)]
    on = [gpu for gpu in gpus if gpu.persistence_mode]
    return [passed("persistence", "on")] if on else []


def _mig(gpus: list[Device], devices: Iterable[Device]) -> list[Check]:
    parents = {device.parent_uuid for device in devices if device.is_mig}
    pending = [g.index for g in gpus if g.pending_mig_mode not in (None, g.mig_mode)]
    empty = [gpu.index for gpu in gpus if gpu.mig_mode and gpu.uuid not in parents]
    found: list[Check] = []
    if pending:
        advice = "end its programs, then: sudo nvidia-smi --gpu-reset -i " + str(pending[0])
        found.append(
            warned(
                "MIG", f"a change takes effect with a reset of GPU {index_ranges(pending)}", advice
            )
        )
    if empty:
        advice = "sudo nvidia-smi mig -cgi 19 -C makes one; sudo nvidia-smi -mig 0 turns it off"
        finding = f"on without instances on GPU {index_ranges(empty)}: no program can use it"
        found.append(warned("MIG", finding, advice))
    if not found and any(gpu.mig_mode for gpu in gpus):
        count = sum(device.is_mig for device in devices)
        found.append(passed("MIG", f"on, {counted(count, 'instance')}"))
    return found


def _order(snapshot: Snapshot, machine: Machine) -> Check:
    """Compare CUDA's numbers with NVML's, in the environment that a program would inherit."""
    topic = "CUDA order"
    seen = visible_devices(machine.environ, snapshot.devices)
    limit = "" if seen.value is None else f"CUDA_VISIBLE_DEVICES={seen.value!r}: "
    out = [
        gpu.index for gpu in seen.devices if gpu.state != "ok" and not is_suspended_on_purpose(gpu)
    ]
    if out:
        finding = f"{limit}unknown: CUDA may leave out GPU {index_ranges(out)}, or not start"
        return warned(topic, finding, "name the others by UUID, as gpudash pick does")
    if not seen.devices:
        return warned(topic, f"{limit}{'; '.join(seen.remarks) or 'CUDA sees no device'}")
    numbers = f"cuda:0 is GPU {seen.devices[0].index}"
    if len(seen.devices) > 1:
        indices = [device.index for device in seen.devices]
        in_order = indices == sorted(indices)
        named = index_ranges(indices) if in_order else ", ".join(map(str, indices))
        numbers = f"cuda:0 to cuda:{len(indices) - 1} are GPU {named}"
    if seen.is_guess:
        finding = f"{limit}{numbers}, but {'; '.join(seen.remarks)}"
        return warned(topic, finding, "export CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID")
    if seen.remarks:
        return warned(topic, f"{limit}{numbers}; {'; '.join(seen.remarks)}")
    return passed(topic, f"{limit}{numbers}")


def kernel_checks(machine: Machine, *, answers: bool = False) -> list[Check]:
    """Return the checks of module, bus and nodes, for a driver that `answers` or does not."""
    gpus = _on_bus(machine, _DISPLAY)
    module = _module(machine, gpus, answers=answers)
    return [module, *_bus(machine, gpus), *_nodes(machine, gpus), *_fabric(machine)]


def is_wsl(machine: Machine) -> bool:
    """Whether this is Linux under Windows, which has no NVIDIA module or nodes."""
    return "microsoft" in (machine.read("/proc/version") or "").lower()


def _module(machine: Machine, gpus: list[str], *, answers: bool) -> Check:
    topic = "kernel module"
    version = module_version(machine.root)
    if version is not None:
        return passed(topic, f"nvidia {version} is loaded")
    if is_wsl(machine):
        return passed(topic, "Windows drives the GPU; Linux needs no module under WSL")
    if answers:
        return passed(topic, "not visible from here, but the driver answers")
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
    count = counted(len(gpus), "NVIDIA GPU")
    if unbound and module_version(machine.root) is not None:
        finding = f"{len(unbound)} of {count} not driven by nvidia: {', '.join(unbound)}"
        return [warned(topic, finding, "vfio-pci holds those given to virtual machines")]
    sleep = f", {len(asleep)} asleep, which gpudash does not wake" if asleep else ""
    return [passed(topic, f"{count}{sleep}")]


def _nodes(machine: Machine, gpus: list[str]) -> list[Check]:
    topic = "device nodes"
    if is_wsl(machine):
        return [_wsl_node(machine)]
    if module_version(machine.root) is None:
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
    if len(cards) < driven and machine.container is None:
        finding = f"{len(cards)} for {driven} GPUs"
        return [warned(topic, finding, "running nvidia-smi as root makes the others")]
    finding = f"nvidiactl and those of {counted(len(cards), 'GPU')} are readable and writable"
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
    """Check for the manager that CUDA needs to start on GPUs behind NVSwitches."""
    switches = [gpu for gpu in _on_bus(machine, _BRIDGE) if _driver(machine, gpu) is not None]
    if not switches:
        return []
    topic, count = "fabric manager", counted(len(switches), "NVSwitch")
    for name in machine.names("/proc"):
        if name.isdecimal() and (machine.read(f"/proc/{name}/comm") or "").startswith("nv-fabric"):
            return [passed(topic, f"runs, for {count}")]
    advice = "outside a container: sudo systemctl start nvidia-fabricmanager"
    are = "is" if len(switches) == 1 else "are"
    return [warned(topic, f"not seen, although there {are} {count}", advice)]


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
