"""Labels for people: of devices, GPU ranges and commands, and what CUDA_VISIBLE_DEVICES means."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from gpudash.model.device import Device, device_labels
from gpudash.model.process import EXITED, Process, ProcessDevice
from gpudash.model.text import SafeText, clean
from gpudash.model.units import ABSENT

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
    parts = _ranges(whole)
    if instances:
        parts = sorted([*parts, *instances], key=_sort_key)
    return ",".join(parts) or ABSENT


def mig_labels(devices: Sequence[Device]) -> dict[str, str]:
    """Return the labels of the MIG instances alone, as `gpu_ranges` takes them."""
    labels = device_labels(devices)
    return {device.key: labels[device.key] for device in devices if device.is_mig}


def used_gpus(shares: Iterable[ProcessDevice], devices: Sequence[Device]) -> str:
    """Return the devices that several processes use, each once: `0-3`."""
    unique = {share.uuid or str(share.index): share for share in shares}
    return gpu_ranges(unique.values(), mig_labels(devices))


def index_ranges(indices: Iterable[int]) -> str:
    """Return indices in any order as ranges: `0-3,6`."""
    return ",".join(_ranges(indices)) or ABSENT


def _sort_key(part: str) -> tuple[int, int]:
    """Return the sort key of a label or a range: last if its GPU is not known."""
    gpu, _, rest = part.replace("-", ":").partition(":")
    return (int(gpu) if gpu.isdigit() else sys.maxsize, int(rest or 0))


def _ranges(numbers: Iterable[int]) -> list[str]:
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return [str(first) if first == last else f"{first}-{last}" for first, last in runs]


def short_name(device: Device) -> str:
    """Return the product without brand names: `H100 80GB HBM3`, `GTX 1080 Ti`."""
    name = device.name
    if not name:
        return ABSENT
    if device.is_mig and "MIG " in name:
        return name[name.index("MIG ") :]
    return product(name)


def product(name: str) -> str:
    """Return a full name of a product without brand names, all of it if nothing else is there."""
    short = name
    for maker in _MAKERS:
        short = short.removeprefix(maker)
    for noise in _NOISE:
        short = short.removesuffix(noise)
    return short or name


def told_apart(names: Iterable[str]) -> dict[str, str]:
    """Return full names of products with the fewest words that tell them apart: `A100`, `H100`.

    The words are those before a space or a hyphen, up to one with a digit at least.
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
    """Return generation and lanes of the link as it is now: `gen4 x16`, `gen? x16`.

    It is `ABSENT` where neither is known.
    """
    known = device.pcie_link_generation, device.pcie_link_width
    if known == (None, None):
        return ABSENT
    generation, lanes = ("?" if each is None else each for each in known)
    return f"gen{generation} x{lanes}"


def whose(name: str | None, username: str | None, pid: int | None) -> str:
    """Return `bob's python (PID 4242)` without unknown parts; a long name is cut."""
    short = str(clean(name or "process"))
    if len(short) > _MAX_NAME:
        short = f"{short[: _MAX_NAME - 3]}..."
    owner = f"{clean(username)}'s " if username else ""
    return f"{owner}{short}" + ("" if pid is None else f" (PID {pid})")


def owner(process: Process) -> SafeText | None:
    """Return whose a process is, `(exited)` where only that is known of it, None if nothing is."""
    if process.username is None and process.hidden_reason == EXITED:
        return SafeText(f"({EXITED})")
    return process.username


def command(process: Process) -> str:
    """Return the command line as a shell would take it, or `(reason)` when it is hidden."""
    return _command(process, process.command_line)


def short_command(process: Process) -> str:
    """Return the command line with the program's folder left out."""
    return _command(process, _without_folder(process.command_line))


def _without_folder(line: Sequence[str] | None) -> Sequence[str] | None:
    # A title that a process gave itself ("nginx: worker /etc/nginx") is no path.
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
    """What CUDA shows to a process: the index in `devices` is the number after `cuda:`."""

    value: str | None
    """The variable as it is set, None if it is not."""
    devices: tuple[Device, ...]
    is_guess: bool
    """Whether an index may mean another GPU than the one given here."""
    remarks: tuple[str, ...]
    """Why entries were dropped and why it is a guess, a sentence each."""


def visible_devices(environment: Mapping[str, str], devices: Sequence[Device]) -> VisibleDevices:
    """Return the devices that CUDA shows to a process with that environment."""
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
    """Return `mig-gpu-UUID/GI/CI`, as drivers before 470 name an instance."""
    parts = (device.parent_uuid, device.gpu_instance_id, device.compute_instance_id)
    return "mig-{}/{}/{}".format(*parts).lower()


def _has_index(value: str) -> bool:
    return any(entry.strip().isdecimal() for entry in value.split(","))


def _doubts(environment: Mapping[str, str], devices: Sequence[Device]) -> list[str]:
    """Return why an index may not be NVML's."""
    doubts: list[str] = []
    models = {device.name for device in devices if device.name and not device.is_mig}
    if environment.get(_DEVICE_ORDER) != "PCI_BUS_ID" and len(models) > 1:
        doubts.append(f"the order is a guess: models differ and {_DEVICE_ORDER} is not PCI_BUS_ID")
    subset = environment.get(_CONTAINER_DEVICES, "")
    if subset not in _NO_SUBSET:
        doubts.append(f"in a container indices count its own GPUs only ({clean(subset, 80)})")
    return doubts
