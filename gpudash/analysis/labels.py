"""Labels for devices, GPU ranges and commands, and the meaning of CUDA_VISIBLE_DEVICES."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpudash.model.device import Device, device_labels
from gpudash.model.process import EXITED, Process, ProcessDevice
from gpudash.model.text import SafeText, clean
from gpudash.model.units import ABSENT, ranges

_MAKERS = ("NVIDIA ", "GeForce ", "Tesla ")
_MAX_NAME = 32
_NOISE = (" GPU", " Generation")

_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
_DEVICE_ORDER = "CUDA_DEVICE_ORDER"
_CONTAINER_DEVICES = "NVIDIA_VISIBLE_DEVICES"
_NO_SUBSET = frozenset({"", "all", "none", "void"})


def gpu_ranges(devices: Iterable[ProcessDevice | Device], mig_labels: Mapping[str, str]) -> str:
    """Return devices as ranges: `0-7`, `0,2-3`, a MIG instance as `0:1`.

    They are in the order of the GPUs, instances among them.
    """
    whole: set[int] = set()
    instances: list[str] = []
    for device in devices:
        label = mig_labels.get(device.uuid or "")
        if label is None:
            whole.add(device.index)
        else:
            instances.append(label)
    parts = ranges(whole)
    if instances:
        parts = sorted([*parts, *instances], key=_sort_key)
    return ",".join(parts) or ABSENT


def mig_labels(devices: Sequence[Device]) -> dict[str, str]:
    """Return the labels of the MIG instances, for `gpu_ranges`."""
    labels = device_labels(devices)
    return {device.key: labels[device.key] for device in devices if device.is_mig}


def used_gpus(shares: Iterable[ProcessDevice], devices: Sequence[Device]) -> str:
    """Return the devices that processes use, each once: `0-3`."""
    unique = {share.uuid or str(share.index): share for share in shares}
    return gpu_ranges(unique.values(), mig_labels(devices))


def index_ranges(indices: Iterable[int]) -> str:
    """Return indices in any order as ranges: `0-3,6`."""
    return ",".join(ranges(indices)) or ABSENT


def _sort_key(part: str) -> tuple[int, int]:
    """Return the sort key of a label or a range: last if its GPU is unknown."""
    gpu, _, rest = part.replace("-", ":").partition(":")
    return (int(gpu) if gpu.isdigit() else sys.maxsize, int(rest or 0))


def short_name(device: Device) -> str:
    """Return the product without brand names: `H100 80GB HBM3`, `GTX 1080 Ti`."""
    name = device.name
    if not name:
        return ABSENT
    if device.is_mig and "MIG " in name:
        return name[name.index("MIG ") :]
    return product(name)


def product(name: str) -> str:
    """Return a full product name without brand names, or all of it if nothing else remains."""
    short = name
    for maker in _MAKERS:
        short = short.removeprefix(maker)
    for noise in _NOISE:
        short = short.removesuffix(noise)
    return short or name


def told_apart(names: Iterable[str]) -> dict[str, str]:
    """Return full product names with the fewest words that distinguish them: `A100`, `H100`.

    Words end at a space or a hyphen, and are kept at least up to one with a digit.
    """
    words = {name: re.findall(r"[ -]?[^ -]+", product(name)) for name in names}
    short = {}
    for name, parts in words.items():
        others = [each for each in words.values() if each != parts]
        for count in range(1, len(parts) + 1):
            text = "".join(parts[:count])
            if re.search(r"\d", text) and not any(each[:count] == parts[:count] for each in others):
                break
        short[name] = text
    return short


def pcie_link(device: Device) -> str:
    """Return present generation and lanes of the link: `gen4 x16`, `gen? x16`.

    `ABSENT` if neither is known.
    """
    known = device.pcie_link_generation, device.pcie_link_width
    if known == (None, None):
        return ABSENT
    generation, lanes = ("?" if each is None else each for each in known)
    return f"gen{generation} x{lanes}"


def whose(name: str | None, username: str | None, pid: int | None) -> str:
    """Return `bob's python (PID 4242)` without unknown parts, shortening a long name."""
    short = str(clean(name or "process"))
    if len(short) > _MAX_NAME:
        short = f"{short[: _MAX_NAME - 3]}..."
    owner = f"{clean(username)}'s " if username else ""
    return f"{owner}{short}" + ("" if pid is None else f" (PID {pid})")


def owner(process: Process) -> SafeText | None:
    """Return a process's owner, `(exited)` if only that is known, None if nothing is."""
    if process.username is None and process.hidden_reason == EXITED:
        return SafeText(f"({EXITED})")
    return process.username


