"""What the driver answers: its versions, its GPUs and their settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpudash.analysis.labels import index_ranges, visible_devices
from gpudash.doctor.check import Check, failed, passed, warned
from gpudash.doctor.environment import Machine
from gpudash.model.device import Device
from gpudash.model.errors import ExitStatus
from gpudash.model.fault import Fault
from gpudash.model.snapshot import Snapshot
from gpudash.model.state import is_suspended_on_purpose

_SLOW_SECONDS = 2.0
_POWER = "/sys/class/power_supply"
_KERNEL_LOG = "sudo dmesg | grep -i -e xid -e nvrm"
_REMEDIES = {
    "not-answering": f"end what uses it, and reset it or reboot; why: {_KERNEL_LOG}",
    "failed": f"see the kernel log: {_KERNEL_LOG}",
}
"""What to do about a state whose message does not say it."""


def checks(snapshot: Snapshot, seconds: float, machine: Machine) -> list[Check]:
    """Return how the driver and its GPUs stand, by a sample that took so many seconds."""
    gpus = [device for device in snapshot.devices if not device.is_mig]
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
    return passed("driver", ", ".join(known) or "it does not tell its versions")


def _trouble(fault: Fault) -> Check:
    if fault.source == "nvml" and fault.code == ExitStatus.NO_ANSWER:
        return failed("driver", fault.message, "sudo dmesg | grep -i xid may say why")
    return warned("readings", fault.message)


def _answer(gpus: Sequence[Device], seconds: float) -> Check:
    count = len(gpus)
    if not count:
        return failed("GPUs", "the driver knows none", "see: sudo dmesg | grep -i nvrm")
    finding = f"{count} GPU{'s' * (count != 1)}, read in {seconds:.2f} s"
    # One that does not answer is told of by itself.
    if seconds <= _SLOW_SECONDS or any(gpu.state == "not-answering" for gpu in gpus):
        return passed("GPUs", finding)
    advice = "another program may hold the driver up, or a failing GPU: " + _KERNEL_LOG
    if any(gpu.persistence_mode is False for gpu in gpus):
        advice = "without persistence each GPU is started anew: sudo nvidia-smi -pm 1"
    return warned("GPUs", f"{finding}: that is slow", advice)


def _states(gpus: Iterable[Device]) -> list[Check]:
    return [
        failed(f"GPU {gpu.index}", gpu.fault.message, _REMEDIES.get(gpu.state))
        for gpu in gpus
        if gpu.fault is not None and not is_suspended_on_purpose(gpu)
    ]


def _persistence(gpus: list[Device], machine: Machine) -> list[Check]:
    off = [gpu.index for gpu in gpus if gpu.persistence_mode is False]
    if off and any(name.startswith("BAT") for name in machine.names(_POWER)):
        return [passed("persistence", "off: on a laptop an idle GPU is to fall asleep")]
    if off:
        advice = "sudo systemctl enable --now nvidia-persistenced, or: sudo nvidia-smi -pm 1"
        finding = f"off on GPU {index_ranges(off)}: the first program waits seconds for it to start"
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
            warned("MIG", f"a change waits for a reset of GPU {index_ranges(pending)}", advice)
        )
    if empty:
        advice = "sudo nvidia-smi mig -cgi 19 -C makes one; sudo nvidia-smi -mig 0 turns it off"
        finding = f"on without instances on GPU {index_ranges(empty)}: no program can use it"
        found.append(warned("MIG", finding, advice))
    if not found and any(gpu.mig_mode for gpu in gpus):
        count = sum(device.is_mig for device in devices)
        found.append(passed("MIG", f"on, {count} instance{'s' * (count != 1)}"))
    return found


def _order(snapshot: Snapshot, machine: Machine) -> Check:
    """Compare CUDA's numbers with NVML's, by the environment that a program would inherit."""
    topic = "CUDA order"
    seen = visible_devices(machine.environ, snapshot.devices)
    limit = "" if seen.value is None else f"CUDA_VISIBLE_DEVICES={seen.value!r}: "
    out = [
        gpu.index for gpu in seen.devices if gpu.state != "ok" and not is_suspended_on_purpose(gpu)
    ]
    if out:
        finding = f"{limit}cannot be told: CUDA may leave out GPU {index_ranges(out)}, or not start"
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