def command(process: Process) -> str:
    """Return the command line in shell syntax, or `(reason)` if it is hidden."""
    return _command(process, process.command_line)


def short_command(process: Process) -> str:
    """Return the command line without the program's folder."""
    return _command(process, _without_folder(process.command_line))


def _without_folder(line: Sequence[str] | None) -> Sequence[str] | None:
    # A title that a process gave itself ("nginx: worker /etc/nginx") is not a path.
    if not line or " " in line[0]:
        return line
    return (line[0].rpartition("/")[2] or line[0], *line[1:])


def _command(process: Process, line: Sequence[str] | None) -> str:
    if line:
        from shlex import join

        return line[0] if len(line) == 1 else join(line)
    if process.hidden_reason:
        return f"({process.hidden_reason})"
    return process.name or ABSENT


class VisibleDevices(Struct, frozen=True, kw_only=True):
    """The devices that CUDA shows to a process: an index in `devices` is that after `cuda:`."""

    value: str | None
    """The variable, None if it is not set."""
    devices: tuple[Device, ...]
    is_guess: bool
    """Whether an index may mean another GPU than given here."""
    remarks: tuple[str, ...]
    """Why entries were dropped, and why it is a guess, a sentence each."""


def visible_devices(environment: Mapping[str, str], devices: Sequence[Device]) -> VisibleDevices:
    """Return the devices that CUDA shows to a process with this environment."""
    value = environment.get(_VISIBLE_DEVICES)
    remarks: list[str] = []
    if value is None:
        found = [device for device in devices if not device.is_mig]
    else:
        found = _chosen(value, devices, remarks)
    doubts = _doubts(environment, devices) if value is None or _has_index(value) else []
    return VisibleDevices(
        value=None if value is None else clean(value),
        devices=tuple(found),
        is_guess=bool(doubts) and bool(found),
        remarks=(*remarks, *doubts) if found else tuple(remarks),
    )


def _chosen(value: str, devices: Sequence[Device], remarks: list[str]) -> list[Device]:
    """Return the devices up to the first entry that CUDA rejects."""
    found: list[Device] = []
    if not value.strip():
        remarks.append("it is empty: CUDA sees no device")
        return found
    for entry in value.split(","):
        word = entry.strip()
        device = _device(word, devices)
        if device is None or device in found:
            reason = "no device" if device is None else "named twice"
            remarks.append(f"CUDA stops at {clean(word, 80)!r}: {reason}")
            break
        if found and (device.is_mig or found[0].is_mig):
            remarks.append("CUDA uses one MIG instance at most and ignores the rest")
            break
        found.append(device)
    return found


def _device(word: str, devices: Sequence[Device]) -> Device | None:
    if word.isascii() and word.isdecimal():
        number = int(word[:9])
        return next((d for d in devices if not d.is_mig and d.index == number), None)
    wanted = word.lower()
    if "/" in wanted:
        return next((d for d in devices if _old_mig_name(d) == wanted), None)
    if not wanted.startswith(("gpu-", "mig-")):
        return None
    fitting = [d for d in devices if (d.uuid or "").lower().startswith(wanted)]
    return fitting[0] if len(fitting) == 1 else None


def _old_mig_name(device: Device) -> str:
    """Return `mig-gpu-UUID/GI/CI`, the name of an instance for drivers before 470."""
    parts = (device.parent_uuid, device.gpu_instance_id, device.compute_instance_id)
    return "mig-{}/{}/{}".format(*parts).lower()


def _has_index(value: str) -> bool:
    return any(entry.strip().isdecimal() for entry in value.split(","))


def _doubts(environment: Mapping[str, str], devices: Sequence[Device]) -> list[str]:
    """Return why an index may differ from NVML's."""
    doubts: list[str] = []
    models = {device.name for device in devices if device.name and not device.is_mig}
    if environment.get(_DEVICE_ORDER) != "PCI_BUS_ID" and len(models) > 1:
        doubts.append(f"the order is a guess: models differ and {_DEVICE_ORDER} is not PCI_BUS_ID")
    subset = environment.get(_CONTAINER_DEVICES, "")
    if subset not in _NO_SUBSET:
        doubts.append(f"in a container indices count its own GPUs only ({clean(subset, 80)})")
    return doubts
